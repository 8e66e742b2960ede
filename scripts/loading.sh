#!/usr/bin/env bash
# Models that come and go under load: two engines in processes of their own, each with
# three models that ONNX Runtime computes, a router before them, and clients that do not
# stop asking while models are unloaded, loaded, put to sleep, woken and drained, for
# MINUTES. Prints what was asked, done and measured; the exit code is not 0 if a request
# fails, an order is not followed, or loads hold up other models.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${MINUTES:-5}
if ! [[ $minutes =~ ^[1-9][0-9]*$ ]]; then
	echo "loading: MINUTES=$minutes: want a whole number of minutes, such as 5" >&2
	exit 2
fi

GEARSHIFT_LOADING=${minutes}m \
	exec scripts/measure.sh -count=1 -v -timeout $((minutes + 20))m -run '^TestLoadingUnderLoad$' ./cmd/gearshift
