package scenario_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
)

// catalogued is minimal.yaml with models, resources and a large size that starts cold, beside
// what else is edited.
func catalogued(t testing.TB, edits ...string) string {
	t.Helper()
	return minimal(t, append([]string{
		"tasks:\n", "models:\n  - {name: weights-s, memory: 800MB, load_ms: 400}\n  - {name: weights-l, memory: 5GB, load_ms: 2500, version: \"2\"}\ntasks:\n",
		"quality: {small: 0.6, large: 1}}\n", "quality: {small: 0.6, large: 1}}\n  - {name: label, deadline_ms: 40, quality: {small: 1}}\n",
		"- name: small\n  - name: large\n", "- {name: small, model: weights-s}\n  - {name: large, model: weights-l}\n",
		"memory: 8GiB}", "memory: 8GiB, site: hall, compute: 130, bandwidth: 672}",
		"memory: 80%}", "memory: 80%, state: cold}",
	}, edits...)...)
}

// What the keys of the catalogue say is in the table.
func TestCatalogue(t *testing.T) {
	s := parse(t, catalogued(t))
	for _, table := range []*fleet.Table{s.Table(), s.ServingTable()} {
		if m := table.Models; len(m) != 2 || m[0] != (fleet.Model{Name: "weights-s", Memory: 8e8, Load: 400 * time.Millisecond}) || m[1].Version != "2" || m[1].Load != 2500*time.Millisecond {
			t.Errorf("models %+v", m)
		}
		if table.ModelOf(0) != 0 || table.ModelOf(1) != 1 {
			t.Errorf("small runs model %d, large %d", table.ModelOf(0), table.ModelOf(1))
		}
		if h := table.Hosts[0]; h != (fleet.Host{Name: "gpu0", Site: "hall", Memory: 8 << 30, Compute: 130e12, Bandwidth: 672e9}) {
			t.Errorf("host %+v", h)
		}
		if r := table.Replicas; r[0].Initial != fleet.Up || r[1].Initial != fleet.Cold || r[1].Memory != 8<<30*8/10 {
			t.Errorf("replicas %+v", r)
		}
		for task, answers := range [][]bool{{true, true}, {true, false}} {
			for variant, want := range answers {
				if table.Answers(task, variant) != want {
					t.Errorf("task %d is answered by variant %d: %v, want %v", task, variant, !want, want)
				}
			}
		}
	}
}

// Without models no variant has one, and all replicas start up.
func TestNoCatalogue(t *testing.T) {
	table := parse(t, minimal(t)).Table()
	if len(table.Models) != 0 || table.ModelOf(0) != -1 || table.Replicas[1].Initial != fleet.Up || table.Hosts[0].Memory != 8<<30 || !table.Answers(0, 0) {
		t.Errorf("%+v", table)
	}
}

// A size that does not answer every task is not alone anywhere, and one that starts cold is up
// where it is.
func TestAloneWithGaps(t *testing.T) {
	s := parse(t, catalogued(t))
	large, err := s.Alone("large")
	if err != nil || len(large.Table().Replicas) != 2 || large.Hash() != s.Hash() {
		t.Errorf("%v, %d replicas; want the scenario itself, as label is not answered by large", err, len(large.Table().Replicas))
	}
	small, err := s.Alone("small")
	if err != nil || len(small.Table().Replicas) != 1 {
		t.Errorf("%v, %d replicas; want one", err, len(small.Table().Replicas))
	}
	s = parse(t, minimal(t, "memory: 80%}", "memory: 80%, state: cold}"))
	if alone, err := s.Alone("large"); err != nil || alone.Table().Replicas[0].Initial != fleet.Up {
		t.Errorf("%v, alone it starts %v", err, alone.Table().Replicas[0].Initial)
	}
}

