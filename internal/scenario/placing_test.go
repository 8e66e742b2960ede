package scenario_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
)

// shifting returns the text of the scenario of the docs with another section of placement; none without one.
func shifting(t *testing.T, section string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/scenarios/titan-rtx-shifting.yaml")
	if err != nil {
		t.Fatal(err)
	}
	const line = "  placement: {rule: worth}\n"
	if !strings.Contains(string(text), line) {
		t.Fatalf("the scenario has no line %q", line)
	}
	return strings.Replace(string(text), line, section, 1)
}

// TestLayoutsAreSimulated: hosts that give the memory of the large size to the small one at a high load earn more, at
// a low one they stay as they are, and every request is accounted for. A shadow changes nothing, and counts.
func TestLayoutsAreSimulated(t *testing.T) {
	play := func(section, workload string) evaluation.Result {
		s := parse(t, shifting(t, section))
		s.Served = true
		return played(t, s, "task-aware:0.98,0.08,1,0.5,0.15", 3000, 1, workload)[0]
	}
	fixed, moved := play("", "poisson:40"), play("  placement: {rule: worth}\n", "poisson:40")
	if c := moved.Served.Controllers; moved.Utility.Mean < fixed.Utility.Mean+0.01 || c["layouts changed"] < 4 || moved.Requests != 3000 {
		t.Errorf("utility %.4f, and %.4f fixed; %v", moved.Utility.Mean, fixed.Utility.Mean, c)
	}
	if r := play("  placement: {rule: worth}\n", "poisson:4"); r.Served.Controllers["layouts changed"] != 0 {
		t.Errorf("at a low load %v", r.Served.Controllers)
	}
	shadow := play("  placement: {rule: worth, shadow: true}\n", "poisson:40")
	if shadow.Utility.Mean != fixed.Utility.Mean || shadow.Served.Controllers["layouts changed"] == 0 {
		t.Errorf("a shadow has utility %v, want %v; %v", shadow.Utility.Mean, fixed.Utility.Mean, shadow.Served.Controllers)
	}
}

// TestLayoutsAmongFailures: in one run with a host that is lost, and with another whose replicas an operator unloads,
// hosts change their layouts and every request is accounted for.
func TestLayoutsAmongFailures(t *testing.T) {
	s := parse(t, shifting(t, "  placement: {rule: worth}\n"))
	s.Served = true
	r := played(t, s, "least-work", 6000, 2, "poisson:30+lost:gpu1@60-120+sleep:opt-6.7b@gpu2@20")[0]
	if c := r.Served.Controllers; c["layouts changed"] < 3 || r.Requests != 12000 {
		t.Errorf("%d requests; %v", r.Requests, c)
	}
}

