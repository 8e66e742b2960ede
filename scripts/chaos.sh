#!/usr/bin/env bash
# The chaos test: four engines with agents and a router with failover, in processes of their own,
# which are killed, stopped and started again at random for MINUTES while clients ask. Prints a
# table; the exit code is not 0 if anything in it is violated. SEED=n has other troubles. Before them
# clients ask for CALM minutes, half of MINUTES by default, in which no host may seem lost; BUSY=n
# keeps processors busy with n other processes.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${MINUTES:-30}
if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
	echo "chaos: MINUTES=$minutes: want a whole number of minutes, such as 30" >&2
	exit 2
fi
calm=${CALM:-$((minutes / 2))}
if ! [[ $calm =~ ^[0-9]+$ ]]; then
	echo "chaos: CALM=$calm: want a whole number of minutes, such as 15" >&2
	exit 2
fi

GEARSHIFT_CHAOS=${minutes}m GEARSHIFT_CHAOS_CALM=${calm}m GEARSHIFT_CHAOS_SEED=${SEED:-1} GEARSHIFT_BUSY=${BUSY:-} \
	exec scripts/measure.sh -count=1 -v -timeout $((minutes + calm + 10))m -run '^TestChaos$' ./cmd/gearshift
