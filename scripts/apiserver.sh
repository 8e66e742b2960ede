#!/usr/bin/env bash
# Builds kube-apiserver and etcd from their modules into .cache/apiserver, once, for the tests of serving/discovery
# against a real API server. It needs the Go module proxy and about four minutes on two cores.
set -euo pipefail
cd "$(dirname "$0")/.."
kubernetes=1.36.3
etcd=3.6.13
into=$PWD/.cache/apiserver
[ -x "$into/kube-apiserver" ] && [ -x "$into/etcd" ] && { echo "$into"; exit 0; }
mkdir -p "$into"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS=-trimpath CGO_ENABLED=0

mkdir "$work/etcd" && cd "$work/etcd"
cat > main.go <<'GO'
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
GO
go mod init etcd >/dev/null 2>&1
go get "go.etcd.io/etcd/server/v3@v$etcd" >/dev/null
go mod tidy >/dev/null 2>&1
go build -ldflags=-s -o "$into/etcd" .

mkdir "$work/apiserver" && cd "$work/apiserver"
cat > main.go <<'GO'
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
)

func main() { os.Exit(cli.Run(app.NewAPIServerCommand())) }
GO
go mod init apiserver >/dev/null 2>&1
go mod edit -require="k8s.io/kubernetes@v$kubernetes"
# Kubernetes replaces its staging modules by folders, which are published at v0.MINOR.PATCH.
module=$(go mod download -json "k8s.io/kubernetes@v$kubernetes" | sed -n 's/.*"GoMod": "\(.*\)".*/\1/p')
for name in $(sed -n 's|^[[:space:]]*\(k8s.io/[a-z-]*\) => ./staging/.*|\1|p' "$module"); do
	go mod edit -replace="$name=$name@v0.${kubernetes#1.}"
done
go mod tidy >/dev/null 2>&1
go build -ldflags=-s -o "$into/kube-apiserver" .
echo "$into"
