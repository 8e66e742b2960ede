#!/usr/bin/env bash
# Prints a Python that can execute the notebooks: the one that PYTHON names; else
# the system's, which is the one that Debian's packages serve, whatever stands
# first on PATH; else the first on PATH. Fails if there is none.
set -euo pipefail
unset PYTHONHOME PYTHONPATH

readonly probe='
import importlib.util, sys
wanted = "nbconvert", "ipykernel", "matplotlib", "pandas", "numpy", "jinja2"
sys.exit(sys.version_info < (3, 10) or not all(map(importlib.util.find_spec, wanted)))'

for python in ${PYTHON:-/usr/bin/python3 python3}; do
	if command -v "$python" >/dev/null && "$python" -c "$probe" 2>/dev/null; then
		echo "$python"
		exit
	fi
done
exit 1
