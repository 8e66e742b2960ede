#!/usr/bin/env bash
# Packs the questions of workloads/subjects again: scripts/subjects.sh FILE
#
# FILE is JSON lines, compressed by gzip: {"prompt": text, "group": subject}, as RouteLLM's files of MMLU give them.
# It needs Python.
set -euo pipefail
packed=$(dirname "$0")/../workloads/subjects/data/questions.jsonl.gz

python3 - "$1" "$packed" <<'END'
import gzip
import json
import sys

MOST, LONGEST = 130, 300  # questions of a subject, characters of a question


def cut(prompt):
    text = prompt.rsplit("\nAnswer:", 1)[0]
    return text if len(text) <= LONGEST else text[:LONGEST].rsplit(None, 1)[0]


groups, seen = {}, set()
for line in gzip.open(sys.argv[1], "rt"):
    row = json.loads(line)
    groups.setdefault(row["group"], []).append(cut(row["prompt"]))
with gzip.GzipFile(sys.argv[2], "wb", 9, mtime=0) as packed:
    for group, prompts in groups.items():
        taken = 0
        for prompt in prompts:
            if prompt in seen or taken == MOST:
                continue
            seen.add(prompt)
            taken += 1
            packed.write((json.dumps({"prompt": prompt, "group": group}, ensure_ascii=False) + "\n").encode())
END
