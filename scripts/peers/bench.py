"""What the peers share: timing, numbers that Go draws alike, and output in the
format of Go's benchmarks, so that one reader takes both."""

import ctypes
import time
from collections.abc import Callable


class Sequence:
    """A linear congruential generator, the same as in the Go benchmarks."""

    def __init__(self, seed: int) -> None:
        self.state = seed

    def next(self) -> float:
        """Uniform on [-1, 1)."""
        self.state = (self.state * 1664525 + 1013904223) & 0xFFFFFFFF
        return self.state / 2**31 - 1

    def fill(self, n: int, scale: float) -> list[float]:
        return [self.next() * scale for _ in range(n)]


def measure(step: Callable[[], object], seconds: float) -> tuple[int, float]:
    """Runs step for about so many seconds; returns how often, and ns for each."""
    n = 0
    began = time.perf_counter_ns()
    while True:
        step()
        n += 1
        elapsed = time.perf_counter_ns() - began
        if elapsed >= seconds * 1e9:
            return n, elapsed / n


def report(name: str, n: int, ns: float, **metrics: float) -> None:
    """Prints one result as `go test -bench` does; per_s stands for /s."""
    extra = "".join(f" {value} {unit.replace('_per_s', '/s')}" for unit, value in metrics.items())
    print(f"Benchmark{name} {n} {ns:.1f} ns/op{extra}", flush=True)


def openblas_core() -> str:
    """The kernels that the OpenBLAS in this process has chosen."""
    for library in ("libblas.so.3", "libopenblas.so.0"):
        try:
            name = ctypes.CDLL(library).openblas_get_corename
        except (OSError, AttributeError):
            continue
        name.restype = ctypes.c_char_p
        return (name() or b"unknown").decode()
    return "unknown"
