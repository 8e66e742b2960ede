#!/usr/bin/env bash
# Streaming clients that share batches, in a minute: two clients are planned by hand, 20 are served by a
# router in front of two simulated engines of which one is killed half-way, and ARISE, its baselines and
# serving by deadlines are compared in the simulator. It fails if nobody is served, or if those of the
# killed engine are not served by the other one. PORT is the first of four. DETECTOR, if that folder is there,
# is a model of `gearshift models make --family boxes` that engines run in place of simulated ones.
# Everything it writes lies in demo-offload-out, which each run empties first.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=demo-offload-out port=${PORT:-18590} detector=${DETECTOR:-models/boxes}
readonly admin=http://127.0.0.1:$((port + 1))
rm -rf "$out"
mkdir -p "$out"
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait 2>/dev/null' EXIT

step() { printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }
fail() {
	echo "demo-offload: $1" >&2
	tail -n 5 "$out"/*.log >&2
	exit 1
}

cat >"$out/plan.json" <<'JSON'
{"grace": 0.1, "latency_ms": {"1": 18, "2": 23, "4": 33, "8": 53}, "t0": 11, "horizon": 24,
 "clients": [{"id": 1, "sla": 0.02, "drop_rate": 0.005, "network_ms": 15, "last_frame": 6, "last_arrival": 8},
             {"id": 2, "sla": 0.02, "drop_rate": 0.005, "network_ms": 15, "last_frame": 7, "last_arrival": 9}]}
JSON
if [ -d "$detector" ]; then # a processor stands in for an accelerator, on which larger batches save time
	engine=(--model "$detector" --max-sequences 8 --batch-ms 1=12,8=37) clients=(--clients 12 --scenes) n=12
	profiles='[{variant: boxes, batch_ms: {1: 15, 8: 40}, weight_bytes: 1_000_000}]'
	variants='[{name: boxes}]' quality='{boxes: 0.91}' input='{encoding: float, width: 128, height: 128, range: [-1, 1]}'
	replicas='[{variant: boxes, hosts: [h1, h2], memory: 30%}]'
else
	engine=() clients=(--clients 20) n=20
	profiles='[{variant: small, batch_ms: {1: 15, 8: 50}, weight_bytes: 20_000_000}, {variant: large, batch_ms: {1: 30, 8: 100}, weight_bytes: 80_000_000}]'
	variants='[{name: small}, {name: large}]' quality='{small: 0.88, large: 0.9}' input='{encoding: jpeg}'
	replicas='[{variant: small, hosts: [h1, h2], memory: 30%}, {variant: large, hosts: [h1, h2], memory: 30%}]'
fi
cat >"$out/fleet.yaml" <<YAML
tasks: [{name: boxes, total_ms: 1000, quality: $quality}]
variants: $variants
hosts: [{name: h1, memory: 4GiB}, {name: h2, memory: 4GiB}]
replicas: $replicas
profiles: $profiles
serving:
  streams: {task: boxes, input: $input}
YAML

step "a plan: two clients share batches from frame 11 on"
bin/gearshift offload plan --in "$out/plan.json"

step "$n clients of a router; one of its two engines is killed after 10 of 20 s"
bin/gearshift scenario upstreams "$out/fleet.yaml" --at http://127.0.0.1:$((port + 2)) >"$out/served.yaml"
for k in 1 2; do
	[ -d "$detector" ] || engine=(--scenario "$out/fleet.yaml" --host h$k)
	bin/gearshift engine "${engine[@]}" --addr 127.0.0.1:$((port + 1 + k)) 2>"$out/engine$k.log" &
	pids+=($!)
	disown # the shell need not say that it was killed
done
GEARSHIFT_ADMIN_TOKEN=$(head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n')
export GEARSHIFT_ADMIN_TOKEN
bin/gearshift serve --scenario "$out/served.yaml" --store "$out/policies.db" --addr 127.0.0.1:$port --admin-addr 127.0.0.1:$((port + 1)) 2>"$out/serve.log" &
pids+=($!)
until bin/gearshift offload status --admin "$admin" 2>/dev/null | grep -q '^h2 *yes'; do
	for pid in "${pids[@]}"; do kill -0 "$pid" 2>/dev/null || fail "the router or an engine has ended"; done
	((SECONDS < 60)) || fail "the router and its engines take too long to start"
	sleep 0.2
done
bin/gearshift stream --url http://127.0.0.1:$port "${clients[@]}" --sla 0.06 --duration 22s >"$out/clients.txt" 2>&1 &
streaming=$!
pids+=("$streaming")
(sleep 10 && kill -9 "${pids[0]}") &
pids+=($!)
bin/gearshift offload watch --for 20s --admin "$admin" --out "$out/watched" || fail "nothing was watched"
bin/gearshift offload status --admin "$admin" --format json >"$out/end.json"
wait "$streaming" || fail "the clients had no results: $(cat "$out/clients.txt")"
printf '\nas the clients have it:\n%s\n' "$(cat "$out/clients.txt")"
grep -q '"served": [1-9]' "$out/end.json" || fail "nobody was served after the engine was killed"
grep -q ' moves\? to another host' "$out/clients.txt" && ! grep -q ' 0 moves' "$out/clients.txt" || fail "no client moved from the killed engine to the other one"

step "simulated: ARISE, its baselines, and serving by deadlines"
bin/gearshift paper arise --quick --only clients,ours --out "$out/report"

step "done; open $out/watched/report.html and $out/report/report.html; pictures: $out/watched/clients.svg, loss.svg"
