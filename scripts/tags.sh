#!/usr/bin/env bash
# Prints the build tags that this machine can serve, comma-separated: openblas
# where a C compiler links OpenBLAS, onnx where the ONNX Runtime library lies in
# .cache (`make onnxruntime` puts it there). Prints nothing for a plain build.
set -euo pipefail
cd "$(dirname "$0")/.."

tags=()
if [ "$(go env CGO_ENABLED)" = 1 ]; then
	read -ra cc <<<"$(go env CC)"
	probe='void cblas_sgemm(void); int main(void) { cblas_sgemm(); return 0; }'
	if "${cc[@]}" -x c - -lopenblas -o /dev/null <<<"$probe" 2>/dev/null; then
		tags+=(openblas)
	fi
	if [ -s .cache/onnxruntime/libonnxruntime.so.1 ]; then # the name by which it is looked for, on any system
		tags+=(onnx)
	fi
fi
IFS=,
echo "${tags[*]-}"
