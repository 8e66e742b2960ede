#!/usr/bin/env bash
# Checks the files in deploy/: the Helm chart by Helm (built by Go, some minutes the
# first time), the scenario by gearshift itself, Dockerfile and compose file by linters
# from npm, the unit by systemd. What a machine has no tool for is named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."

HELM=helm.sh/helm/v3/cmd/helm@v3.22.0
DCLINT=dclint@3.1.0
DOCKERFILELINT=dockerfilelint@1.8.0

say() { printf 'lint-deploy: %s\n' "$*"; }

say "scenario"
go run ./cmd/gearshift scenario check deploy/scenario.yaml >/dev/null

say "Helm chart"
chart=deploy/helm/gearshift
go run $HELM lint --strict $chart
# Every option at once, and none.
go run $HELM template g $chart --kube-version 1.30.0 >/dev/null
go run $HELM template g $chart --kube-version 1.30.0 --set-file scenario=deploy/scenario.yaml \
	--set 'serviceMonitor.enabled=true,podDisruptionBudget.enabled=true,envFromSecrets={keys}' \
	--set store.existingClaim=policies,strategy.type=Recreate,policy=mine,keysSecret=keys >/dev/null

if command -v npx >/dev/null; then
	say "compose file, Dockerfile"
	npx --yes $DCLINT --quiet deploy/compose/compose.yaml
	npx --yes $DOCKERFILELINT deploy/Dockerfile
else
	say "no npm: the compose file and the Dockerfile are not checked"
fi

if command -v systemd-analyze >/dev/null; then
	say "systemd unit"
	# The program need not be installed here to check the rest.
	unit=$(mktemp -d)
	trap 'rm -rf "$unit"' EXIT
	sed 's|/usr/local/bin/gearshift|/bin/true|' deploy/systemd/gearshift.service >"$unit/gearshift.service"
	systemd-analyze verify "$unit/gearshift.service"
else
	say "no systemd: its unit is not checked"
fi
