#!/usr/bin/env bash
# Sends REQUESTS (20,000) through nginx and through a proxy that speaks as Envoy does, whose endpoints the router picks, while
# engines die, come and go. Installs nginx with its module for JavaScript where that is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v nginx >/dev/null || ! ls /usr/lib/nginx/modules/ngx_http_js_module.so >/dev/null 2>&1; then
	sudo=; [ "$(id -u)" = 0 ] || sudo="sudo -n"
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light libnginx-mod-http-js >/dev/null || {
		echo "picker: nginx is not installed. Debian, Ubuntu: apt-get install nginx-light libnginx-mod-http-js" >&2
		exit 1
	}
fi
GEARSHIFT_PICKER=${REQUESTS:-20000} exec scripts/measure.sh -count=1 -v -timeout 40m -run '^TestPickerForReal$' ./cmd/gearshift
