"""A Gymnasium-style environment over the simulator: a step is one routing
decision, as in env.Environment. No Gymnasium package is needed. What it leaves
out, to its advantage: forecasts and advice in the observation, failures, the
joining of each utility to the decision that earned it."""

import argparse
import math
from collections import deque

from bench import Sequence, measure, report
from simulator import HOSTS, VARIANTS, Request, Simulator

QUALITY = ((0.45, 0.78, 1.0), (0.80, 0.95, 1.0), (0.82, 0.96, 1.0), (0.70, 0.94, 1.0))  # by task, variant
TASKS = len(QUALITY)
DEADLINE = 40_000_000  # ns for each output token
IN_FLIGHT_SCALE = (20.0, 20.0, 4.0)
RATE_SCALE = 24.0
RATE_WINDOW = 5
INPUTS = TASKS + VARIANTS + 2


class Arrivals:
    """U1 (workloads/u1.go) drawn from a Sequence; arrivals in Go's benchmarks are
    the same, see cmd/gearshift/script_test.go."""

    def __init__(self, seed: int) -> None:
        self.draws = Sequence(seed)
        self.rate, self.left, self.now = 0.0, 0, 0

    def uniform(self) -> float:
        return (self.draws.next() + 1) / 2

    def exponential(self) -> float:
        return -math.log(1 - self.uniform())

    def geometric(self, mean: float) -> int:
        return 1 + int(-self.exponential() / math.log1p(-1 / mean))

    def next(self, decision: int) -> Request:
        if self.left == 0:
            band = self.uniform()
            low, high = (0.25, 2.0) if band < 0.90 else (2.0, 40.0) if band < 0.98 else (40.0, 48.0)
            self.rate = low + (high - low) * self.uniform()
            self.left = self.geometric(20 * self.rate)
        self.left -= 1
        self.now += int(self.exponential() / self.rate * 1e9)
        task = int(TASKS * self.uniform())
        prompt = 45 + int(90 * self.uniform())
        output = min(1500, self.geometric(256))
        return Request(decision, -1, task, self.now, prompt, output)


class Environment:
    """reset and step keep Gymnasium's contract. The episode terminates after so
    many requests, or goes on for ever if that is 0."""

    def __init__(self, requests: int = 0) -> None:
        self.requests = requests

    def reset(self, seed: int) -> tuple[list[float], dict[str, object]]:
        self.simulator = Simulator()
        self.arrivals = Arrivals(seed)
        self.gaps: deque[int] = deque(maxlen=RATE_WINDOW)
        self.decisions = 0
        self.request = self.arrivals.next(0)
        return self.observation(), {}

    def step(self, action: int) -> tuple[list[float], float, bool, bool, dict[str, object]]:
        before = self.request
        before.variant = action
        self.simulator.submit(before, self.replica(action))
        self.decisions += 1
        if self.requests and self.decisions >= self.requests:
            ended = self.simulator.advance(math.inf)
            info = {"ended": ended, "elapsed": (self.simulator.now - before.arrival) / 1e9}
            return [0.0] * INPUTS, sum(map(utility, ended)), True, False, info
        self.request = self.arrivals.next(self.decisions)
        self.gaps.append(self.request.arrival - before.arrival)
        ended = self.simulator.advance(self.request.arrival)
        info = {"ended": ended, "elapsed": (self.request.arrival - before.arrival) / 1e9}
        return self.observation(), sum(map(utility, ended)), False, False, info

    def replica(self, variant: int) -> int:
        """The first replica with the fewest requests."""
        own = range(variant * HOSTS, (variant + 1) * HOSTS)
        return min(own, key=self.simulator.in_flight.__getitem__)

    def observation(self) -> list[float]:
        """The task, the requests in flight by variant, and the arrival rate."""
        o = [0.0] * INPUTS
        o[self.request.task] = 1.0
        for v, scale in enumerate(IN_FLIGHT_SCALE):
            o[TASKS + v] = sum(self.simulator.in_flight[v * HOSTS : (v + 1) * HOSTS]) / HOSTS / scale
        rate = (len(self.gaps) - 1) / max(1e-9, sum(self.gaps) / 1e9) if len(self.gaps) > 1 else 0.0
        o[-2], o[-1] = rate / RATE_SCALE, math.log1p(rate)
        return o


def utility(request: Request) -> float:
    """The answer's quality, if it came in time."""
    latency = (request.finished - request.arrival) // request.output
    return QUALITY[request.task][request.variant] if latency <= DEADLINE else 0.0


def play(requests: int) -> int:
    """One episode with sizes drawn at random; the sum of the ends in ns."""
    environment, routes = Environment(requests), Sequence(2)
    environment.reset(1)
    total, over = 0, False
    while not over:
        _, _, over, _, info = environment.step(int((routes.next() + 1) / 2 * VARIANTS))
        total += sum(request.finished for request in info["ended"])
    return total


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seconds", type=float, default=1.0, help="to measure for, and to the episode's end")
    requests, check = 2000, 0

    def episode() -> None:
        nonlocal check
        check = play(requests)

    n, ns = measure(episode, arguments.parse_args().seconds)
    report("Environment/one-core", n, ns, requests_per_s=requests / ns * 1e9, check=check)


if __name__ == "__main__":
    main()
