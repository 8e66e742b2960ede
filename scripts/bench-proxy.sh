#!/usr/bin/env bash
# Measures what Gearshift adds to a request, beside nginx, a bare reverse proxy in
# Go and the Portkey gateway, in turn and on this machine, with vegeta as the clients, and
# prints tables by benchstat. bench-out/proxy keeps every single result, as benchmarks of Go.
#
#   BEFORE=commit  measures that commit's router beside the present one, alternating;
#               ROUNDS is then 20, and ONLY these two
#   ROUNDS=n    how often each is measured (6, the fewest of which benchstat has an interval)
#   TIME=d      of each measurement (2s)
#   PIN=0       leaves it to the system which core runs what
#   AWAKE=how   keeps the proxies' core from halting while none has work: "kernel" has all
#               cores poll, which takes root; "loop" gives that core a process of the idle
#               class, only with PIN; "no" lets it halt (the first of these that can be had)
#   PREFIX=cmd  before what is measured, say "chrt -r 1" where others work on the
#               machine: they stand still meanwhile
#   ONLY=list   targets, of: gearshift gearshift-before gearshift-rule nginx bare portkey (all)
#   PORT=n      the first of seven ports (18400)
#   DOC=file    to put the tables into, between its lines "bench-proxy: begin" and
#               "bench-proxy: end"
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/machine.sh

BEFORE=${BEFORE-}
readonly rounds=${ROUNDS:-$([ -n "$BEFORE" ] && echo 20 || echo 6)} time=${TIME:-2s} port=${PORT:-18400}
readonly out=bench-out/proxy host=127.0.0.1
: "${VEGETA:?as go install takes it}" "${BENCHSTAT:?as go run takes it}"
readonly upstream=$host:$port
readonly only=${ONLY:-$([ -n "$BEFORE" ] && echo gearshift gearshift-before || echo gearshift gearshift-rule nginx bare portkey)}

fail() {
	echo "bench-proxy: $1" >&2
	exit 2
}
wanted() { [[ " $only " == *" $1 "* ]]; }

# One core runs the proxies, of which one at a time has work, and another the
# clients and the upstream: so a proxy has a core, whatever it does with it. A core of a
# virtual machine that halts takes 10 µs or more
# to be back, as long as some proxies take altogether: AWAKE.
pinned= proxies=() load=() cores="as the system sees fit"
if [ "${PIN-1}" != 0 ] && [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ] && command -v taskset >/dev/null; then
	pinned=1 proxies=(taskset -c 0) load=(taskset -c 1) cores="one for the proxies, of which one at a time has work; one for clients and upstream"
fi
loops() { [ -n "$pinned" ] && command -v chrt >/dev/null; }
case ${AWAKE:=$(polls && echo kernel || { loops && echo loop; } || echo no)} in
kernel)
	polls || fail "AWAKE=kernel takes root, /dev/cpu_dma_latency, and a kernel whose idle state 0 is to poll"
	halts="none halts, as the kernel polls"
	;;
loop)
	loops || fail "AWAKE=loop takes chrt, taskset and two cores, and no PIN=0"
	halts="neither halts, for a loop of the idle class"
	;;
no) halts="they halt without work" ;;
*) fail "AWAKE=$AWAKE; it must be kernel, loop or no" ;;
esac
if [ -n "${DOC-}" ]; then
	[ -w "$DOC" ] && [ "$(grep -c 'bench-proxy: begin\|bench-proxy: end' "$DOC")" = 2 ] || fail "DOC=$DOC must be a file that has the lines \"bench-proxy: begin\" and \"bench-proxy: end\""
fi

earlier=
if [ -n "$BEFORE" ]; then
	earlier=$(git rev-parse --verify --quiet "$BEFORE^{commit}") || fail "BEFORE=$BEFORE; there is no such commit here"
	wanted gearshift && wanted gearshift-before || fail "BEFORE compares gearshift and gearshift-before; ONLY=$only leaves one out"
