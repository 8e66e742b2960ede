"""Joins the rounds of scripts/bench-compare.sh into Markdown tables. A ratio is
taken within each round, between runs that were a moment apart; what is printed is
the median over the rounds, and in brackets the least and the most.

The input holds `key: value` lines, of which `round` and `side` say what the
benchmark lines after them belong to, in the format of `go test -bench`."""

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from statistics import median

OURS, DEFAULT, TUNED, PYTHON = "ours", "pytorch-default", "pytorch-tuned", "python"
Key = tuple[str, str, str]  # side, benchmark, unit
PAPER_DECISION_US = 100.0


class Rounds:
    """The numbers of all rounds, and what the log says of the machine."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.facts: dict[str, str] = {}
        self.kernels: dict[str, str] = {}
        self.values: dict[Key, dict[int, float]] = defaultdict(dict)
        self.faults: list[str] = []
        number, side, cores = 0, "", "1"
        for line in lines:
            if match := re.match(r"([a-z][a-z-]*): +(.*)", line):
                key, value = match[1], match[2].strip()
                if key == "round":
                    number = int(value)
                elif key == "side":
                    side, cores = value, "1"
                elif key == "cores":
                    cores = value
                elif key == "blas":
                    self.kernels[side] = value
                elif key in ("load-after", "given-to-others") or not number:
                    self.facts[key] = value
            elif line.startswith("Benchmark"):
                self.add(number, side, cores, line.split())

    def add(self, number: int, side: str, cores: str, words: list[str]) -> None:
        name = words[0].removeprefix("Benchmark")
        if cores != "1":  # Go appends the number to the name
            name = name.removesuffix("-" + cores)
        for value, unit in zip(words[2::2], words[3::2]):
            self.values[side, name, unit][number] = float(value)

    def each(self, side: str, name: str, unit: str) -> dict[int, float]:
        return self.values.get((side, name, unit), {})

    def cell(self, side: str, name: str, unit: str, form: Callable[[float], str]) -> str:
        found = self.each(side, name, unit).values()
        return spread(found, form)

    def ratio(self, above: Key, below: Key) -> str:
        a, b = self.each(*above), self.each(*below)
        return spread([a[r] / b[r] for r in sorted(a.keys() & b.keys())], ratio)

    def agree(self, name: str, peer: str, within: float, what: str) -> str:
        """Holds that both sides computed the same."""
        a, b = self.each(OURS, name, "check"), self.each(peer, name, "check")
        if not a or not b:
            return ""
        apart = max(abs(a[r] - b[r]) / abs(a[r]) for r in a.keys() & b.keys())
        if apart > within:
            self.faults.append(f"{name}: {what} of {OURS} and {peer} differ by {apart:.1e}, more than {within:.0e}: they do not do the same work")
        return f"{apart:.1e}" if apart else "nothing"


def spread(values: Iterable[float], form: Callable[[float], str]) -> str:
    found = list(values)
    if not found:
        return "–"
    return f"{form(median(found))} ({form(min(found))}–{form(max(found))})"


def milliseconds(ns: float) -> str:
    return f"{ns / 1e6:.2f}"


def ratio(x: float) -> str:
    return f"{x:.2f}" if x < 10 else f"{x:.1f}"


def count(x: float) -> str:
    return f"{x:,.0f}"


def table(head: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def titles(r: Rounds) -> list[str]:
    return [f"PyTorch, {kind} kernels ({r.kernels.get(side, 'not run')})" for side, kind in ((DEFAULT, "default"), (TUNED, "tuned"))]


def step(r: Rounds) -> None:
    print("## The gradient step\n")
    rows = []
    for name in ("Step/9-256-256-3/batch=1024", "Step/25-64-64-dueling-3/batch=256"):
        ours = (OURS, name, "ns/op")
        row = [name.removeprefix("Step/"), r.cell(*ours, milliseconds)]
        for side in (DEFAULT, TUNED):
            row += [r.cell(side, name, "ns/op", milliseconds), "**" + r.ratio((side, name, "ns/op"), ours) + "**"]
        apart = [r.agree(name, side, 1e-3, "losses after 50 steps") for side in (DEFAULT, TUNED)]
        rows.append([*row, ", ".join(filter(None, apart))])
    a, b = titles(r)
    table(["ms a step", "ours", a, "× ours", b, "× ours", "losses after 50 steps differ by"], rows)


def training(r: Rounds) -> None:
    print("## Environment and gradient step, one of each\n")
    rows = []
    large = "9-256-256-3/batch=1024"
    for name in ("Training/" + large, "Training/two-cores/" + large, "Training/9-64-64-dueling-3/batch=256", "Training/default"):
        ours = (OURS, name, "decisions/s")
        label = name.removeprefix("Training/").replace("default", "the preset `default`'s own observation and load")
        label = label.removeprefix("two-cores/") + (", both on two cores" if "two-cores" in name else "")
        row = [label, r.cell(*ours, count)]
        for side in (DEFAULT, TUNED):
            row += [r.cell(side, name, "decisions/s", count), "**" + r.ratio(ours, (side, name, "decisions/s")) + "**"]
        rows.append(row)
    a, b = (f"{title}, Gymnasium-style loop" for title in titles(r))
    table(["decisions/s", "ours", a, "ours ×", b, "ours ×"], rows)


def simulation(r: Rounds) -> None:
    print("## Simulated requests per second\n")
    python = (PYTHON, "Environment/one-core", "requests/s")
    rows = [["Gymnasium-style environment in Python, one core", r.cell(*python, count), "1"]]
    for name, unit, label in (
        ("Environment/one-core", "requests/s", "ours, the same environment, one core"),
        ("Environment/two-cores", "requests/s", "ours, two at a time, two cores"),
        ("Simulation/threshold", "requests/s", "ours, a whole evaluation of ten seeds (other requests), one core"),
        ("Simulation/two-cores", "one-core-requests/s", "ours, one of three rules, one core, in turn with"),
        ("Simulation/two-cores", "requests/s", "the same, two cores"),
    ):
        ours = (OURS, name, unit)
        rows.append([label, r.cell(*ours, count), "**" + r.ratio(ours, python) + "**" if name.startswith("Env") else "–"])
    table(["", "requests/s", "× Python"], rows)
    apart = r.agree("Environment/one-core", PYTHON, 1e-9, "sums of the ends of requests")
    print(f"The ends of the 2,000 requests, summed in ns, differ by: {apart or '–'}. Two cores do "
          f"{r.cell(OURS, 'Simulation/two-cores', 'x-one-core', ratio)} times the work of one in an evaluation, "
          f"{r.ratio((OURS, 'Environment/two-cores', 'requests/s'), (OURS, 'Environment/one-core', 'requests/s'))} "
          f"in the environment alone; two processes of one core each, at the same time, {both_apart(r)}.\n")


def both_apart(r: Rounds) -> str:
    """What two processes at the same time do together, times what one does."""
    one, a, b = (r.each(side, "Simulation/threshold", "requests/s") for side in (OURS, "ours-apart-1", "ours-apart-2"))
    return spread([(a[n] + b[n]) / one[n] for n in sorted(one.keys() & a.keys() & b.keys())], ratio)


def decision(r: Rounds) -> None:
    print("## One decision\n")
    def row(label: str, name: str) -> list[str]:
        p50, p99 = (r.each(OURS, name, unit) for unit in ("p50-µs", "p99-µs"))
        cells = [spread(x.values(), lambda v: f"{v:.1f}") for x in (p50, p99)]
        return [label, *cells, *(spread((PAPER_DECISION_US / v for v in x.values()), lambda v: f"{v:.1f}") for x in (p50, p99))]

    rows = [row("ours, the whole decision with four networks of 64-64", "Decision/native"),
            row("the same, the networks run by ONNX Runtime", "Decision/ONNX")]
    rows.append(["the paper's, on a processor", "100", "–", "1", "–"])
    table(["µs", "p50", "p99", "paper's / p50", "paper's / p99"], rows)
    p50, p99 = (r.ratio((OURS, "Decision/ONNX", unit), (OURS, "Decision/native", unit)) for unit in ("p50-µs", "p99-µs"))
    print(f"With ONNX Runtime a decision takes {p50} times as long as with ours at the median, {p99} at the 99th percentile.\n")


def main() -> None:
    with open(sys.argv[1], encoding="utf-8") as log:
        r = Rounds(log)
    for key, value in r.facts.items():
        print(f"- {key}: {value}")
    print()
    for part in (step, training, simulation, decision):
        part(r)
    if r.faults:
        sys.exit("\n".join(f"compare: {fault}" for fault in r.faults))


if __name__ == "__main__":
    main()
