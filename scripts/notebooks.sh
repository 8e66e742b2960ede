#!/usr/bin/env bash
# Executes the notebooks: decision_surface on the report in the folder given, modality, failover, tail and
# streams on those that GEARSHIFT_MODALITY_REPORT, GEARSHIFT_FAILOVER_REPORT, GEARSHIFT_TAIL_REPORT and
# GEARSHIFT_STREAMS_REPORT name, or on quick ones that are made first. Copies with outputs go to notebooks-out; the notebooks themselves stay as they are.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly out=notebooks-out
readonly data=${1:?usage: scripts/notebooks.sh DIR, the folder of gearshift paper --out DIR}

if [ ! -f "$data/surface.csv" ]; then
	echo "notebooks: there is no surface.csv in $data; 'gearshift paper --quick --out $data' makes one" >&2
	exit 1
fi
if ! python=$(scripts/python.sh); then
	echo "notebooks: no Python with nbconvert, ipykernel, matplotlib, pandas and numpy; scripts/setup.sh notebooks installs them on Debian" >&2
	exit 1
fi

# The kernel is of the Python that runs it, and what is configured for this
# user's own Jupyter is left out: a kernel there may belong to another Python.
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
unset PYTHONHOME PYTHONPATH MPLBACKEND JUPYTER_CONFIG_PATH
export JUPYTER_PATH=$own/share JUPYTER_CONFIG_DIR=$own/config JUPYTER_RUNTIME_DIR=$own/runtime
export IPYTHONDIR=$own/ipython PYDEVD_DISABLE_FILE_VALIDATION=1
mkdir -p "$JUPYTER_PATH/kernels/python3"
cat >"$JUPYTER_PATH/kernels/python3/kernel.json" <<KERNEL
{"argv": ["$python", "-Xfrozen_modules=off", "-m", "ipykernel_launcher", "-f", "{connection_file}"],
 "display_name": "Python 3", "language": "python"}
KERNEL
GEARSHIFT_REPORT=$(cd "$data" && pwd)
export GEARSHIFT_REPORT

mkdir -p "$out"
modality=${GEARSHIFT_MODALITY_REPORT:-$out/mosel}
if [ ! -f "$modality/csv/gains.csv" ]; then
	bin/gearshift paper mosel --quick --seeds 2 --out "$modality"
fi
GEARSHIFT_MODALITY_REPORT=$(cd "$modality" && pwd)
export GEARSHIFT_MODALITY_REPORT
failover=${GEARSHIFT_FAILOVER_REPORT:-$out/faillite}
if [ ! -f "$failover/csv/testbed.csv" ]; then
	bin/gearshift paper faillite --quick --seeds 2 --out "$failover"
fi
GEARSHIFT_FAILOVER_REPORT=$(cd "$failover" && pwd)
export GEARSHIFT_FAILOVER_REPORT
tail=${GEARSHIFT_TAIL_REPORT:-$out/tail}
if [ ! -f "$tail/csv/replica-cases.csv" ]; then
	bin/gearshift paper tail --quick --seeds 2 --only knowledge,replicas,tiers --out "$tail"
fi
GEARSHIFT_TAIL_REPORT=$(cd "$tail" && pwd)
export GEARSHIFT_TAIL_REPORT
streams=${GEARSHIFT_STREAMS_REPORT:-$out/arise}
if [ ! -f "$streams/csv/clients-served.csv" ]; then
	bin/gearshift paper arise --quick --seeds 2 --only clients,ours,rates --out "$streams"
fi
GEARSHIFT_STREAMS_REPORT=$(cd "$streams" && pwd)
export GEARSHIFT_STREAMS_REPORT
for notebook in notebooks/*.ipynb; do
	echo "notebooks: $notebook"
	"$python" -m nbconvert --log-level=ERROR --to notebook --execute --ExecutePreprocessor.kernel_name=python3 \
		--ExecutePreprocessor.timeout=600 --output-dir="$out" "$notebook"
done
echo "notebooks: executed on $data; see $out"