elif wanted gearshift-before; then
	fail "ONLY=$only; gearshift-before is the router of BEFORE=commit"
fi

# What the user's shell says must not reach any side.
command -v jq >/dev/null || fail "jq is missing: it reads what vegeta reports"
unset GOMAXPROCS GOGC GOMEMLIMIT GODEBUG http_proxy https_proxy HTTP_PROXY HTTPS_PROXY NODE_OPTIONS

ONLY=$only scripts/setup.sh proxies >&2
rm -rf "$out"
mkdir -p "$out"
work=$(mktemp -d)
chmod 755 "$work" # nginx's worker is another user
pids=()
# shellcheck disable=SC2317 # called by the trap
stop() {
	((${#pids[@]} == 0)) || kill "${pids[@]}" 2>/dev/null || true
	wait 2>/dev/null || true
	[ ! -e "$work/before" ] || git worktree remove --force "$work/before" || true
	rm -rf "$work"
}
trap stop EXIT

go build -o "$work/overhead" ./cmd/overhead
GOBIN=$work go install "$VEGETA"
# The router as deploy/ has it, without the training stack, whose tables every
# collection of garbage would look through; another build trains its policy.
router() { CGO_ENABLED=0 go build -trimpath -tags serveonly -ldflags '-s -w' -o "$1" ./cmd/gearshift; }
router "$work/router"
tags=$(scripts/tags.sh)
trainer=$PWD
if [ -n "$earlier" ]; then
	# The earlier build makes the scenario and the policy: the later one reads what that wrote.
	git worktree add --quiet --detach "$work/before" "$earlier"
	trainer=$work/before
	(cd "$trainer" && router "$work/router-before")
fi
(cd "$trainer" && go build -trimpath -tags="$tags" -o "$work/gearshift" ./cmd/gearshift)
# As deploy/ has it, too, for both that are in Go: docs/benchmarks.md says what for.
in_go=(env GODEBUG=schedtrace=2000000000)

read -ra prefix <<<"${PREFIX-}"
proxies=("${prefix[@]}" "${proxies[@]}") load=("${prefix[@]}" "${load[@]}")

# start NAME COMMAND... runs a proxy and notes its process.
start() {
	"${@:2}" >"$work/$1.log" 2>&1 &
	pids+=($!)
}

# ready NAME PORT waits until it takes connections.
ready() {
	local i
	for ((i = 0; i < 300; i++)); do
		(: <"/dev/tcp/$host/$2") 2>/dev/null && return
		sleep 0.1
	done
	echo "bench-proxy: $1 does not answer:" >&2
	tail -n 20 "$work/$1.log" >&2
	exit 1
}

targets=(direct)
declare -A at=([direct]=$upstream) process=() fields=()

# target NAME PORT PROCESS [FIELDS] is a way to the upstream, with further fields of the header.
target() {
	targets+=("$1")
	at[$1]=$host:$2 process[$1]=$3 fields[$1]=${4-}
}

start upstream "${load[@]}" "$work/overhead" upstream "$upstream"
ready upstream "$port"

if wanted nginx; then
	sed -e "s|@LISTEN@|$host:$((port + 1))|" -e "s|@UPSTREAM@|$upstream|" -e "s|@DIR@|$work|" scripts/proxies/nginx.conf >"$work/nginx.conf"
	start nginx "${proxies[@]}" nginx -c "$work/nginx.conf"
	master=$!
	ready nginx $((port + 1))
	# The worker has the work.
	target nginx $((port + 1)) "$(tr -d ' ' <"/proc/$master/task/$master/children")"
fi
if wanted bare; then
	start bare "${proxies[@]}" "${in_go[@]}" "$work/overhead" bare "$host:$((port + 2))" "http://$upstream"
	target bare $((port + 2)) $!
	ready bare $((port + 2))
fi

# gearshift NAME PORT POLICY [ROUTER] serves the built-in scenario, all of whose replicas
# are the one upstream.
gearshift() {
	start "$1" "${proxies[@]}" "${in_go[@]}" "$work/${4:-router}" serve --scenario "$work/scenario.yaml" --store "$work/store.db" --policy "$3" --addr "$host:$2" --admin-addr off
	target "$1" "$2" $!
	ready "$1" "$2"
}
{
	"$work/gearshift" scenario show titan-rtx-opt | sed '/^serving:/,$d'
	# An engine as in the profile would be overloaded: nothing is to be refused here.
	printf 'serving:\n  balancer: least-harm\n  overload: {shed: never}\n  backend: upstream\n  upstreams:\n'
	for variant in opt-125m opt-1.3b opt-6.7b; do
		for gpu in gpu0 gpu1 gpu2 gpu3; do
			echo "    $variant@$gpu: {url: http://$upstream/v1}"
		done
	done
} >"$work/scenario.yaml"
if wanted gearshift; then
	# As large as any, but hardly trained: it decides as quickly.
	"$work/gearshift" train --scenario "$work/scenario.yaml" --store "$work/store.db" --name measured --steps 6000 >"$work/train.log" 2>&1 || {
		tail -n 20 "$work/train.log" >&2
		exit 1
	}
	gearshift gearshift $((port + 3)) measured
fi
if wanted gearshift-before; then
	gearshift gearshift-before $((port + 6)) measured router-before
fi
if wanted gearshift-rule; then
	gearshift gearshift-rule $((port + 5)) slackfit
fi
if wanted portkey; then
	start portkey "${proxies[@]}" env NODE_ENV=production TRUSTED_CUSTOM_HOSTS="localhost,127.0.0.1" node .cache/portkey/node_modules/@portkey-ai/gateway/build/start-server.js --port=$((port + 4)) --headless
	target portkey $((port + 4)) $! "x-portkey-provider: openai,x-portkey-custom-host: http://$upstream/v1"
	ready portkey $((port + 4))
fi

case $AWAKE in
kernel) # as long as this is open, no core may take any time to be back
	exec 3>/dev/cpu_dma_latency
	echo 0 >&3
	;;
loop) start awake chrt -i 0 taskset -c 0 bash -c 'while :; do :; done' ;;
esac

# body KB is a request with a prompt of that size.
body() {
	local words="the gear turns and every wheel follows its own time so the small one answers soon while "
	printf '{"model":"auto","messages":[{"role":"user","content":"%s"}],"max_tokens":8}' "$(yes "$words" | tr -d '\n' | head -c $(($1 * 1024)))"
}
readonly sizes=(1 10 220)
for kb in "${sizes[@]}"; do body "$kb" >"$work/body-$kb.json" 2>/dev/null || true; done

# headers TARGET prints each field of its header on a line.
headers() { printf '%s\n' "Content-Type: application/json" "Authorization: Bearer none" ${fields[$1]:+"${fields[$1]//,x-/$'\n'x-}"}; }

# attack TARGET KB CLIENTS FILTER has each client ask again when it has its answer, for TIME, and
# prints what the filter of jq takes from the report. No answer may be missing.
attack() {
	local name=$1 kb=$2 clients=$3 args=()
	while read -r field; do args+=(-header "$field"); done < <(headers "$name")
	"${load[@]}" "$work/vegeta" attack -targets <(echo "POST http://${at[$name]}/v1/chat/completions") -body "$work/body-$kb.json" "${args[@]}" \
		-duration "$time" -rate 0 -workers "$clients" -max-workers "$clients" -connections "$clients" -timeout 30s >"$work/results"
	"$work/vegeta" report -type json "$work/results" >"$work/report.json"
	jq -e '.success == 1' "$work/report.json" >/dev/null || {
		echo "bench-proxy: $name left requests without an answer: $(jq -c '[.status_codes, .errors]' "$work/report.json")" >&2
		return 1
	}
	jq -r "$4" "$work/report.json"
}

# used TARGET is the time of processors that its process has had, in milliseconds.
used() { awk -v hz="$(getconf CLK_TCK)" '{ print 1000 * ($14 + $15) / hz }' "/proc/${process[$1]}/stat"; }

# note TARGET BENCHMARK VALUE UNIT... is a result, in the form of Go's benchmarks.
note() { echo "Benchmark$2 1 ${*:3}" >>"$out/$1.txt"; }

# measure TARGET measures it once, direct before the others of its round.
measure() {
	local name=$1 kb median before after count rate
	for kb in "${sizes[@]}"; do
		median=$(attack "$name" "$kb" 1 '.latencies."50th"') || return
		if [ "$name" = direct ]; then
			base[$kb]=$median
			continue
		fi
		note "$name" "AddedToMedian/$kb-KB" $((median - base[$kb])) added-ns
		before=$(used "$name")
		read -r count rate < <(attack "$name" "$kb" 32 '"\(.requests) \(.throughput | floor)"') || return
		after=$(used "$name")
		note "$name" "Clients32/$kb-KB" "$(awk "BEGIN { printf \"%.0f\", 1e6 * ($after - $before) / $count }")" cpu-ns/op "$rate" answers/s
	done
	[ "$name" != portkey ] || return 0 # which answers 500 to streams
	local args=() first gap p99
	while read -r field; do args+=("$field"); done < <(headers "$name")
	read -r first gap p99 < <("${load[@]}" "$work/overhead" streams "http://${at[$name]}/v1/chat/completions" "$time" "${args[@]}") || return
	[ "$name" != direct ] || { base[stream]=$first && return 0; }
	note "$name" Stream $((first - base[stream])) added-ns "$gap" gap-ns "$p99" gap-p99-ns
}

before=$(averages)
since=$(ticks)
declare -A base=()
failed=0
for ((round = 0; round < rounds && !failed; round++)); do
	mapfile -t others < <(printf '%s\n' "${targets[@]:1}" | if ((round % 2)); then tac; else cat; fi)
	for name in direct "${others[@]}"; do
		measure "$name" || { failed=1 && break; }
	done
done
given=$(stolen "$since")

if ((failed)); then
	echo "bench-proxy: broken off; what the proxies said last, and what was measured until then:" >&2
	tail -n 5 "$work"/*.log >&2
fi

describe() {
	echo "- date: $(date -u +%F)"
	echo "- commit: $(commit)${earlier:+; gearshift-before: $(git rev-parse --short "$earlier")}"
	echo "- processor: $(processor)"
	echo "- system: $(system)"
	echo "- versions: $(go env GOVERSION), $(nginx -v 2>&1 | cut -d' ' -f3), Portkey $(cat .cache/portkey/version) on node $(node --version)"
	echo "- cores: $cores; $halts"
	echo "- rounds: $rounds, of $time for each measurement${PREFIX:+, all by $PREFIX}; clients: ${VEGETA##*/cmd/}"
	echo "- load before and after: $before; $(averages)"
	echo "- processors given to other machines by the host meanwhile: $given"
}
# tables compares what was measured, nginx first, or the earlier build.
tables() {
	local name files=()
	for name in gearshift-before nginx gearshift gearshift-rule bare portkey; do
		[ ! -s "$out/$name.txt" ] || files+=("$name=$out/$name.txt")
	done
	echo
	echo '```'
	go run "$BENCHSTAT" "${files[@]}"
	if [ -n "$earlier" ]; then
		echo "by how much gearshift exceeds gearshift-before, paired by round (95 % interval):"
		"$work/overhead" paired "$out/gearshift-before.txt" "$out/gearshift.txt"
	fi
	echo '```'
}

{
	describe
	tables
} | tee "$out/proxy.md"
((failed == 0)) || exit "$failed"
if [ -n "${DOC-}" ]; then
	sed -i -e '/bench-proxy: begin/,/bench-proxy: end/{//!d}' -e "/bench-proxy: begin/r $out/proxy.md" "$DOC"
fi
