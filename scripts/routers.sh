#!/usr/bin/env bash
# Four routers, in processes of their own, before one fleet of simulated engines in real time: what do they earn
# together with gauges, with shares of the load, with both, with none of them, and as one router that gets all?
# Each setting meets the same requests, the first SECONDS of workload WORKLOAD; each request comes to a router
# at random. Prints utility as the clients saw it, and as simulated. ROUTERS=4 SECONDS_EACH=60 REPEAT=1
set -euo pipefail
cd "$(dirname "$0")/.."

routers=${ROUTERS:-4} seconds=${SECONDS_EACH:-60} workload=${WORKLOAD:-poisson:12} repeat=${REPEAT:-1}
policy=${POLICY:-task-aware:0.98,0.08,1,0.5,0.15}
base=${PORT:-19000} # engines from here on, routers from + 100, their admin listeners from + 200
gearshift=${GEARSHIFT:-bin/gearshift}
dir=$(mktemp -d)
pids=()
stop() {
	for pid in "${pids[@]:-}"; do [ -z "$pid" ] || kill "$pid" 2>/dev/null || true; done
	wait 2>/dev/null || true
	pids=()
}
trap 'stop; rm -rf "$dir"' EXIT

awaited() { # URL
	for _ in $(seq 200); do
		if curl -fs -o /dev/null "$1"; then return; fi
		sleep 0.1
	done
	echo "routers: $1 does not answer" >&2
	exit 1
}

# scenario I N GAUGES SHARES: of router I of N
scenario() {
	python3 - "$@" <<-'PY'
		import sys
		number, n, gauges, shares, base, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]), sys.argv[6]
		text = open(path).read()
		extra = [f"  routers: {n}", f"  admin: {{addr: \"127.0.0.1:{base + 200 + number}\"}}", f"  gauges: {{scrape_interval: {gauges}}}"]
		if n > 1 and shares != "0s":
		    urls = ", ".join(f'"http://127.0.0.1:{base + 200 + i}"' for i in range(n))
		    extra.append(f"  peers: {{urls: [{urls}], poll: {shares}}}")
		head, tail = text.split("\nserving:\n", 1)
		print(head + "\nserving:\n" + "\n".join(extra) + "\n" + tail, end="")
	PY
}

# measure NAME N GAUGES SHARES: prints a row
measure() {
	local name=$1 n=$2 gauges=$3 shares=$4 i
	"$gearshift" engine --addr "127.0.0.1:$base" >"$dir/engine.log" 2>&1 &
	pids+=($!)
	awaited "http://127.0.0.1:$base/health"
	for ((i = 0; i < n; i++)); do
		scenario "$i" "$n" "$gauges" "$shares" "$base" "$dir/upstreams.yaml" >"$dir/router-$i.yaml"
		"$gearshift" serve --scenario "$dir/router-$i.yaml" --policy "$policy" --addr "127.0.0.1:$((base + 100 + i))" --store "$dir/none.db" >"$dir/router-$i.log" 2>&1 &
		pids+=($!)
	done
	for ((i = 0; i < n; i++)); do awaited "http://127.0.0.1:$((base + 100 + i))/readyz"; done
	local clients=()
	for ((i = 0; i < n; i++)); do
		"$gearshift" replay --url "http://127.0.0.1:$((base + 100 + i))" --trace "$dir/trace-$n-$i.jsonl" --lengths --format json --store "$dir/none.db" >"$dir/replay-$i.json" 2>"$dir/replay-$i.err" &
		clients+=($!)
	done
	for i in "${!clients[@]}"; do wait "${clients[$i]}" || { cat "$dir/replay-$i.err" >&2; exit 1; }; done
	stop
	local flags=()
	if ((n > 1)); then
		flags=(--routers "$n" --gauge-interval "$gauges")
		[ "$shares" = 0s ] || flags+=(--share-interval "$shares" --share-delay 5ms)
	fi
	"$gearshift" eval --workload "trace:$dir/all.jsonl+lengths" --policy "$policy" --seeds 1 --format json --store "$dir/none.db" "${flags[@]}" >"$dir/simulated.json" 2>/dev/null
	python3 - "$name" "$n" "$dir" <<-'PY'
		import json, sys
		name, n, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
		rows = [json.load(open(f"{folder}/replay-{i}.json")) for i in range(n)]
		sent = sum(r["requests"] for r in rows)
		worth = sum(r["utility"] * r["requests"] for r in rows) / sent
		simulated = json.load(open(f"{folder}/simulated.json"))["results"][0]["utility"]["mean"]
		print(f"| {name} | {sent} | {worth:.3f} | {simulated:.3f} |", flush=True)
	PY
}

"$gearshift" scenario upstreams titan-rtx-opt --at "http://127.0.0.1:$base" >"$dir/upstreams.yaml"
"$gearshift" workload gen "$workload" --requests 100000 --out "$dir/whole.jsonl"
python3 - "$dir" "$routers" "$seconds" <<-'PY'
	import json, random, sys
	folder, n, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
	lines = [line for line in open(f"{folder}/whole.jsonl") if json.loads(line)["at_s"] < seconds]
	open(f"{folder}/all.jsonl", "w").writelines(lines)
	for routers in {1, n}:
	    draw = random.Random(7)
	    parts = [[] for _ in range(routers)]
	    for line in lines:
	        parts[draw.randrange(routers)].append(line)
	    for i, part in enumerate(parts):
	        open(f"{folder}/trace-{routers}-{i}.jsonl", "w").writelines(part)
PY
echo "| $routers routers, the first $seconds s of $workload | requests | utility | simulated |"
echo "|---|---|---|---|"
for ((k = 0; k < repeat; k++)); do
	measure "one router" 1 1s 0s
	measure "neither" "$routers" 0s 0s
	measure "gauges each second" "$routers" 1s 0s
	measure "shares each 100 ms" "$routers" 0s 100ms
	measure "both" "$routers" 1s 100ms
done
