#!/usr/bin/env bash
# Which inputs of a multimodal model jobs use: a queue of two jobs is planned, with and without
# mixing inputs within a job, and the policies are compared in the simulator.
# Everything it writes lies in demo-modality-out, which each run empties first.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=demo-modality-out
rm -rf "$out"
mkdir -p "$out"

step() { printf '\n== %s (%d:%02d)\n' "$*" $((SECONDS / 60)) $((SECONDS % 60)); }

cat >"$out/queue.json" <<'JSON'
{"free_at": 20,
 "options": [{"name": "audio", "quality": 0.67, "latency": [20, 40]},
             {"name": "video", "quality": 0.70, "latency": [30, 60]},
             {"name": "both",  "quality": 0.80, "latency": [60, 120]}],
 "jobs": [{"id": "2", "size": 2, "min_quality": 0.71, "deadline": 140},
          {"id": "3", "size": 2, "min_quality": 0.68, "deadline": 150}]}
JSON

step "the plan of two jobs"
bin/gearshift modality plan --in "$out/queue.json"

step "the same, one kind of input for all requests of a job: job 3 is dropped"
sed 's/"free_at"/"mixing": "uniform", "free_at"/' "$out/queue.json" | bin/gearshift modality plan --in -

step "policies compared: five models, 3 days of 2 minutes"
bin/gearshift paper mosel --quick --out "$out/report"

step "done; open $out/report/report.html"