// The keys make another world, but for a default that is written out.
func TestHashOfTheCatalogue(t *testing.T) {
	plain := parse(t, minimal(t)).Hash()
	if got := parse(t, minimal(t, "memory: 80%}", "memory: 80%, state: up}")).Hash(); got != plain {
		t.Error("state: up, which is the default, makes another hash")
	}
	for _, edit := range [][]string{
		{"memory: 80%}", "memory: 80%, state: cold}"},
		{"memory: 8GiB}", "memory: 8GiB, site: hall}"},
		{"memory: 8GiB}", "memory: 8GiB, compute: 3}"},
		{"memory: 8GiB}", "memory: 8GiB, bandwidth: 3}"},
		{"tasks:\n", "models: [{name: m, memory: 1GB}]\ntasks:\n"},
		{"small: 0.6, large: 1", "small: 0.6"},
	} {
		if parse(t, minimal(t, edit...)).Hash() == plain {
			t.Errorf("%s makes no other hash", edit[1])
		}
	}
}

// The sizes of a host that start cold need not fit beside the others.
func TestColdReplicasTakeNothingAtTheStart(t *testing.T) {
	s := parse(t, minimal(t, "memory: 20%}", "memory: 100%, state: warm}"))
	if all, cold := s.FleetRate(), parse(t, minimal(t)).FleetRate(); all >= cold {
		t.Errorf("the fleet answers %v/s with its quicker size asleep, %v/s with both", all, cold)
	}
	_, err := scenario.Parse("test.yaml", []byte(minimal(t, "memory: 20%}", "memory: 9GiB, state: cold}")))
	if err == nil || !strings.Contains(err.Error(), "replicas[0].memory: once loaded it takes 9.00 GiB (9663676416 bytes) of a host that has 8.00 GiB") {
		t.Errorf("%v", err)
	}
}

func TestFaultsOfTheCatalogue(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"load_ms: 400", "load_ms: -1", "models[0].load_ms: a load takes at least 0 ms and at most an hour, 3600000 ms, not -1"},
		{"load_ms: 400", "load_ms: 1e9", "models[0].load_ms: a load takes at least 0 ms and at most an hour, 3600000 ms, not 1e+09"},
		{"load_ms: 400", "load_ms: 400, wake_ms: -2", "models[0].wake_ms: a wake takes at least 0 ms and at most an hour, 3600000 ms, not -2"},
		{"load_ms: 400", "load_ms: 400, first_answer_ms: 4e6", "models[0].first_answer_ms: a first answer takes at least 0 ms and at most an hour, 3600000 ms, not 4e+06"},
		{"load_ms: 400", "load_s: 400", `models[0].load_s: unknown key; did you mean "load_ms"?`},
		{"name: weights-s, ", "", "models[0].name: missing; it has no default"},
		{"memory: 800MB, ", "", "models[0].memory: missing; it has no default"},
		{"memory: 800MB", "memory: lots", `models[0].memory: want a size such as 24GiB, 500MB or a number of bytes, found "lots"`},
		{"memory: 800MB", "memory: 4GB", "replicas[0].memory: 1.60 GiB (1717986918 bytes) for small: its model weights-s takes 3.73 GiB (4000000000 bytes) (on gpu0)"},
		{"model: weights-s", "model: weight-s", `variants[0].model: unknown model "weight-s"; did you mean "weights-s"?`},
		{"model: weights-s", "modle: weights-s", `variants[0].modle: unknown key; did you mean "model"?`},
		{"site: hall", "site: '@home'", `hosts[0].site: "@home" is not a name; want letters, digits and . _ : / -, the first a letter or digit`},
		{"compute: 130", "compute: -1", "hosts[0].compute: want a number of TFLOP/s, not -1"},
		{"compute: 130", "compute: fast", `hosts[0].compute: want a number, found "fast"`},
		{"bandwidth: 672", "bandwidth: 1e300", "hosts[0].bandwidth: want a number of GB/s, not 1e+300"},
		{"state: cold", "state: cld", `replicas[1].state: unknown state "cld"; did you mean "cold"?`},
		{"state: cold", "state: draining", `replicas[1].state: unknown state "draining"; known here: up, cold, warm`},
		{"quality: {small: 1}", "quality: {}", "tasks[1].quality: lists no variant; want the quality of each that answers the task: small, large"},
		{"quality: {small: 1}", "quality: {smal: 1}", `tasks[1].quality.smal: unknown variant; did you mean "small"?`},
	} {
		_, err := scenario.Parse("test.yaml", []byte(catalogued(t, c.old, c.new)))
		var faults scenario.Faults
		if !errors.As(err, &faults) || len(faults) != 1 || !strings.HasSuffix(faults[0].Error(), ": "+c.want) || faults[0].Line < 3 {
			t.Errorf("%s:\n%v\nwant %s", c.new, err, c.want)
		}
	}
	_, err := scenario.Parse("test.yaml", []byte(minimal(t, "tasks:\n", "models: [{name: m, memory: 1GB}, {name: m, memory: 1GB}]\ntasks:\n")))
	if err == nil || !strings.HasSuffix(err.Error(), `:3: models[1].name: "m" is taken by models[0] on line 3`) {
		t.Errorf("%v", err)
	}
	_, err = scenario.Parse("test.yaml", []byte(minimal(t, "- name: small\n", "- {name: small, model: weights}\n")))
	if err == nil || !strings.HasSuffix(err.Error(), `variants[0].model: unknown model "weights"; the file lists none, want it in models`) {
		t.Errorf("%v", err)
	}
}

