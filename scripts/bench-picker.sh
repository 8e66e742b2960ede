#!/usr/bin/env bash
# Measures what a pick takes, beside llm-d-router's own picker where LLMD names its program (go build ./cmd/epp in a clone of
# llm-d/llm-d-router), in turn and with the same engines. EACH (2s) is how long each is measured in each of five rounds.
set -euo pipefail
cd "$(dirname "$0")/.."

[ -n "${LLMD-}" ] || echo "bench-picker: LLMD is not set: llm-d-router's picker is not measured"
GEARSHIFT_PICKERS=${EACH:-2s} GEARSHIFT_LLMD=${LLMD-} exec scripts/measure.sh -count=1 -v -timeout 20m -run '^TestPickersCompared$' ./cmd/gearshift
