"""Draws curve.csv, and prints it as a Markdown table."""

import csv
import sys
from collections import defaultdict

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot


def main() -> None:
    sides, rules = defaultdict(list), {}
    with open(sys.argv[1]) as file:
        for row in csv.DictReader(file):
            if row["seconds"]:
                sides[row["side"]].append((float(row["seconds"]), float(row["utility"])))
            else:
                rules[row["side"]] = float(row["utility"])
    figure, axes = pyplot.subplots(figsize=(7, 4))
    for side, points in sides.items():
        axes.plot(*zip(*points), marker="o", markersize=3, label=side)
    for (rule, utility), style in zip(rules.items(), ("--", ":", "-.")):
        axes.axhline(utility, linestyle=style, color="grey", linewidth=1, label=rule)
    axes.set(xlabel="seconds of training", ylabel="utility on u1", xscale="log")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncol=5, fontsize="small", frameon=False)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(sys.argv[2], dpi=120)
    print("| | " + "utility on `u1` after so many seconds of training |\n|---|---|")
    for side, points in sides.items():
        print(f"| {side} | " + ", ".join(f"{utility:.3f} ({seconds:.0f} s)" for seconds, utility in points) + " |")
    for rule, utility in rules.items():
        print(f"| {rule} | {utility:.3f} |")


if __name__ == "__main__":
    main()