func TestWarningsOfTheCatalogue(t *testing.T) {
	chat := "{name: chat, deadline_ms: 40, quality: {small: 0.6, large: 1}}"
	for name, c := range map[string]struct {
		edits     []string
		key, says string
	}{
		"one quality is left out":    {[]string{chat, chat + "\n  - {name: label, deadline_ms: 40, quality: {large: 1}}"}, "tasks[1].quality", "leaves out small alone, so that no request of label goes to it"},
		"nothing that answers is up": {[]string{"memory: 20%}", "memory: 20%, state: cold}", "memory: 80%}", "memory: 80%, state: warm}"}, "tasks[0].name", "no replica that answers chat is up at the start"},
		"a model for nobody":         {[]string{"tasks:\n", "models: [{name: spare, memory: 1GB}]\ntasks:\n"}, "models[0].name", "no variant runs spare"},
	} {
		warnings := warned(t, minimal(t, c.edits...))
		if len(warnings) != 1 || warnings[0].Key != c.key || !strings.Contains(warnings[0].Message, c.says) {
			t.Errorf("%s: %v", name, warnings)
		}
	}
	// Families of an application share no size: nothing is forgotten there.
	families := chat[:len(chat)-len("small: 0.6, large: 1}}")] + "large: 1}}"
	for name, size := range map[string]string{"code": "large", "label": "small", "rank": "small"} {
		families += "\n  - {name: " + name + ", deadline_ms: 40, quality: {" + size + ": 1}}"
	}
	if warnings := warned(t, minimal(t, chat, families)); len(warnings) != 0 {
		t.Errorf("%v", warnings)
	}
}

// A file that leaves replicas out, or has them in another state, takes no restart for that; one
// with others, or with other memory, does.
func TestStatesInAnotherFile(t *testing.T) {
	two := []string{"- {name: gpu0, memory: 8GiB}", "- {name: gpu0, memory: 8GiB}\n  - {name: gpu1, memory: 8GiB}", "hosts: [gpu0], memory: 20%", "hosts: [gpu0, gpu1], memory: 20%"}
	s := parse(t, minimal(t, two...))
	for _, c := range []struct {
		edits   []string
		states  []fleet.State
		restart string
	}{
		{nil, []fleet.State{fleet.Up, fleet.Up, fleet.Up}, ""},
		{[]string{"hosts: [gpu0, gpu1]", "hosts: [gpu1]"}, []fleet.State{fleet.Cold, fleet.Up, fleet.Up}, ""},
		{[]string{"memory: 80%}", "memory: 80%, state: warm}"}, []fleet.State{fleet.Up, fleet.Up, fleet.Warm}, ""},
		{[]string{"memory: 20%}", "memory: 25%, state: cold}"}, []fleet.State{fleet.Cold, fleet.Cold, fleet.Up}, "replicas"},
		{[]string{"hosts: [gpu0], memory: 80%", "hosts: [gpu0, gpu1], memory: 80%"}, []fleet.State{fleet.Up, fleet.Up, fleet.Up}, "replicas"},
	} {
		o := parse(t, minimal(t, append(slices.Clone(two), c.edits...)...))
		if got := s.StatesIn(o); !slices.Equal(got, c.states) {
			t.Errorf("%v: states %v, want %v", c.edits, got, c.states)
		}
		if got := strings.Join(s.Differences(o), " "); got != c.restart {
			t.Errorf("%v: a restart for %q, want %q", c.edits, got, c.restart)
		}
	}
}

