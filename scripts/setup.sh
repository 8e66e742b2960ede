#!/usr/bin/env bash
# Installs what is missing to build and test Gearshift; does nothing, in about a
# second, when nothing is. Only Go is required. What else cannot be installed
# here is named, and the build goes on without it.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*"; }

# as_root runs a command as root, or fails at once where that takes a password
# that nobody is there to type.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif ! command -v sudo >/dev/null; then
		return 1
	elif [ -t 0 ]; then
		sudo "$@"
	else
		sudo -n "$@"
	fi
}

# install_debian installs packages; the package lists are fetched only if the
# ones at hand do not do.
install_debian() {
	command -v apt-get >/dev/null || return 1
	say "installing $* (apt-get)"
	local apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
	as_root "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null 2>&1 && return
	as_root "${apt[@]}" update >/dev/null &&
		as_root "${apt[@]}" install -y --no-install-recommends "$@" >/dev/null
}

check_go() {
	local want have
	want=$(awk '$1 == "go" { print $2; exit }' go.mod)
	if ! command -v go >/dev/null; then
		say "Go is missing. Gearshift needs Go $want or newer: https://go.dev/dl/" >&2
		exit 1
	fi
	# A Go that may fetch toolchains has already done so here.
	if ! have=$(go env GOVERSION 2>&1) || ! go list -m >/dev/null 2>&1; then
		say "Gearshift needs Go $want or newer; found: $(GOTOOLCHAIN=local go version 2>&1). Get it at https://go.dev/dl/" >&2
		exit 1
	fi
	say "$have"
}

# OpenBLAS makes training faster; gonum's BLAS does the same work without it.
check_openblas() {
	case ,$(scripts/tags.sh), in *,openblas,*) return ;; esac
	if [ "$(uname -s)" = Linux ] && install_debian gcc libc6-dev libopenblas-dev; then
		return
	fi
	say "OpenBLAS is not installed: training will use the slower pure Go BLAS."
	say "  Debian, Ubuntu: apt-get install gcc libopenblas-dev; Fedora: dnf install gcc openblas-devel"
	say "  elsewhere: any OpenBLAS that 'cc -lopenblas' links"
}

# Node runs the official openai client in the tests of the server.
check_node_client() {
	local dir=serving/clients/node
	[ -f $dir/package-lock.json ] || return 0
	if ! command -v npm >/dev/null && ! install_debian nodejs npm; then
		say "Node.js is not installed: the test with the official openai client will fail."
		say "  Debian, Ubuntu: apt-get install nodejs npm; elsewhere: https://nodejs.org"
		return
	fi
	# npm writes this file last, so an older one is an unfinished or stale install.
	[ $dir/node_modules/.package-lock.json -nt $dir/package-lock.json ] && return
	say "installing the openai npm package in $dir"
	npm ci --prefix $dir --loglevel error --no-audit --no-fund ||
		say "it could not be installed: the test with the official openai client will fail."
}

# HiGHS is the exact solver that plans of modalities are held against.
check_oracle() {
	local dir=internal/highs
	command -v npm >/dev/null || return 0 # check_node_client has said so
	[ $dir/node_modules/.package-lock.json -nt $dir/package-lock.json ] && return
	say "installing the highs npm package in $dir"
	npm ci --prefix $dir --loglevel error --no-audit --no-fund ||
		say "it could not be installed: the test of plans against HiGHS will fail."
}

# Chromium opens the pages in tests, driven by an npm package.
check_browser() {
	local dir=serving/admin/dashboard/browser
	if [ -z "${CHROMIUM-}" ] && ! command -v chromium chromium-browser google-chrome google-chrome-stable >/dev/null &&
		! install_debian chromium; then
		say "Chromium is not installed: the tests of pages are skipped."
		say "  Debian: apt-get install chromium; elsewhere: CHROMIUM=its path"
		return
	fi
	[ $dir/node_modules/.package-lock.json -nt $dir/package-lock.json ] && return
	say "installing the playwright-core npm package in $dir"
	npm ci --prefix $dir --loglevel error --no-audit --no-fund ||
		say "it could not be installed: the tests of pages are skipped."
}

# The tests and bench-compare hold ONNX Runtime against our own engine where its
# library is at hand.
check_onnxruntime() {
	scripts/onnxruntime.sh || say "no ONNX Runtime library: the tests and benchmarks that need it are skipped." >&2
}

# Jupyter executes the notebooks; nothing else needs it.
check_notebooks() {
	scripts/python.sh >/dev/null && return
	if install_debian jupyter-nbconvert python3-ipykernel python3-matplotlib python3-pandas python3-numpy &&
		scripts/python.sh >/dev/null; then
		return
	fi
	say "no Python can execute the notebooks: one with nbconvert, ipykernel, matplotlib, pandas and numpy is needed." >&2
	say "  Debian, Ubuntu: apt-get install jupyter-nbconvert python3-ipykernel python3-matplotlib python3-pandas python3-numpy" >&2
	say "  elsewhere: python3 -m pip install nbconvert ipykernel matplotlib pandas jinja2 in an environment, and PYTHON=its python" >&2
	exit 1
}

# PyTorch is what bench-compare measures against, beside ONNX Runtime; nothing else
# needs it.
check_peers() {
	local python=${PYTHON:-/usr/bin/python3}
	"$python" -c 'import torch, matplotlib' 2>/dev/null && return
	if [ -z "${PYTHON-}" ] && install_debian python3-torch python3-matplotlib && "$python" -c 'import torch, matplotlib' 2>/dev/null; then
		return
	fi
	say "no Python with PyTorch: $python cannot import torch and matplotlib." >&2
	say "  Debian, Ubuntu: apt-get install python3-torch python3-matplotlib" >&2
	say "  elsewhere: python3 -m pip install torch numpy matplotlib in an environment, and PYTHON=its python" >&2
	exit 1
}

# nginx and the Portkey gateway are what bench-proxy measures against, if ONLY names
# them; nothing else needs them.
check_proxies() {
	local portkey=@portkey-ai/gateway@1.15.2 dir=.cache/portkey only=" ${ONLY-nginx portkey} "
	if [[ $only == *" nginx "* ]] && ! command -v nginx >/dev/null && ! install_debian nginx-light; then
		say "nginx is not installed. Debian, Ubuntu: apt-get install nginx-light" >&2
		exit 1
	fi
	if ! command -v jq >/dev/null && ! install_debian jq; then
		say "jq is not installed. Debian, Ubuntu: apt-get install jq" >&2
		exit 1
	fi
	[[ $only == *" portkey "* ]] || return 0
	if ! command -v npm >/dev/null && ! install_debian nodejs npm; then
		say "Node.js is not installed. Debian, Ubuntu: apt-get install nodejs npm; elsewhere: https://nodejs.org" >&2
		exit 1
	fi
	grep -qsF "${portkey##*@}" $dir/version && return
	say "installing $portkey in $dir"
	npm install --prefix $dir --ignore-scripts --loglevel error --no-audit --no-fund $portkey
	echo "${portkey##*@}" >$dir/version
}

check_go
go mod download
check_openblas
case ${1-} in
build) ;;
notebooks) check_notebooks ;;
peers)
	check_peers
	check_onnxruntime
	;;
proxies) check_proxies ;;
*)
	check_node_client
	check_oracle
	check_browser
	check_onnxruntime
	;;
esac
say "ready (build tags: $(scripts/tags.sh | sed 's/^$/none/'))"
