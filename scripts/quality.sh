#!/usr/bin/env bash
# The table of docs/papers/best-effort.md: train the default preset for mean utility and for time near the peak,
# then compare the policies with the tuned rules that the scenario lists, the plain ones and
# each static size on the paper's workloads, over twenty evaluation seeds. Everything it
# writes lies in quality-out.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=quality-out
mkdir -p "$out"
policies=()
for objective in utility near-peak; do
	time bin/gearshift train --preset default --objective "$objective" --seed "${SEED:-1}" \
		--store "$out/policies.db" --name "$objective" --out "$out/train-$objective"
	policies+=(--policy "$objective")
done
while read -r rule; do policies+=(--policy "$rule"); done < <(
	bin/gearshift scenario show titan-rtx-opt | sed -n '/^  rules:/,/^  [a-z]/s/^    - //p; /^  rules_for:/,/^  [a-z]/s/^ *- //p'
)
policies+=(--policy threshold:8,100 --policy slackfit)
for size in opt-125m opt-1.3b opt-6.7b; do policies+=(--policy "static:$size"); done
bin/gearshift eval --store "$out/policies.db" "${policies[@]}" \
	--workload u1 --workload u2 --workload stable --seeds "${SEEDS:-20}" --wide --out "$out"
