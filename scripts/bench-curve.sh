#!/usr/bin/env bash
# How good a policy is after how much time: ours, by the preset `default` and by one
# that observes as little as the peer does, beside a DQN loop in PyTorch on the same
# environment. All are evaluated by `gearshift eval` on u1. Prints a Markdown table;
# bench-out/curve.csv has every point.
#
#   SECONDS_MAX=s  how long the peer trains (180)
#   SEEDS=n        of the evaluation (20)
#   PYTHON=...     a Python with torch and matplotlib
#   DOC=file       to put the table into, between its lines "curve: begin" and
#                  "curve: end"; the picture goes beside it, as training-curve.png
set -euo pipefail
cd "$(dirname "$0")/.."

readonly python=${PYTHON:-/usr/bin/python3} most=${SECONDS_MAX:-180} seeds=${SEEDS:-20} out=bench-out
unset OPENBLAS_CORETYPE OMP_NUM_THREADS MKL_NUM_THREADS GOMAXPROCS GOGC GOMEMLIMIT
export PYTHONDONTWRITEBYTECODE=1

scripts/setup.sh peers >&2
mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
go build -trimpath -tags="$(scripts/tags.sh)" -o "$work/gearshift" ./cmd/gearshift
"$work/gearshift" scenario show titan-rtx-opt | sed '/^  presets:/r scripts/peers/plain.yaml' >"$work/scenario.yaml"

gearshift() { "$work/gearshift" "$@" --scenario "$work/scenario.yaml" --store "$work/store.db"; }

# evaluate prints what the policies earn, one line each: NAME UTILITY.
evaluate() {
	local policies=()
	for name in "$@"; do policies+=(--policy "$name"); done
	gearshift eval "${policies[@]}" --workload u1 --seeds "$seeds" --format json | "$python" -c '
import json, sys
for row in json.load(sys.stdin)["results"]: print(row["policy"], row["utility"]["mean"])'
}

# The peer first: it takes a core by itself.
at=$(awk -v m="$most" 'BEGIN { printf "%g", m; for (f = 2; m / f > m / 40; f *= 2) printf ",%g", m / f }' | tr , '\n' | sort -g | paste -sd,)
OPENBLAS_NUM_THREADS=1 "$python" scripts/peers/curve.py --seconds "$most" --at "$at" --out "$work/peer" >&2
echo "side,seconds,utility" >"$out/curve.csv"
names=()
for s in ${at//,/ }; do
	gearshift policy import "$work/peer/$s.onnx" --name "peer-$s" --preset plain >&2
	names+=("peer-$s")
done
evaluate "${names[@]}" | sed -E 's/^peer-([^@]*)@1 (.*)/PyTorch,\1,\2/' >>"$out/curve.csv"

# Ours stops at several places and goes on: that ends with the same bytes as a run
# that does not stop. What it spends on comparisons at each stop is not counted.
stops=(10000 20000 40000 80000 120000 200000 300000 400000)
for preset in plain default; do
	resume=() names=()
	for steps in "${stops[@]}"; do
		gearshift train --preset "$preset" --name "$preset" --steps "$steps" "${resume[@]}" --out "$work/$preset" >&2
		resume=(--resume)
		cp "$work/$preset/progress.csv" "$work/$preset-$steps.csv"
		names+=("$preset@$((${#names[@]} + 1))")
	done
	n=0 seconds=0
	for steps in "${stops[@]}"; do
		# Each start counts its seconds anew.
		seconds=$(tail -n 1 "$work/$preset-$steps.csv" | awk -F, -v s="$seconds" '{ print s + $2 }')
		evaluate "${names[n]}" | sed "s/^[^ ]* /preset $preset,$seconds,/" >>"$out/curve.csv"
		n=$((n + 1))
	done
done

evaluate threshold slackfit | sed -E 's/^([a-z]*)[^ ]* /rule \1,,/' >>"$out/curve.csv"
"$python" scripts/peers/curve_plot.py "$out/curve.csv" "$out/curve.png" | tee "$out/curve.md"
if [ -n "${DOC-}" ]; then
	sed -i -e '/curve: begin/,/curve: end/{//!d}' -e "/curve: begin/r $out/curve.md" "$DOC"
	cp "$out/curve.png" "$(dirname "$DOC")/training-curve.png"
fi
