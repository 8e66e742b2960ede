#!/usr/bin/env bash
# The soak test: four engines in processes of their own that die, hang, slow down,
# cut answers and talk nonsense, a router before them, and clients some of which
# vanish, for MINUTES. With RACE=1 all of it runs under the race detector. Prints a
# table; the exit code is not 0 if anything in it is violated. SEED=n repeats the
# troubles and the requests, though not their timing.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${MINUTES:-30}
if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
	echo "soak: MINUTES=$minutes: want a whole number of minutes, such as 30" >&2
	exit 2
fi
race=()
if [ -n "${RACE:-}" ] && [ "$RACE" != 0 ]; then race=(-race); fi

GEARSHIFT_SOAK=${minutes}m GEARSHIFT_SOAK_SEED=${SEED:-1} \
	exec scripts/measure.sh ${race[@]+"${race[@]}"} -count=1 -v -timeout $((minutes + 10))m -run '^TestSoak$' ./cmd/gearshift
