package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"gearshift/internal/scenario"
)

// slotted is a scenario with slots of two variants, on hosts like one of the file.
const slotted = `
tasks: [{name: chat, total_ms: 5000, quality: {small: 0.9, large: 1}}]
variants: [{name: small}, {name: large}]
hosts:
  - {name: own, memory: 4GiB}
  - {name: l4, memory: 8GiB, compute: 100}
replicas:
  - {variant: small, host: l4, slots: 3, memory: 90%, selector: {app: small}, port: 8000}
  - {variant: large, hosts: [own], memory: 90%}
  - {name: big, variant: large, host: l4, slots: 2, memory: 50%, port: 8001}
profiles:
  - {variant: small, hosts: [l4], batch_ms: {1: 10, 4: 20}}
  - {variant: large, hosts: [l4, own], batch_ms: {1: 30, 4: 60}}
workload: {output_tokens: {distribution: none}}
serving:
  backend: upstream
  discovery: {file: list.yaml}
  upstreams: {large@own: {url: 'http://127.0.0.1:1'}, small@*: {model: little}}
`

// Slots are replicas on their own hosts: the same as in a file that lists these.
func TestSlotsAreReplicas(t *testing.T) {
	s, err := scenario.Parse("f.yaml", []byte(slotted))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range s.Table().Replicas {
		names = append(names, r.Name)
	}
	if want := []string{"small@small-0", "small@small-1", "small@small-2", "large@own", "big@big-0", "big@big-1"}; !slices.Equal(names, want) {
		t.Errorf("replicas %v, want %v", names, want)
	}
	if e := s.Serving.Upstreams["small@small-2"]; e.Model != "little" || e.URL != "" {
		t.Errorf("the upstream of a slot is %+v", e)
	}
	slots := s.Slots()
	if p := slots["small@small-1"]; len(slots) != 5 || p == nil || p.Port != 8000 || p.Selector["app"] != "small" {
		t.Errorf("slots %v", slots)
	}
	written := strings.NewReplacer(
		"  - {name: l4, memory: 8GiB, compute: 100}", `  - {name: small-0, memory: 8GiB, compute: 100}
  - {name: small-1, memory: 8GiB, compute: 100}
  - {name: small-2, memory: 8GiB, compute: 100}
  - {name: big-0, memory: 8GiB, compute: 100}
  - {name: big-1, memory: 8GiB, compute: 100}`,
		"host: l4, slots: 3, memory: 90%, selector: {app: small}, port: 8000", "hosts: [small-0, small-1, small-2], memory: 90%",
		"host: l4, slots: 2, memory: 50%, port: 8001", "hosts: [big-0, big-1], memory: 50%",
		"hosts: [l4]", "hosts: [small-0, small-1, small-2, big-0, big-1]", "hosts: [l4, own]", "hosts: [small-0, small-1, small-2, big-0, big-1, own]",
	).Replace(slotted[:strings.Index(slotted, "serving:")])
	same, err := scenario.Parse("f.yaml", []byte(written+"serving: {addr: '127.0.0.1:0'}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if same.Hash() != s.Hash() {
		t.Error("the same fleet with its hosts written out is another world")
	}
	again, err := scenario.Parse("f.yaml", []byte(strings.Replace(slotted, "app: small", "app: other", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Differences(again); !slices.Equal(got, []string{"replicas"}) || again.Hash() != s.Hash() {
		t.Errorf("with another selector %v differ", got)
	}
}

// Scenario check refuses what serve would, with line and key.
func TestFaultsOfSlots(t *testing.T) {
	for name, c := range map[string]struct{ old, new, want string }{
		"hosts too":          {"slots: 3,", "slots: 3, hosts: [own],", "f.yaml:8: replicas[0].hosts: has no meaning with slots, each of which has a host of its own; want one of the two"},
		"no host":            {"host: l4, slots: 3", "slots: 3", "f.yaml:8: replicas[0].host: missing; want one of hosts, which the host of each slot is like"},
		"unknown host":       {"host: l4, slots: 3", "host: l5, slots: 3", `f.yaml:8: replicas[0].host: unknown host "l5"; did you mean "l4"?`},
		"too many":           {"slots: 3", "slots: 1001", "f.yaml:8: replicas[0].slots: want a number from 1 to 1000, not 1001"},
		"a port":             {"port: 8000", "port: 80000", "f.yaml:8: replicas[0].port: want a port from 1 to 65535, or none for the ports of the pool, not 80000"},
		"a selector":         {"{app: small}", "{'a b': small}", "f.yaml:8: replicas[0].selector: selector.a b:"},
		"no slots":           {"host: l4, slots: 2,", "hosts: [own],", "f.yaml:10: replicas[2].slots: missing; want how many engines there are at most"},
		"a host of slots":    {"hosts: [own], memory", "hosts: [l4], memory", `f.yaml:9: replicas[1].hosts[0]: "l4" is the host of slots; want another host`},
		"a state":            {"port: 8000", "port: 8000, state: cold", "f.yaml:8: replicas[0].state: has no meaning with slots, whose engines come and go; want no state"},
		"one name":           {"{name: big, variant: large,", "{name: small, variant: large,", `f.yaml:10: replicas[2]: the slots of "small" are on line 8 already; want a name of its own`},
		"a url":              {"{model: little}", "{url: 'http://127.0.0.1:2'}", "f.yaml:18: serving.upstreams.small@*.url: is found by serving.discovery; want no url"},
		"a lifecycle":        {"{model: little}", "{lifecycle: vllm}", "f.yaml:18: serving.upstreams.small@*.lifecycle: engines of slots come with their models; want no lifecycle"},
		"nothing finds them": {"  discovery: {file: list.yaml}\n", "", "f.yaml:8: replicas[0].slots: nothing finds the engines of slots; want serving.discovery with file, kubernetes or dns"},
		"two sources":        {"{file: list.yaml}", "{file: list.yaml, kubernetes: {}}", "f.yaml:17: serving.discovery.file: want one of file, kubernetes and dns, found 2"},
		"no names":           {"{file: list.yaml}", "{dns: {names: {}}}", "f.yaml:17: serving.discovery.dns.names: want a name for each variant with slots"},
		"unknown names":      {"{file: list.yaml}", "{dns: {names: {smal: a.b}}}", `f.yaml:17: serving.discovery.dns.names.smal: unknown variant or entry of replicas with slots; did you mean "small"?`},
		"a name too few":     {"{file: list.yaml}", "{dns: {names: {small: a.b}}}", `f.yaml:17: serving.discovery.dns.names: has none for the slots of "big"; want one for each variant with slots`},
		"no ports":           {"{app: small}, port: 8000", "{app: small}", ""},
		"a namespace":        {"{file: list.yaml}", "{kubernetes: {namespace: Über}}", "f.yaml:17: serving.discovery.kubernetes.namespace: \"Über\" is not the name of a namespace:"},
		"a label":            {"{file: list.yaml}", "{file: list.yaml, labels: {variant: 'a b'}}", "f.yaml:17: serving.discovery.labels.variant: \"a b\" is not the key of a label:"},
		"memory of a host":   {"8GiB, compute: 100", "8GiB, compute: -1", "f.yaml:6: hosts[1].compute: want a number of TFLOP/s, not -1"},
		"simulated":          {"backend: upstream", "backend: simulated", "serving.discovery: finds servers, and has no meaning with backend: simulated"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(slotted, c.old, c.new, 1)
			if text == slotted {
				t.Fatalf("there is no %q", c.old)
			}
			_, err := scenario.Parse("f.yaml", []byte(text))
			if c.want == "" && err == nil {
				return
			}
			if err == nil || strings.Count(err.Error(), c.want) != 1 || strings.Contains(err.Error(), ": hosts[2]") {
				t.Errorf("error %v\nwant %s", err, c.want)
			}
		})
	}
	text := strings.Replace(slotted, "{file: list.yaml}", "{kubernetes: {}}", 1)
	if _, err := scenario.Parse("f.yaml", []byte(strings.Replace(text, ", port: 8000", "", 1))); err == nil || !strings.Contains(err.Error(), "f.yaml:8: replicas[0].port: missing; want the port of the engines, or serving.discovery.kubernetes.pool, whose ports are used") {
		t.Errorf("without a port: %v", err)
	}
	if _, err := scenario.Parse("f.yaml", []byte(strings.Replace(text, "kubernetes: {}", "kubernetes: {pool: p}", 1))); err != nil {
		t.Errorf("with a pool: %v", err)
	}
}

// Entries of two variants must tell their pods apart: by labels, by the label that names the variant, or by ports.
func TestSlotsOfOneSelector(t *testing.T) {
	text := strings.Replace(slotted, "{file: list.yaml}", "{kubernetes: {}}", 1)
	for entry, bad := range map[string]bool{
		"{name: big, variant: large, host: l4, slots: 2, memory: 50%, selector: {app: small}, port: 8000}":                               true,
		"{name: big, variant: large, host: l4, slots: 2, memory: 50%, selector: {app: small}, port: 8001}":                               false,
		"{name: big, variant: large, host: l4, slots: 2, memory: 50%, selector: {app: big}, port: 8000}":                                 false,
		"{name: big, variant: large, host: l4, slots: 2, memory: 50%, selector: {app: small, gearshift.dev/variant: large}, port: 8000}": false,
		"{name: big, variant: large, host: l4, slots: 2, memory: 50%, port: 8000}":                                                       false,
		"{name: big, variant: small, host: l4, slots: 2, memory: 50%, selector: {app: small}, port: 8000}":                               false,
	} {
		_, err := scenario.Parse("f.yaml", []byte(strings.Replace(text, "{name: big, variant: large, host: l4, slots: 2, memory: 50%, port: 8001}", entry, 1)))
		want := "f.yaml:10: replicas[2].selector: line 8 has the same for another variant, and the same port; want labels or a port that tell their pods apart"
		if !bad && err != nil || bad && (err == nil || err.Error() != want) {
			t.Errorf("%s: error %v", entry, err)
		}
	}
}
