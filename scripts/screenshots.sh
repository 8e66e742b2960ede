#!/usr/bin/env bash
# Takes the pictures of the dashboard that the documents show: serves a scenario's
# simulated engines, sends them bursts for some minutes, and opens the page in
# Chromium. POLICY and STORE choose who routes, SHADOW who is on trial beside; PORT is the first of two.
set -euo pipefail
cd "$(dirname "$0")/.."

minutes=${MINUTES:-5}
policy=${POLICY:-slackfit}
store=${STORE:-none.db}
port=${PORT:-18380}
admin=$((port + 1))
chromium=${CHROMIUM:-$(command -v chromium chromium-browser google-chrome google-chrome-stable | head -n 1 || true)}
[ -n "$chromium" ] || { echo "screenshots: no Chromium; Debian: apt-get install chromium; elsewhere: CHROMIUM=its path" >&2; exit 1; }
work=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$work"' EXIT

GEARSHIFT_ADMIN_TOKEN=$(openssl rand -hex 32)
export GEARSHIFT_ADMIN_TOKEN
bin/gearshift serve --policy "$policy" --store "$store" --addr 127.0.0.1:$port --admin-addr 127.0.0.1:$admin 2>"$work/serve.log" &
pids+=($!)
bin/gearshift workload gen "${WORKLOAD:-mmpp:3,22,25,12}" --requests 6000 --out "$work/trace.jsonl"
until curl -sf http://127.0.0.1:$port/readyz >/dev/null; do
	kill -0 "${pids[0]}" || { cat "$work/serve.log" >&2; exit 1; }
	sleep 0.2
done
[ -z "${SHADOW-}" ] || bin/gearshift policy shadow "$SHADOW" --store "$store" --admin http://127.0.0.1:$admin
bin/gearshift replay --url http://127.0.0.1:$port --trace "$work/trace.jsonl" --duration $((minutes * 60 + 120))s >"$work/replay.log" 2>&1 &
pids+=($!)
sleep $((minutes * 60))
kill -0 "${pids[1]}" 2>/dev/null || { cat "$work/replay.log" >&2; exit 1; }
node serving/admin/dashboard/browser/shots.mjs http://127.0.0.1:$admin/ "$GEARSHIFT_ADMIN_TOKEN" "$chromium" docs
ls -l docs/*.png
