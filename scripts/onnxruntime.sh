#!/usr/bin/env bash
# Puts the ONNX Runtime library into .cache/onnxruntime. It comes out of the npm
# package onnxruntime-node, which carries the shared library for Linux; its
# version has to match the one that github.com/yalue/onnxruntime_go binds.
set -euo pipefail
cd "$(dirname "$0")/.."

version=1.27.0
dir=.cache/onnxruntime
library=libonnxruntime.so.1

die() { printf 'onnxruntime: %s\n' "$*" >&2; exit 1; }

[ "$(cat "$dir/VERSION" 2>/dev/null)" != "$version" ] || [ ! -s "$dir/$library" ] || exit 0

[ "$(uname -s)" = Linux ] || die "only Linux is set up by this script; elsewhere, put version $version of the library into $dir, as $library"
case $(uname -m) in
x86_64) arch=x64 ;;
aarch64 | arm64) arch=arm64 ;;
*) die "the npm package has no library for $(uname -m)" ;;
esac
command -v npm >/dev/null || die "npm is needed to fetch the library (Debian: apt-get install npm)"

mkdir -p .cache
work=$(mktemp -d .cache/onnxruntime.XXXXXX)
trap 'rm -rf "$work"' EXIT
echo "onnxruntime: fetching version $version (linux/$arch)"
npm pack --loglevel error --pack-destination "$work" "onnxruntime-node@$version" >/dev/null
tar -xzf "$work"/*.tgz -C "$work" --strip-components=5 "package/bin/napi-v6/linux/$arch"
[ -s "$work/$library" ] || die "the package holds no $library for linux/$arch"

mkdir -p "$dir"
mv "$work/$library" "$dir/$library"
echo "$version" >"$dir/VERSION"
echo "onnxruntime: $dir/$library"