func TestFaultsOfPlacement(t *testing.T) {
	for section, want := range map[string]string{
		"  placement: {rule: most}\n":                                           `serving.placement.rule: unknown rule "most"; want bands:`,
		"  placement: {rule: worth, pinned: [opt-6.8b]}\n":                      `serving.placement.pinned[0]: unknown replica or variant "opt-6.8b"`,
		"  placement: {rule: worth, pinned: [opt-1.3b-larg]}\n":                 `unknown replica or variant "opt-1.3b-larg"; did you mean "opt-1.3b-large"?`,
		"  placement: {rule: worth, hours: [8-20]}\n":                           `serving.placement.hours[0]: "8-20" is not a part of the day; want one such as 08:00-20:00`,
		"  placement: {rule: worth, hours: ['08:00-20:00, 22:00-23:00']}\n":     `serving.placement.hours[0]: "08:00-20:00, 22:00-23:00" is not a part of the day; want one such as 08:00-20:00`,
		"  placement: {rule: worth, hours: ['08:00-08:00']}\n":                  `serving.placement.hours[0]: "08:00-08:00" begins when it ends; want one such as 08:00-20:00`,
		"  placement: {rule: worth, moves_per_minute: -1}\n":                    `serving.placement.moves_per_minute: want a number from 1 to 1000`,
		"  placement: {rule: worth, drain_s: 0}\n":                              `serving.placement.drain_s: want seconds above 0`,
		"  placement: {rule: worth}\n  rebalancing: {period: 1m}\n":             `serving.placement.rule: decides which replicas of a host are up, and serving.rebalancing does so too`,
		"  placement: {rule: worth}\n  replicas: {period: 15s}\n":               `serving.placement.rule: decides which replicas of a host are up, and serving.replicas does so too`,
		"  placement: {rule: worth, pinned: [opt-6.7b, opt-1.3b-large@gpu0]}\n": `host gpu0 has no room for what is pinned there`,
		"  placement: {rule: worth, stay_s: 5}\n":                               `host gpu0 starts with opt-125m@gpu0 + opt-1.3b@gpu0 up, which is none of its layouts: opt-125m@gpu0 + opt-1.3b@gpu0 + opt-6.7b@gpu0`,
	} {
		text := shifting(t, section)
		if strings.Contains(want, "starts with") {
			text = strings.ReplaceAll(text, "memory: 75%, state: warm", "memory: 75%, state: cold")
			text = strings.Replace(text, "variant: opt-6.7b, hosts: [gpu0, gpu1, gpu2, gpu3], memory: 75%", "variant: opt-6.7b, hosts: [gpu0, gpu1, gpu2, gpu3], memory: 75%, state: cold", 1)
		}
		_, err := scenario.Parse("s.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "s.yaml:") {
			t.Errorf("%s: the error is %v, want %q", strings.TrimSpace(section), err, want)
		}
	}
	if _, err := scenario.Parse("s.yaml", []byte(shifting(t, "  placement: {rule: 'bands:0.5,0.3', pinned: [opt-125m], hours: ['08:00-20:00', '22:00-24:00'], stay_s: 30}\n"))); err != nil {
		t.Error(err)
	}
}

// TestPinnedByTheNameOfAnEntry: the name of an entry of replicas pins each of its replicas, and no other of the variant.
func TestPinnedByTheNameOfAnEntry(t *testing.T) {
	text := shifting(t, "  placement: {rule: worth, pinned: [opt-1.3b-large]}\n")
	text = strings.NewReplacer("75%, state: warm}", "75%}", "memory: 75%}", "memory: 75%, state: warm}", "memory: 20%}", "memory: 20%, state: warm}").Replace(text)
	s := parse(t, text)
	table := s.Table()
	o, ok := s.Placing(table)
	if !ok {
		t.Fatal("nothing decides")
	}
	for r := range table.Replicas {
		name := table.Replicas[r].Name
		if want := strings.HasPrefix(name, "opt-1.3b-large@"); o.Pinned(r) != want {
			t.Errorf("%s is pinned: %v, want %v", name, !want, want)
		}
	}
}

// TestWhatLeavesALayoutRests: engines unload what leaves a layout if the file has replicas that are cold and none that
// is warm; those that cannot do that, or sleep, do the other.
func TestWhatLeavesALayoutRests(t *testing.T) {
	text, err := os.ReadFile("../../docs/scenarios/cpu-three-shifting.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		lifecycle, state string
		want             fleet.State
	}{
		{"gearshift", "cold", fleet.Cold}, {"gearshift", "warm", fleet.Warm},
		{"vllm", "cold", fleet.Warm}, {"ollama", "warm", fleet.Cold},
	} {
		head, _, _ := strings.Cut(string(text), "  upstreams:\n")
		head = strings.ReplaceAll(head, "state: cold", "state: "+x.state) + "  upstreams:\n"
		for i, name := range []string{"small", "medium", "large", "small-wide", "medium-wide"} {
			head += fmt.Sprintf("    %s@cpu: {url: 'http://127.0.0.1:%d', lifecycle: %s, model: %[1]s}\n", name, 9001+i, x.lifecycle)
		}
		s := parse(t, head)
		o, ok := s.Placing(s.Table())
		if got := o.Rest(0); !ok || got != x.want {
			t.Errorf("%s with replicas that are %s: what leaves is %v, want %v", x.lifecycle, x.state, got, x.want)
		}
	}
}
