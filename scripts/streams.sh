#!/usr/bin/env bash
# Streaming clients for real: two engines with a detector, a router, and clients in processes of their own over an
# emulated link, which measure their true drop; ours and ARISE-alpha in turn, each with what the simulator predicts.
#
#   scripts/streams.sh                          # six minutes, once the detector is trained (some more)
#   TRANSPORT=webtransport STREAM_ARGS=--arise-estimate CLIENTS="8 20" ROUNDS=3 SECONDS_EACH=20 LINK=lte SLA=0.04 OUT=streams-out scripts/streams.sh
#
# Engines take the times of BATCH_MS, as an accelerator would: on a processor, batches save nothing. Prints a table of
# medians, and leaves each run as JSON in OUT.
set -euo pipefail
cd "$(dirname "$0")/.."
clients=${CLIENTS:-"8 20"} rounds=${ROUNDS:-3} seconds=${SECONDS_EACH:-20} warmup=${WARMUP:-5}
link=${LINK:-lte} sla=${SLA:-0.04} out=${OUT:-streams-out} port=${PORT:-18100}
batch_ms=${BATCH_MS:-1=30,8=100} models=${MODELS:-.cache/streams-models} policies=${POLICIES:-"gearshift arise-alpha"} transport=${TRANSPORT:-websocket} bin=${BIN:-bin/gearshift}
[ -x "$bin" ] || { echo "no $bin: run make build" >&2; exit 1; }
[ -d "$models/boxes" ] || "$bin" models make --family boxes --out "$models"
command -v jq >/dev/null || { echo "jq is missing: apt-get install jq" >&2; exit 1; }
mkdir -p "$out"

running=()
stop() { for pid in "${running[@]:-}"; do kill "$pid" 2>/dev/null || true; done; wait 2>/dev/null || true; running=(); }
trap stop EXIT
begin() { "$@" >>"$out/log" 2>&1 & running+=($!); }
ready() { # URL
  for _ in $(seq 100); do curl -sf "$1" >/dev/null && return; sleep 0.1; done
  echo "$1 does not answer; see $out/log" >&2; exit 1
}

scenario() { # POLICY
  cat <<YAML
tasks: [{name: boxes, total_ms: 1000, quality: {boxes: 0.91}}]
variants: [{name: boxes}]
hosts: [{name: h1, memory: 4GiB}, {name: h2, memory: 4GiB}]
replicas: [{variant: boxes, hosts: [h1, h2], memory: 30%}]
profiles: [{variant: boxes, batch_ms: {${batch_ms//=/: }}, weight_bytes: 1_000_000}]
serving:
  addr: 127.0.0.1:$port
  admin: {addr: "127.0.0.1:$((port + 1))"}
  backend: upstream
  upstreams:
    boxes@h1: {url: "http://127.0.0.1:$((port + 11))"}
    boxes@h2: {url: "http://127.0.0.1:$((port + 12))"}
  streams:
    task: boxes
    policy: $1
    http3: "$([ "$transport" = websocket ] || echo "127.0.0.1:$((port + 2))")"
    input: {encoding: float, width: 128, height: 128, range: [-1, 1]}
YAML
}

one() { # POLICY CLIENTS ROUND
  local name="$out/$1-$2-$3"
  scenario "$1" >"$out/$1.yaml"
  for k in 1 2; do begin "$bin" engine --model "$models/boxes" --addr "127.0.0.1:$((port + 10 + k))" --max-sequences 8 --batch-ms "$batch_ms"; done
  for k in 1 2; do ready "http://127.0.0.1:$((port + 10 + k))/v2/health/ready"; done
  begin "$bin" serve --scenario "$out/$1.yaml"
  ready "http://127.0.0.1:$port/readyz"
  "$bin" stream --url "http://127.0.0.1:$port" --scenes --processes --link "$link" --sla "$sla" --clients "$2" --seed "$3" \
    $([ "$transport" = websocket ] || echo --webtransport) ${STREAM_ARGS:-} --duration "$((seconds + warmup))s" --warmup "${warmup}s" --simulate "$out/$1.yaml" --format json >"$name.json" 2>>"$out/log" ||
    echo "no results: $name; see $out/log" >&2
  stop
}

uptime
for round in $(seq "$rounds"); do
  for n in $clients; do
    for policy in $policies; do one "$policy" "$n" "$round"; done # in turn, so that what else runs is the same
  done
done
uptime

echo
echo "Medians of $rounds runs of $seconds s, SLA $sla, link $link, two engines of $batch_ms ms. Drop is beyond the reference, by exact boxes."
echo
printf '| policy | clients | served | simulated | off | results/s | simulated | late | drop | worst s | s above | clients above | rate | estimated |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n'
for n in $clients; do
  for policy in $policies; do
    jq -rs --arg policy "$policy" --arg n "$n" '
      def median(f): map(f) | sort | .[length / 2 | floor];
      def round(k): . * pow(10; k) | round / pow(10; k);
      "| `\($policy)` | \($n) | \(median(.served) | round(1)) | \(median(.simulated.served) | round(1)) | \(median(100 * (.simulated.served / .served - 1)) | round(0)) % | \(median(.results_per_second) | round(0)) | \(median(.simulated.results_per_second) | round(0)) | \(median(100 * .late) | round(1)) % | \(median(.drop.mean) | round(4)) | \(median(.drop.worst) | round(3)) | \(median(100 * .drop.above_sla) | round(1)) % | \(median(.drop.clients_above_sla)) | \(median(.drop.drop_rate) | round(4)) | \(median(.drop_rate_estimated) | round(4)) |"
    ' "$out/$policy-$n-"*.json
  done
done
