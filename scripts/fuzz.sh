#!/usr/bin/env bash
# Runs every fuzz target in turn, each for TIME, and goes on after a finding; the
# exit code is 1 if there was one. FUZZ=regexp picks targets by folder and name.
# A finding is kept by go test in the package's testdata/fuzz, where the tests
# run it again from then on.
set -euo pipefail
cd "$(dirname "$0")/.."

time=${TIME:-30s}
pattern=${FUZZ:-.}
tags=$(scripts/tags.sh)

# Lines such as "./serving/openai/wire FuzzMeter".
targets=$(grep -rHo --include='*_test.go' --exclude-dir=node_modules '^func Fuzz[A-Za-z0-9_]*(f \*testing.F)' . |
	sed -E 's|/[^/]*_test.go:func (Fuzz[A-Za-z0-9_]*).*| \1|' | sort -u | grep -E -- "$pattern" || true)
if [ -z "$targets" ]; then
	echo "fuzz: no target matches $pattern" >&2
	exit 1
fi

found=()
while read -r package name; do
	printf '== %s %s for %s\n' "$package" "$name" "$time"
	# Minimising what is merely new takes a minute each by default, and finds nothing.
	go test ${tags:+-tags="$tags"} -run '^$' -fuzz "^$name\$" -fuzztime "$time" -fuzzminimizetime 2s "$package" </dev/null || found+=("$package $name")
done <<<"$targets"

if [ ${#found[@]} -gt 0 ]; then
	printf 'fuzz: a finding in %s\n' "${found[@]}" >&2
	exit 1
fi
printf 'fuzz: no finding in %d targets, %s each\n' "$(wc -l <<<"$targets")" "$time"
