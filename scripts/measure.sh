#!/usr/bin/env bash
# Runs `go test` with this machine's build tags and the arguments given, -v among them for tests. A
# test that is skipped has measured nothing, and neither has a run without a test or a benchmark: then
# the exit code is not 0, and the last lines say why.
set -euo pipefail
cd "$(dirname "$0")/.."

tags=$(scripts/tags.sh)
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
go test ${tags:+-tags="$tags"} "$@" | tee "$log" || status=$?
awk '
	/_test\.go:[0-9]+: / { why = $0; sub(/^.*_test\.go:[0-9]+: /, "", why) }
	/^ *--- SKIP: / { skipped[++n] = $3 ": " why; if ($3 !~ /^Benchmark/) tests++ }
	/^--- (PASS|FAIL): / || /^Benchmark.* ns\/op/ { ran++ }
	END {
		for (i = 1; i <= n; i++) print "measure: skipped " skipped[i] >"/dev/stderr"
		if (!ran && !n) print "measure: nothing was measured: no test or benchmark matches" >"/dev/stderr"
		exit tests > 0 || !ran
	}' "$log" || status=1
exit "$status"
