#!/usr/bin/env bash
# The whole way on one machine: train a policy in the simulator, compare it with
# the baselines, store it, serve it, and send the server a recorded trace in real
# time; beside it, the same trace to a server that always takes the largest model: in its
# copy of the scenario nothing is shed, or degraded to what would be in time, and requests
# go to the smallest batch, as eval plays a static size.
# Everything it writes lies in demo-out, which each run begins anew.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=demo-out
readonly scenario=titan-rtx-opt
readonly policy=demo
readonly largest=static:opt-6.7b
readonly trace=workloads/traces/testdata/AzureLLMInferenceTrace_code.csv
readonly rate=5 duration=60s # the first 300 requests, rescaled to this mean rate

gearshift=bin/gearshift
servers=

step() { printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

stop_servers() {
	local server
	for server in $servers; do
		kill "$server" 2>/dev/null || true
		wait "$server" 2>/dev/null || true
	done
	servers=
}
trap stop_servers EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# get prints the status line of a GET on the local port; it needs no curl.
get() {
	(
		exec 3<>"/dev/tcp/127.0.0.1/$1" || exit 1
		printf 'GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n' "$2" >&3
		head -n 1 <&3
	) 2>/dev/null
}

free_port() {
	local port
	for port in $(seq 18080 18179); do
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
	done
	echo "demo: no free port from 18080 to 18179" >&2
	return 1
}

# start_server SCENARIO POLICY: serves it on $port and returns once the server is ready.
start_server() {
	local log=$out/serve-${2//[:\/]/-}.log server tries
	port=$(free_port)
	"$gearshift" serve --scenario "$1" --store "$out/policies.db" --policy "$2" \
		--addr "127.0.0.1:$port" --admin-addr off >"$log" 2>&1 &
	server=$!
	servers+=" $server"
	for ((tries = 0; tries < 100; tries++)); do
		case $(get "$port" /readyz || true) in *" 200 "*) return ;; esac
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	echo "demo: the server did not become ready; its log:" >&2
	cat "$log" >&2
	return 1
}

# replay SCENARIO POLICY: sends the trace to a server of that policy, in the background.
replay() {
	start_server "$@"
	"$gearshift" replay --scenario "$scenario" --url "http://127.0.0.1:$port" --store "$out/policies.db" \
		--trace "$trace" --rate "$rate" --duration "$duration" >"$out/replay-${2//[:\/]/-}.txt" &
	replays+=($!)
}

step "Build"
make build
rm -rf "$out"
mkdir -p "$out"

step "Train a policy in the simulator and store it"
"$gearshift" train --scenario "$scenario" --preset quick --seed 1 \
	--store "$out/policies.db" --name "$policy" --out "$out/train"

step "Compare it with the baselines, on workloads that it has not seen"
"$gearshift" eval --scenario "$scenario" --store "$out/policies.db" \
	--policy "$policy" --policy static:opt-125m --policy static:opt-1.3b --policy static:opt-6.7b \
	--policy threshold --policy slackfit \
	--workload u1 --workload u2 --seeds 10 --out "$out/eval"

step "Serve it, and replay a recorded trace at $rate requests a second for $duration"
echo "beside it, the same trace to a server that always takes the largest model ..."
"$gearshift" scenario show "$scenario" |
	awk '{ sub(/balancer: least-harm/, "balancer: smallest-batch"); print } /^serving:$/ { print "  overload: {shed: never}" }' \
		>"$out/unshed.yaml"
replays=()
replay "$scenario" "$policy"
replay "$out/unshed.yaml" "$largest"
for pid in "${replays[@]}"; do wait "$pid"; done
stop_servers
printf '\n-- routed by the policy\n'
cat "$out/replay-$policy.txt"
printf '\n-- always the largest model\n'
cat "$out/replay-${largest//[:\/]/-}.txt"

step "Done; training curves, tables and logs are in $out"
