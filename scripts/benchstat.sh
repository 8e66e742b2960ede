#!/usr/bin/env bash
# Compares the benchmarks of two commits, their runs interleaved so that both meet
# the same machine; changes that are not committed are not part of it.
#
#   scripts/benchstat.sh OLD [NEW]   NEW is HEAD if not given
#   BENCH=pattern   of benchmarks (.)
#   PKG=folders     to look in (all that have benchmarks)
#   COUNT=n         runs of each (6); TIME=s seconds that each takes (1)
#   BENCHSTAT=...   the tool, as `go run` takes it
set -euo pipefail
cd "$(dirname "$0")/.."

die() { printf 'benchstat: %s\n' "$*" >&2; exit 1; }

commit() { git rev-parse --verify --quiet "$1^{commit}" || die "no commit $1 here"; }

[ -n "${1-}" ] || die "name a commit to compare with: make benchstat OLD=main"
: "${BENCHSTAT:?as go run takes it, such as golang.org/x/perf/cmd/benchstat@latest}"
old=$(commit "$1")
new=$(commit "${2:-HEAD}")
readonly old new bench=${BENCH:-.} count=${COUNT:-6} time=${TIME:-1}

# The binary is to choose the kernels itself.
unset OPENBLAS_CORETYPE
tags=$(scripts/tags.sh)
onnxruntime=$PWD/.cache/onnxruntime/libonnxruntime.so.1 # the other checkouts have none
if [ -e "$onnxruntime" ]; then export GEARSHIFT_ONNXRUNTIME=${GEARSHIFT_ONNXRUNTIME:-$onnxruntime}; fi
work=$(mktemp -d)
remove() {
	for side in old new; do git worktree remove --force "$work/$side" 2>/dev/null || true; done
	rm -rf "$work"
}
trap remove EXIT
git worktree add --quiet --detach "$work/old" "$old"
git worktree add --quiet --detach "$work/new" "$new"

# with_benchmarks lists the folders of a checkout that have some.
with_benchmarks() {
	(cd "$work/$1" && grep -rl --include='*_test.go' --exclude-dir=node_modules '^func Benchmark' ${PKG:-.} 2>/dev/null |
		xargs -rn1 dirname | sort -u)
}
packages=()
while IFS= read -r package; do packages+=("$package"); done < <(comm -12 <(with_benchmarks old) <(with_benchmarks new))
[ ${#packages[@]} -gt 0 ] || die "no folder${PKG:+ of $PKG} has benchmarks in both commits"

binary() { echo "$work/$1-${2//\//_}.test"; }
for side in old new; do
	for package in "${packages[@]}"; do
		(cd "$work/$side" && go test -c -tags="$tags" -o "$(binary "$side" "$package")" "./$package")
	done
done
for ((i = 1; i <= count; i++)); do
	echo "benchstat: run $i of $count" >&2
	for package in "${packages[@]}"; do
		for side in old new; do
			(cd "$work/$side/$package" &&
				"$(binary "$side" "$package")" -test.run '^$' -test.bench "$bench" -test.benchtime "${time}s" -test.benchmem) >>"$work/$side.txt"
		done
	done
done
grep -q ^Benchmark "$work/new.txt" || die "no benchmark ran: BENCH=$bench matches none, or they were skipped"
go run "$BENCHSTAT" "old=$work/old.txt" "new=$work/new.txt"
