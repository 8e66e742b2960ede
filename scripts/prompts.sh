#!/usr/bin/env bash
# Packs the prompts of workloads/prompts again: scripts/prompts.sh FILE
#
# FILE is JSON lines, compressed by gzip: {"prompt": text, "group": number, "scores": {model: 0 to 1}}.
# It needs Python.
set -euo pipefail
packed=$(dirname "$0")/../workloads/prompts/data/nine_models.csv.bz2

python3 - "$1" "$packed" <<'END'
import bz2
import csv
import gzip
import io
import json
import sys

MODELS = [  # from the smallest to the largest
    "codegemma-7b", "mistral-7b-instruct-v0.3", "qwen2.5-7b-instruct", "llama-3.1-8b-instruct", "llama3-chatqa-1.5-8b", "gemma-2-9b-it",
    "llama-3.3-nemotron-super-49b-v1", "llama-3.1-nemotron-51b-instruct", "llama3-chatqa-1.5-70b",
]

table = io.StringIO()
out = csv.writer(table, lineterminator="\n")
out.writerow(["prompt", "group", *MODELS])
for line in gzip.open(sys.argv[1], "rt"):
    row = json.loads(line)
    out.writerow([row["prompt"], row["group"], *(f"{row['scores'][m]:.4g}" for m in MODELS)])
with open(sys.argv[2], "wb") as packed:
    packed.write(bz2.compress(table.getvalue().encode()))
END
