#!/usr/bin/env bash
# Runs the benchmarks whose names match a pattern, in the folders that have such:
#   scripts/bench.sh PATTERN [FLAGS of go test]
set -euo pipefail
cd "$(dirname "$0")/.."

names=$(sed 's#/[^|]*##g' <<<"$1") # without the patterns of sub-benchmarks
readonly names
mapfile -t folders < <(
	grep -roE --include='*_test.go' --exclude-dir=node_modules '^func Benchmark\w+' . | sed 's/:func /:/' |
		while IFS=: read -r file name; do
			if [[ $name =~ $names ]]; then dirname "$file"; fi
		done | sort -u
)
[ ${#folders[@]} -gt 0 ] || { echo "bench: no benchmark matches BENCH=$1; list them: git grep -h '^func Benchmark'" >&2; exit 1; }
exec scripts/measure.sh -run '^$' -bench "$1" -benchmem "${@:2}" "${folders[@]}"
