#!/usr/bin/env bash
# Prompts for real: two classifiers of texts by ONNX Runtime, which "models make --family subjects" trains, behind
# a router for each of two arms, one of which predicts from the prompt which size is right. Both are sent the same
# questions in bursts, in turn, ROUNDS=5 times, WINDOW=30s each. Prints how many were answered rightly and in time;
# the exit code is not 0 if a round of five or more has nothing gained. MODELS is a folder of the models, with their
# samples in samples, to begin at once. Nothing else should run meanwhile.
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=${ROUNDS:-5}
if ! [[ $rounds =~ ^[1-9][0-9]*$ ]]; then
	echo "prompts-real: ROUNDS=$rounds: want a whole number, 1 or more" >&2
	exit 2
fi
GEARSHIFT_PROMPTS=$rounds GEARSHIFT_PROMPTS_WINDOW=${WINDOW:-30s} GEARSHIFT_PROMPTS_MODELS=${MODELS:-} \
	exec scripts/measure.sh -count=1 -v -timeout $((rounds * 5 + 15))m -run '^TestPromptsForReal$' ./cmd/gearshift
