#!/usr/bin/env bash
# The whole way on one machine: train a policy in the simulator, compare it with
# the baselines, store it, serve it, and send the server a recorded trace in real
# time; then the same trace to a server that always takes the largest model.
# Everything it writes lies in demo-out, which each run begins anew.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=demo-out
readonly scenario=titan-rtx-opt
readonly policy=demo
readonly largest=static:opt-6.7b
readonly trace=workloads/testdata/AzureLLMInferenceTrace_code.csv
readonly rate=5 duration=60s # the trace's times are rescaled to this mean rate

gearshift=bin/gearshift
server=

step() { printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

stop_server() {
	[ -n "$server" ] || return 0
	kill "$server" 2>/dev/null || true
	wait "$server" 2>/dev/null || true
	server=
}
trap stop_server EXIT
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

# start_server POLICY: serves it on $port and returns once the server is ready.
start_server() {
	local log=$out/serve-${1//[:\/]/-}.log tries
	port=$(free_port)
	"$gearshift" serve --scenario "$scenario" --store "$out/policies.db" --policy "$1" \
		--addr "127.0.0.1:$port" >"$log" 2>&1 &
	server=$!
	for ((tries = 0; tries < 100; tries++)); do
		case $(get "$port" /readyz || true) in *" 200 "*) return ;; esac
		kill -0 "$server" 2>/dev/null || break
		sleep 0.1
	done
	echo "demo: the server did not become ready; its log:" >&2
	cat "$log" >&2
	return 1
}

replay() {
	start_server "$1"
	"$gearshift" replay --url "http://127.0.0.1:$port" --trace "$trace" --rate "$rate" --duration "$duration"
	stop_server
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
replay "$policy"

step "The same trace, answered by the largest model alone"
replay "$largest"

step "Done; training curves, tables and logs are in $out"
