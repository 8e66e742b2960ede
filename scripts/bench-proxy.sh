#!/usr/bin/env bash
# Measures what Gearshift adds to a request, beside nginx, a bare reverse proxy in
# Go and the Portkey gateway, in turn and on this machine, and prints Markdown
# tables. bench-out keeps the tables and every single result.
#
#   BEFORE=commit  measures that commit's router beside the present one, alternating, and
#               prints their paired differences; ROUNDS is then 20, and ONLY these two
#   ROUNDS=n    how often each is measured (5)
#   TIME=d      of each measurement (500ms)
#   PIN=0       leaves it to the system which core runs what
#   AWAKE=how   keeps the proxies' core from halting while none has work: "kernel" has all
#               cores poll, which takes root; "loop" gives that core a process of the idle
#               class, only with PIN; "no" lets it halt (the first of these that can be had)
#   PATIENCE=d  to wait while others slow the cores, and to measure again what they
#               slowed, in all (10m); only with PIN
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
readonly rounds=${ROUNDS:-$([ -n "$BEFORE" ] && echo 20 || echo 5)} time=${TIME:-500ms} port=${PORT:-18400} patience=${PATIENCE:-10m}
readonly out=bench-out host=127.0.0.1
readonly upstream=$host:$port
readonly only=${ONLY:-$([ -n "$BEFORE" ] && echo gearshift gearshift-before || echo gearshift gearshift-rule nginx bare portkey)}

fail() {
	echo "bench-proxy: $1" >&2
	exit 2
}
wanted() { [[ " $only " == *" $1 "* ]]; }

# One core runs the proxies, of which one at a time has work, and another the
# clients and the upstream, one thread that never sleeps: so a proxy has a core,
# whatever it does with it. A core of a virtual machine that halts takes 10 µs or more
# to be back, as long as some proxies take altogether: AWAKE.
pinned= proxies=() load=() watch=() cores="as the system sees fit"
if [ "${PIN-1}" != 0 ] && [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ] && command -v taskset >/dev/null; then
	pinned=1 proxies=(taskset -c 0) load=(taskset -c 1) watch=(--watch 0,1) cores="one for the proxies, of which one at a time has work; one for clients and upstream"
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
unset GOMAXPROCS GOGC GOMEMLIMIT GODEBUG http_proxy https_proxy HTTP_PROXY HTTPS_PROXY NODE_OPTIONS

scripts/setup.sh proxies >&2
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
# As deploy/ has it, too, for both that are in Go: docs/overhead.md says what for.
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

targets=(--target "direct=$upstream")

if wanted nginx; then
	sed -e "s|@LISTEN@|$host:$((port + 1))|" -e "s|@UPSTREAM@|$upstream|" -e "s|@DIR@|$work|" scripts/proxies/nginx.conf >"$work/nginx.conf"
	start nginx "${proxies[@]}" nginx -c "$work/nginx.conf"
	master=$!
	ready nginx $((port + 1))
	# The worker has the work.
	targets+=(--target "nginx=$host:$((port + 1)),pid=$(cat "/proc/$master/task/$master/children" | tr -d ' ')")
fi
if wanted bare; then
	start bare "${proxies[@]}" "${in_go[@]}" "$work/overhead" bare "$host:$((port + 2))" "http://$upstream"
	targets+=(--target "bare=$host:$((port + 2)),pid=$!")
	ready bare $((port + 2))
fi

# gearshift NAME PORT POLICY [ROUTER] serves the built-in scenario, all of whose replicas
# are the one upstream.
gearshift() {
	start "$1" "${proxies[@]}" "${in_go[@]}" "$work/${4:-router}" serve --scenario "$work/scenario.yaml" --store "$work/store.db" --policy "$3" --addr "$host:$2" --admin-addr off
	targets+=(--target "$1=$host:$2,pid=$!")
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
	targets+=(--target "portkey=$host:$((port + 4)),pid=$!,x-portkey-provider: openai,x-portkey-custom-host: http://$upstream/v1")
	ready portkey $((port + 4))
fi

case $AWAKE in
kernel) # as long as this is open, no core may take any time to be back
	exec 3>/dev/cpu_dma_latency
	echo 0 >&3
	;;
loop) start awake chrt -i 0 taskset -c 0 bash -c 'while :; do :; done' ;;
esac
failed=0
before=$(averages)
since=$(ticks)
"${load[@]}" "$work/overhead" measure "${watch[@]}" --patience "$patience" --upstream "$upstream" --rounds "$rounds" --time "$time" --open gearshift,gearshift-before,gearshift-rule,nginx,bare --stream direct,gearshift,gearshift-before,gearshift-rule,nginx,bare "${targets[@]}" >"$out/proxy.jsonl" || failed=$?
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
	echo "- rounds: $rounds, of $time for each measurement${pinned:+, and $patience in all to wait for cores that nobody slows}${PREFIX:+, all by $PREFIX}"
	echo "- load before and after: $before; $(averages)"
	echo "- processors given to other machines by the host meanwhile: $given"
}
{
	describe
	"$work/overhead" table <"$out/proxy.jsonl"
} | tee "$out/proxy.md"
((failed == 0)) || exit "$failed"
if [ -n "${DOC-}" ]; then
	sed -i -e '/bench-proxy: begin/,/bench-proxy: end/{//!d}' -e "/bench-proxy: begin/r $out/proxy.md" "$DOC"
fi
