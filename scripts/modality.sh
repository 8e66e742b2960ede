#!/usr/bin/env bash
# Jobs of handwritten and spoken digits for real: makes and trains the digits model, measures
# it, and sends jobs at up to twice the capacity of "all inputs always" through a router for
# each policy in turn, for MINUTES. Prints goodput, violations and accuracy, counted on labels
# and simulated; the exit code is not 0 if they differ too much, or a floor is not kept.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${MINUTES:-10}
if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
	echo "modality: MINUTES=$minutes: want a whole number of minutes, such as 10" >&2
	exit 2
fi

GEARSHIFT_MODALITY=${minutes}m \
	exec scripts/measure.sh -count=1 -v -timeout $((minutes + 30))m -run '^TestJobsForReal$' ./cmd/gearshift
