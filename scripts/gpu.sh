#!/usr/bin/env bash
# Measures three decoders on this machine's accelerator, and fits profiles and a
# scenario to what was measured: docs/profiling.md, "Measuring a GPU". DEVICE=cpu tries
# it on tiny shapes, BUDGET is the seconds that measuring may take, OUT the folder for
# the results, DIR one on the disk to load from, PYTHON a Python with PyTorch. With
# "test", tests the script.
set -euo pipefail
cd "$(dirname "$0")/.."

has_torch='import importlib.util, sys; sys.exit(importlib.util.find_spec("torch") is None)'
python=${PYTHON:-}
if [ -z "$python" ]; then
	for python in python3 /usr/bin/python3; do
		"$python" -c "$has_torch" 2>/dev/null && break
	done
fi
if ! command -v "$python" >/dev/null; then
	echo "gpu: no Python at $python: PYTHON names one with PyTorch" >&2
	exit 1
fi
if [ "${1-}" = test ]; then
	exec "$python" -m unittest discover -s scripts/gpu
fi

out=${OUT:-gpu-out}
device=${DEVICE:-cuda}
mkdir -p "$out"
"$python" scripts/gpu/measure.py --device "$device" --budget "${BUDGET:-300}" --out "$out/table.jsonl" ${DIR:+--dir "$DIR"}
if [ -x bin/gearshift ]; then
	bin/gearshift profile gpu "$out/table.jsonl" --out "$out"
else
	echo "gpu: $out/table.jsonl is measured; 'gearshift profile gpu $out/table.jsonl --out $out' fits profiles to it"
fi
