package scenario_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/rollout"
)

// changing is a fleet of two hosts whose model small has versions, and whose model live has none.
const changing = `
tasks: [{name: chat, total_ms: 1000, quality: {small: 1, live: 1}}]
variants: [{name: small, model: small}, {name: live, model: live}]
models: [{name: small, memory: 300MB, version: "7"}, {name: live, memory: 300MB, real_time: true}]
hosts: [{name: h1, memory: 2GB}, {name: h2, memory: 2GB}]
replicas: [{variant: small, hosts: [h1, h2], memory: 20%}, {variant: live, hosts: [h1], memory: 20%}]
profiles: [{variant: small, batch_ms: {1: 5}}, {variant: live, batch_ms: {1: 5}}]
workload: {output_tokens: {distribution: none}}
rollout: {at_once: 2, when_stale: report, keep: {small: 1}}
serving:
  backend: upstream
  upstreams:
    "*@h1": {url: "http://h1:9001", lifecycle: gearshift}
    "*@h2": {url: "http://h2:9001", lifecycle: gearshift}
`

// A version that engines could not have in a model's name is refused with its key.
func TestVersionsInScenarios(t *testing.T) {
	_, err := scenario.Parse("s", []byte(strings.Replace(changing, `"7"`, `"../../etc"`, 1)))
	if err == nil || !strings.Contains(err.Error(), "models[0].version") || !strings.Contains(err.Error(), `"../../etc" is no version`) {
		t.Errorf("error %v", err)
	}
}

// Each replica of a model with versions has a second one, which is cold, behind the same engine, and
// does the same.
func TestRolloutHasSecondReplicas(t *testing.T) {
	s := parse(t, changing)
	var names []string
	for i, r := range s.Table().Replicas {
		names = append(names, r.Name)
		if cold := r.Initial == fleet.Cold; cold != strings.HasSuffix(r.Name, "#2") || cold != s.Second(i) {
			t.Errorf("%s starts %v", r.Name, r.Initial)
		}
	}
	if want := []string{"small@h1", "small@h2", "live@h1", "small@h1#2", "small@h2#2"}; !slices.Equal(names, want) {
		t.Fatalf("replicas %v, want %v", names, want)
	}
	if a, b := s.Serving.Upstreams["small@h2"], s.Serving.Upstreams["small@h2#2"]; a != b || a.URL == "" {
		t.Errorf("upstreams %+v and %+v", a, b)
	}
	if n := len(s.Profiles()); n != 5 || s.Profiles()[0] != s.Profiles()[3] {
		t.Errorf("%d profiles, want 5", n)
	}
	models, named := s.Versioned()
	if want := []bool{true, true, false, true, true}; !slices.Equal(named, want) {
		t.Errorf("named %v, want %v", named, want)
	}
	small, live := models[0], models[1]
	if small.Version != "7" || small.Keep != 1 || !slices.Equal(small.Locations, []rollout.Location{{Host: 0, Replicas: [2]int{0, 3}}, {Host: 1, Replicas: [2]int{1, 4}}}) {
		t.Errorf("%+v", small)
	}
	if !live.RealTime || live.Version != "1" || !slices.Equal(live.Locations, []rollout.Location{{Host: 0, Replicas: [2]int{2, -1}}}) {
		t.Errorf("%+v", live)
	}
	o := s.RolloutOptions()
	if o.AtOnce != 2 || !o.OnlyReport || o.Utilisation != 0.7 || o.StaleAfter != time.Hour || o.Test != rollout.DefaultTest() {
		t.Errorf("options %+v", o)
	}
	without := parse(t, replace(t, changing, "rollout: {at_once: 2, when_stale: report, keep: {small: 1}}\n", "", ", real_time: true", ""))
	if n := len(without.Table().Replicas); n != 3 || without.Rollout() != nil {
		t.Errorf("%d replicas without the section", n)
	}
}

func TestFaultyRollouts(t *testing.T) {
	for want, edits := range map[string][]string{
		"rollout: there are no models whose versions could change":  {`models: [{name: small, memory: 300MB, version: "7"}, {name: live, memory: 300MB, real_time: true}]`, "", ", model: small", "", ", model: live", "", ", keep: {small: 1}", ""},
		"rollout: the models of backend: onnx stay as they are":     {"backend: upstream", "backend: onnx"},
		"rollout.keep.live: no replica of live changes its version": {"small: 1}}", "live: 1}}"},
	} {
		if _, err := scenario.Parse("x.yaml", []byte(replace(t, changing, edits...))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
