#!/usr/bin/env bash
# Failover for real: 46 applications on six engine processes in three sites, on image classifiers
# of 4 to 400 MB that are made once and kept in .cache/failover-models. KILLS=3 is how often an
# engine is killed, stopped or cut off from the network. Prints recovery, the outage that clients
# see, accuracy and requests lost, false alarms, loading progressively and in full, and the same
# simulated. BUSY=n keeps processors busy with n other processes. The exit code is not 0 if a
# request was lost or doubled, or with KILLS=30 or more if outages are long.
set -euo pipefail
cd "$(dirname "$0")/.."

kills=${KILLS:-3}
if ! [[ $kills =~ ^[1-9][0-9]*$ ]] || ((kills < 3)); then
	echo "failover: KILLS=$kills: want a whole number, 3 or more" >&2
	exit 2
fi

GEARSHIFT_FAILOVER=$kills GEARSHIFT_BUSY=${BUSY:-} GEARSHIFT_FAILOVER_MODELS=${MODELS:-$PWD/.cache/failover-models} \
	exec scripts/measure.sh -count=1 -v -timeout $((kills + 60))m -run '^TestFailoverForReal$' ./cmd/gearshift