// What a file says of the engines of replicas that it lists goes before what was said before,
// and the engines of the others stay where they are.
func TestEnginesOfReplicasThatAreLeftOut(t *testing.T) {
	upstreams := func(text string, urls string) string {
		return strings.Replace(text, "training:\n", "serving:\n  backend: upstream\n  upstreams: {"+urls+"}\ntraining:\n", 1)
	}
	two := []string{"- {name: gpu0, memory: 8GiB}", "- {name: gpu0, memory: 8GiB}\n  - {name: gpu1, memory: 8GiB}", "hosts: [gpu0], memory: 20%", "hosts: [gpu0, gpu1], memory: 20%"}
	was := parse(t, upstreams(minimal(t, two...), "small@gpu0: {url: 'http://a'}, small@gpu1: {url: 'http://b'}, large@gpu0: {url: 'http://c'}"))
	is := parse(t, upstreams(minimal(t, append(two, "hosts: [gpu0, gpu1]", "hosts: [gpu1]")...), "small@gpu1: {url: 'http://d'}, large@gpu0: {url: 'http://c'}"))
	is.Keep(was)
	if u := is.Serving.Upstreams; len(u) != 3 || u["small@gpu0"].URL != "http://a" || u["small@gpu1"].URL != "http://d" {
		t.Errorf("upstreams %v", u)
	}
}

// A name of its own lets a variant stand on a host twice: by it the replica is loaded, has its upstream, and is one
// of two that the simulator runs. Alone, a variant is on each host once.
func TestTwoOfOneVariantOnAHost(t *testing.T) {
	twice := []string{"  - {variant: large,", "  - {name: second, variant: small, hosts: [gpu0], memory: 10%}\n  - {variant: large,", "memory: 80%}", "memory: 60%}", "memory: 8GiB", "memory: 16GiB"}
	s := parse(t, minimal(t, twice...))
	var names []string
	for _, r := range s.Table().ReplicasOf(0) {
		names = append(names, s.Table().Replicas[r].Name)
	}
	if !slices.Equal(names, []string{"small@gpu0", "second@gpu0"}) {
		t.Errorf("replicas %q", names)
	}
	alone, err := s.Alone("small")
	if err != nil || len(alone.Table().Replicas) != 1 {
		t.Errorf("%v; alone %+v", err, alone.Table().Replicas)
	}
	served := parse(t, minimal(t, append(twice, "training:\n", "serving:\n  backend: upstream\n  upstreams: {small@gpu0: {url: \"http://h:1\"}, second@gpu0: {url: \"http://h:2\"}, large@gpu0: {url: \"http://h:3\"}}\ntraining:\n")...))
	for r, port := range []string{":1", ":2", ":3"} {
		if name := served.Table().Replicas[r].Name; !strings.HasSuffix(served.Serving.Upstreams[name].URL, port) {
			t.Errorf("%s is at %q", name, served.Serving.Upstreams[name].URL)
		}
	}
	for _, c := range []struct {
		edits []string
		want  string
	}{
		{append(twice, "name: second, ", ""), `replicas[1].hosts[0]: "small" is on "gpu0" by line`},
		{append(twice, "name: second", "name: large"), `"large" is on "gpu0" by line`},
		{append(twice, "name: second", "name: a@b"), `replicas[1].name: "a@b" is not a name`},
	} {
		if _, err := scenario.Parse("x.yaml", []byte(minimal(t, c.edits...))); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v; want %q", err, c.want)
		}
	}
}
