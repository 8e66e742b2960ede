#!/usr/bin/env bash
# An etcd, two routers with failover and two engines, in processes of their own, one router in a network namespace: ROUNDS=5
# times the router that acts is killed and cut off from etcd, and etcd is killed, stopped and slowed, while clients send
# requests to both routers. Prints when another router acts, the number of answers, and whether two routers ever acted. The
# exit code is not 0 if a request failed, two acted, an engine followed an older term, a promotion was not refused in one
# line, or no router acted after 3 s. Linux, root.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5}
if ! [[ $rounds =~ ^[1-9][0-9]*$ ]]; then
	echo "shared-store: ROUNDS=$rounds: want a whole number, 1 or more" >&2
	exit 2
fi
GEARSHIFT_SHARED_STORE=$rounds exec scripts/measure.sh -count=1 -v -timeout $((rounds + 5))m -run '^TestSharedStoreForReal$' ./cmd/gearshift
