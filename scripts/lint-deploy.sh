#!/usr/bin/env bash
# Checks the files in deploy/: the Helm chart by Helm (built by Go, some minutes the
# first time), Kubernetes objects by the definitions of the projects that own them, the
# scenarios by gearshift itself, Dockerfile and compose file by linters from npm, the unit by
# systemd. What a machine has no tool for is named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."

HELM=helm.sh/helm/v3/cmd/helm@v3.22.0
DCLINT=dclint@3.1.0
DOCKERFILELINT=dockerfilelint@1.8.0
# The definitions of custom resources, by module and folder.
CRDS=(
	sigs.k8s.io/gateway-api@v1.5.0/config/crd/standard
	sigs.k8s.io/gateway-api-inference-extension@v1.6.0/config/crd/bases
	github.com/envoyproxy/gateway@v1.7.0/charts/gateway-helm/crds/generated
	istio.io/api@v1.32.0/kubernetes
)

say() { printf 'lint-deploy: %s\n' "$*"; }

say "scenarios"
for scenario in deploy/scenario.yaml deploy/gateway/scenario.yaml; do
	go run ./cmd/gearshift scenario check $scenario >/dev/null
done

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# valid FILE...: fails unless an API server would take the objects.
definitions=
for crds in "${CRDS[@]}"; do
	module=${crds%@*} folder=${crds#*@}
	at=$(go mod download -json "$module@${folder%%/*}" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	definitions+=${definitions:+,}$at/${folder#*/}
done
go build -C scripts/testdata/manifests -o "$work/manifests" .
valid() { "$work/manifests" -crds "$definitions" "$@"; }

say "objects of Kubernetes"
valid deploy/gateway/{engines,pool,gateway,route,envoy-gateway,istio,gke}.yaml deploy/helm/examples/vllm.yaml
bad=$(valid scripts/testdata/manifests/bad.yaml 2>&1 || true)
for fault in 'spec.extensionRef: unknown field' 'port is required when kind is' 'Unsupported value: "FullDuplex"' 'unknown field "spec.ports[0].appProtocl"'; do
	grep -qF -- "$fault" <<<"$bad" || { say "objects at fault: want \"$fault\", got: $bad" >&2; exit 1; }
done

say "Helm chart"
chart=deploy/helm/gearshift
go run $HELM lint --strict $chart

# rendered CHART OPTION...: what Helm makes of a chart.
rendered() { go run $HELM template g "$1" --kube-version 1.30.0 "${@:2}"; }

# has WHAT TEXT WORDS: fails unless the words are in the text.
has() { grep -qF -- "$3" <<<"$2" || { say "$1: want \"$3\", got: $2" >&2; exit 1; }; }

# Every option at once, and none.
none=$(rendered $chart)
for line in 'kind: NetworkPolicy' '{port: http, protocol: TCP}' 'kind: PodDisruptionBudget' 'maxUnavailable: 1'; do
	has "no option" "$none" "$line"
done
all=$(rendered $chart --set-file scenario=deploy/scenario.yaml \
	--set 'serviceMonitor.enabled=true,serviceMonitor.keySecret.name=prometheus,envFromSecrets={keys}' \
	--set store.existingClaim=policies,strategy.type=Recreate,policy=mine,keysSecret=keys,tlsSecret=tls \
	--set 'networkPolicy.from[0].namespaceSelector.matchLabels.team=web,networkPolicy.egress[0].ports[0].port=8000' \
	--set 'extraVolumes[0].name=ca,extraVolumes[0].configMap.name=ca' \
	--set 'extraVolumeMounts[0].name=ca,extraVolumeMounts[0].mountPath=/etc/ca')
for line in 'path: /readyz, port: http, scheme: HTTPS' 'path: /healthz, port: http, scheme: HTTPS' \
	'scheme: https, tlsConfig' 'mountPath: /etc/gearshift-tls' 'secretName: "tls"' \
	'mountPath: /etc/ca' 'authorization: {credentials: {name: "prometheus", key: "key"}}' 'team: web' '- Egress' 'port: 8000'; do
	has "every option" "$all" "$line"
done
rendered $chart --set policy=slackfit:0.93 >/dev/null

# A picker, alone and next to the proxy, with pods to find and a store in etcd.
picker=$(rendered $chart --set proxy.enabled=false,picker.enabled=true,discovery.enabled=true,replicas=2,policy=mine \
	--set-file scenario=deploy/gateway/scenario.yaml --set-string 'store.etcd=etcd://etcd-0:2379\,etcd-1:2379/gearshift' \
	--set 'picker.from[0].namespaceSelector.matchLabels.team=gateways')
for line in '- --addr=off' '- --extproc=:9002' 'name: g-gearshift-picker' 'appProtocol: kubernetes.io/h2c' 'grpc: {port: 9002, service: readiness}' \
	'grpc: {port: 9002, service: liveness}' '{name: GEARSHIFT_STORE, value: "etcd://etcd-0:2379,etcd-1:2379/gearshift"}' 'resources: [inferencepools]' 'automountServiceAccountToken: true' 'team: gateways'; do
	has "a picker alone" "$picker" "$line"
done
if grep -q -e 'port: http,' -e 'name: http,' <<<"$picker"; then
	say "a picker alone has the clients' port" >&2
	exit 1
fi
both=$(rendered $chart --set picker.enabled=true,picker.tls=true,discovery.enabled=true,discovery.namespace=models,failover.enabled=true,peers.enabled=true,replicas=3 \
	--set 'envFromSecrets={gearshift}' \
	--set-string 'state=etcds://etcd:2379/gearshift')
for line in '- --addr=:8080' '- --extproc=:9002' 'path: /readyz, port: http' 'namespace: "models"' '"--state=etcds://etcd:2379/gearshift"' 'replicas: 3' 'name: g-gearshift-peers' 'clusterIP: None' '# Routers of this release.'; do
	has "proxy and picker" "$both" "$line"
done
alone=$(rendered $chart --set failover.enabled=true,state=/var/lib/gearshift/state.db)
has "one router acts" "$alone" 'type: Recreate'
has "one router acts" "$alone" '"--state=/var/lib/gearshift/state.db"'
elected=$(rendered $chart --set failover.enabled=true,store.etcd=etcd://e:2379/g,replicas=3)
if grep -q -e failover-state -e Recreate <<<"$elected"; then
	say "routers that elect one keep a file of their own" >&2
	exit 1
fi
elected=$(rendered $chart --set 'failover.enabled=true,store.etcd=etcd://e:2379/g,replicas=3,agents.hosts[0].name=h1')
has "agents of routers that elect one" "$elected" '--agent=http://g-gearshift-admin:8081'
for case in 'proxy.enabled=false|leaves no port' 'proxy.enabled=false,picker.enabled=true,picker.tls=true|probes know no TLS' \
	'proxy.enabled=false,picker.enabled=true,serviceMonitor.enabled=true|on the proxy' 'failover.enabled=true,replicas=2|act in one router' \
	'state=/var/lib/gearshift/state.db,replicas=2|act in one router' 'replicas=2,scenario=rollout:|act in one router' \
	'store.etcd=etcd://e:2379/g,store.existingClaim=c|not both' 'picker.enabled=true,picker.port=8081|want another' \
	'peers.enabled=true|GEARSHIFT_FLEET_TOKEN' 'scenario=mine.yaml|by --set-file'; do
	has "${case%|*}" "$(rendered $chart --set "${case%|*}" 2>&1 || true)" "${case#*|}"
done
has "pods without the Role" "$(rendered $chart --set-file scenario=deploy/gateway/scenario.yaml 2>&1 || true)" 'discovery.enabled: the scenario'
printf '%s\n---\n' "$none" "$all" "$picker" "$both" "$alone" >"$work/rendered.yaml"
valid "$work/rendered.yaml"
if grep -q -e NetworkPolicy -e PodDisruption <<<"$(rendered $chart --set networkPolicy.enabled=false,podDisruptionBudget.enabled=false)"; then
	say "a NetworkPolicy or a PodDisruptionBudget that is off is there" >&2
	exit 1
fi
monitored=(--set serviceMonitor.enabled=true,keysSecret=keys)
has "metrics that ask for a key" "$(rendered $chart "${monitored[@]}" 2>&1 || true)" "want serviceMonitor.keySecret"
has "metrics that ask for none" "$(rendered $chart "${monitored[@]}" --set scenario='serving: {metrics: open}')" "kind: ServiceMonitor"
has "a stored policy without a claim" "$(rendered $chart --set policy=mine 2>&1 || true)" "needs store.existingClaim"

# The notes are shown at an install alone, which wants a cluster: here they are a template.
cp -r $chart "$work/chart"
{ echo "notes: |" && sed 's/^/  /' $chart/templates/NOTES.txt; } >"$work/chart/templates/notes.yaml"
notes=$(rendered "$work/chart" --show-only templates/notes.yaml --set scenario=none,tlsSecret=tls)
has "notes" "$notes" "https://g-gearshift"
has "notes" "$notes" "Set serving.ready_grace"
notes=$(rendered "$work/chart" --show-only templates/notes.yaml --set-file scenario=deploy/scenario.yaml)
if grep -q "Set serving.ready_grace" <<<"$notes"; then
	say "notes: the scenario has a ready_grace, and they ask for one" >&2
	exit 1
fi

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
	sed 's|/usr/local/bin/gearshift|/bin/true|' deploy/systemd/gearshift.service >"$work/gearshift.service"
	systemd-analyze verify "$work/gearshift.service"
else
	say "no systemd: its unit is not checked"
fi
