#!/usr/bin/env bash
# The tail for real: eight engine processes that compute models by ONNX Runtime, each held to its
# share of a processor by a control group, and 200 clients with views of their own. What is carried
# by headers and by polling, by counters of the model, of the host and of outstanding work, and by
# two placements, ROUNDS=5 times, with intervals, beside the simulator with the same costs.
# QUICK=1 compares two of them once, in a minute. It takes root, for the control groups.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5}
if ! [[ $rounds =~ ^[1-9][0-9]*$ ]]; then
	echo "tail: ROUNDS=$rounds: want a whole number, 1 or more" >&2
	exit 2
fi
if [[ -n ${QUICK:-} ]]; then
	export GEARSHIFT_TAIL_RAMP=15s GEARSHIFT_TAIL_ONLY=0,4
	rounds=1
fi
GEARSHIFT_TAIL=$rounds exec scripts/measure.sh -count=1 -v -timeout $((rounds * 15 + 15))m -run '^TestTailForReal$' ./cmd/gearshift
