#!/usr/bin/env bash
# Measures ours and the peers in turn, on this machine, and prints Markdown tables
# of the ratios between runs that were a moment apart. bench-out keeps the tables
# and every single result.
#
#   ROUNDS=n    how often each runs (5)
#   TIME=s      seconds that each benchmark runs for (1)
#   PYTHON=...  a Python with torch and numpy
#   DOC=file    to put the tables into, between its lines "bench-compare: begin"
#               and "bench-compare: end"
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/machine.sh

readonly rounds=${ROUNDS:-5} seconds=${TIME:-1} python=${PYTHON:-/usr/bin/python3}
readonly out=bench-out

# What the user's shell says of threads and kernels must not reach either side.
unset OPENBLAS_CORETYPE OMP_NUM_THREADS MKL_NUM_THREADS GOMAXPROCS GOGC GOMEMLIMIT ATEN_CPU_CAPABILITY
export OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1

scripts/setup.sh peers >&2

# Where the set-up puts the library; the benchmarks run elsewhere.
onnx=$PWD/.cache/onnxruntime/libonnxruntime.so.1
[ ! -e "$onnx" ] || export GEARSHIFT_ONNXRUNTIME=${GEARSHIFT_ONNXRUNTIME:-$onnx}

mkdir -p "$out"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
readonly log=$out/compare.txt

tags=$(scripts/tags.sh)
for package in rl/dqn cmd/gearshift; do
	go test -c -tags="$tags" -o "$work/$(basename "$package").test" "./$package"
done

has() { grep -m1 '^flags' /proc/cpuinfo 2>/dev/null | grep -qw "$1"; }

# tuned names the OpenBLAS kernels for this processor, as our binary chooses them.
tuned() {
	if has avx512bw && has avx512vl; then
		echo SkylakeX
	elif has avx2; then
		echo Haswell
	fi
}
kernels=$(tuned)
readonly kernels

describe() {
	echo "date: $(date -u +%F)"
	echo "commit: $(commit)"
	echo "processor: $(processor)"
	echo "system: $(system)"
	echo "ours: $(go env GOVERSION), build tags ${tags:-none}"
	echo "peers: $("$python" -c 'import platform, torch; print("Python", platform.python_version(), "and PyTorch", torch.__version__)'), one thread"
	echo "rounds: $rounds, of $seconds s for each benchmark"
	echo "load-before: $(averages)"
}

# ours CORES BINARY PATTERN TIME runs benchmarks of ours.
ours() {
	printf 'side: ours\ncores: %s\n' "$1"
	"$work/$2.test" -test.run '^$' -test.cpu "$1" -test.bench "$3" -test.benchtime "$4" >"$work/results" || {
		cat "$work/results" >&2
		exit 1
	}
	grep '^Benchmark' "$work/results" || true # there may be none
}

# apart BINARY PATTERN TIME runs two processes of ours at the same time, on one core each:
# what a machine's two cores do where nothing is shared.
apart() {
	local results="$work/apart"
	"$work/$1.test" -test.run '^$' -test.cpu 1 -test.bench "$2" -test.benchtime "$3" >"$results" &
	ours 1 "$@" | sed 's/^side: ours/side: ours-apart-1/'
	wait $!
	echo "side: ours-apart-2"
	grep '^Benchmark' "$results"
}

# torch PEER [FLAG...] runs one with the kernels that OpenBLAS chooses by itself
# and with tuned ones.
torch() {
	echo "side: pytorch-default"
	"$python" "scripts/peers/$1.py" "${@:2}"
	[ -n "$kernels" ] || return 0
	echo "side: pytorch-tuned"
	OPENBLAS_CORETYPE=$kernels "$python" "scripts/peers/$1.py" "${@:2}"
}

round() {
	echo "round: $1"
	ours 1 dqn '^BenchmarkStep$' "${seconds}s"
	torch learner --seconds "$seconds"

	# As many decisions as the peer takes: both play the same requests.
	ours 1 gearshift '^BenchmarkTraining$/^9-256' 200x
	ours 1 gearshift '^BenchmarkTraining$/^(9-64|default)' 1000x
	torch training
	ours 2 gearshift '^BenchmarkTraining$/^two-cores' 200x
	torch training --two-cores

	ours 1 gearshift '^BenchmarkEnvironment$/^one-core' "${seconds}s"
	ours 1 gearshift '^BenchmarkSimulation$/^threshold' "${seconds}s"
	ours 2 gearshift '^BenchmarkEnvironment$/^two-cores' "${seconds}s"
	ours 2 gearshift '^BenchmarkSimulation$/^two-cores' "$((5 * seconds))s" # five turns or so of each
	apart gearshift '^BenchmarkSimulation$/^threshold' "${seconds}s"
	echo "side: python"
	"$python" scripts/peers/environment.py --seconds "$seconds"

	ours 1 gearshift '^BenchmarkDecision$' "${seconds}s"
}

describe >"$log"
since=$(ticks)
for ((i = 1; i <= rounds; i++)); do
	echo "bench-compare: round $i of $rounds" >&2
	round "$i" >>"$log"
done
echo "load-after: $(averages)" >>"$log"
echo "given-to-others: $(stolen "$since")" >>"$log"
"$python" scripts/peers/compare.py "$log" | tee "$out/compare.md"
if [ -n "${DOC-}" ]; then
	sed -i -e '/bench-compare: begin/,/bench-compare: end/{//!d}' -e "/bench-compare: begin/r $out/compare.md" "$DOC"
fi
