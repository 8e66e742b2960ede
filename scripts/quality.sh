#!/usr/bin/env bash
# The full evaluation: train the default preset, then compare the policy with
# every static, threshold and slack-fit one on the paper's workloads, over ten
# evaluation seeds. Everything it writes lies in quality-out.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=quality-out
mkdir -p "$out"
time bin/gearshift train --preset default --seed "${SEED:-1}" --store "$out/policies.db" --name default --out "$out/train"
bin/gearshift eval --store "$out/policies.db" --policy default \
	--policy static:opt-125m --policy static:opt-1.3b --policy static:opt-6.7b --policy threshold --policy slackfit \
	--workload u1 --workload u2 --workload stable --seeds "${SEEDS:-10}" --out "$out"
