package discovery

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/apiserver"
	"gearshift/router/fleet"
	"gearshift/serving/discovery/settings"
)

// A ready engine for which the scenario has no slot is reported with the cause.
func TestCauses(t *testing.T) {
	s := NewSlots(fleetOf())
	for _, c := range []struct {
		Endpoint
		want string
	}{
		{Endpoint{Variant: "smal"}, `variant "smal" is none of the scenario's; want small, fast or big`},
		{Endpoint{Variant: "smal", Host: "l5", Labels: map[string]string{}}, `variant "smal" is none of the scenario's; want small, fast or big`},
		{Endpoint{Variant: "small", Host: "l5"}, `host "l5" is none of the scenario's; want l4 or h100`},
		{Endpoint{Variant: "big", Host: "l4"}, `variant "big" has no slots on host "l4"; want h100`},
		{Endpoint{Variant: "small", Host: "l4", Labels: map[string]string{"app": "x"}}, `its labels do not match those of small; want {app: small}`},
		{Endpoint{Variant: "fast", Labels: map[string]string{"app": "small"}}, `its labels do not match those of fast; want {app: fast}`},
		{Endpoint{Labels: map[string]string{"app": "x"}}, `its labels do not match those of small, fast or big; want {app: small}, {app: fast} or {gearshift.dev/variant: big}`},
	} {
		c.ID, c.Name, c.Address, c.Ready = "id", "name", "10.0.0.1:8000", true
		if changes := s.Set([]Endpoint{c.Endpoint}); len(changes) > 0 || len(s.waiting) != 1 || s.waiting[0].cause != c.want {
			t.Errorf("%+v: changes %v, waiting %+v; want %s", c.Endpoint, changes, s.waiting, c.want)
		}
	}
	c := Endpoint{ID: "id", Variant: "smal"}
	if s.Set([]Endpoint{c}); len(s.waiting) > 0 {
		t.Errorf("an engine that is not ready waits: %+v", s.waiting)
	}
}

// Of two names for one address one gets a slot, and the other gets it once the first is gone or ends. An address may
// have a slot of each variant.
func TestOneSlotAnAddress(t *testing.T) {
	s := NewSlots(fleetOf())
	at := func(name, variant string) Endpoint {
		return Endpoint{ID: name, Name: name, Address: "10.0.0.1:8000", Variant: variant, Ready: true}
	}
	changes := s.Set([]Endpoint{at("b", "small"), at("c", "big"), at("a", "small")})
	if len(changes) != 2 || changes[0].Endpoint.Name != "a" || changes[1].Endpoint.Name != "c" {
		t.Fatalf("changes %+v, want slots for a and c", changes)
	}
	if want := `its address has a slot already, as "a"; want one name for each address`; len(s.waiting) != 1 || s.waiting[0].Name != "b" || s.waiting[0].cause != want {
		t.Errorf("waiting %+v, want b: %s", s.waiting, want)
	}
	unready, ending := at("a", "small"), at("a", "small")
	unready.Ready, ending.Ending = false, true
	if changes := s.Set([]Endpoint{unready, at("b", "small"), at("c", "big")}); len(changes) != 1 || changes[0].Kind != Ends || len(s.waiting) != 1 {
		t.Errorf("a is not ready: changes %+v, waiting %+v", changes, s.waiting)
	}
	if changes := s.Set([]Endpoint{ending, at("b", "small"), at("c", "big")}); len(changes) != 1 || changes[0].Kind != Took || changes[0].Endpoint.Name != "b" || len(s.waiting) > 0 {
		t.Errorf("a ends: changes %+v, waiting %+v; want a slot for b", changes, s.waiting)
	}
}

// The log reports causes when they change, and once all engines have slots.
func TestCausesAreLogged(t *testing.T) {
	groups := []Group{{Name: "small", Variant: "small", Host: "l4"}, {Name: "large", Variant: "large", Host: "l4"}} // no slots
	var log lockedBuffer
	m := New(Options{Groups: groups, Table: new(fleet.Table), Log: slog.New(slog.NewTextHandler(&log, nil))})
	m.clock = func() time.Duration { return time.Second }
	at := func(id, variant string) Endpoint {
		return Endpoint{ID: id, Name: id, Address: id + ":8000", Variant: variant, Ready: true}
	}
	m.set([]Endpoint{at("a", "smal")})
	m.set([]Endpoint{at("a", "smal"), at("b", "smal")}) // the same cause
	m.set([]Endpoint{at("a", "smal"), at("b", "small")})
	if got := m.status().Waiting; len(got) != 2 || got[0].Cause != `variant "smal" is none of the scenario's; want small or large` || got[1].Cause != "its slots are taken; want more slots in the scenario" {
		t.Errorf("the status has %+v", got)
	}
	m.set(nil)
	m.set(nil)
	text := log.text.String()
	for line, n := range map[string]int{
		`cause="variant \"smal\" is none of the scenario's; want small or large" engines=1 first=a address=a:8000`: 2,
		`cause="its slots are taken; want more slots in the scenario" engines=1 first=b`:                           1, "every engine has a slot": 1,
	} {
		if strings.Count(text, line) != n {
			t.Errorf("want %d times %s:\n%s", n, line, text)
		}
	}
	if strings.Count(text, "\n") != 4 {
		t.Errorf("want 4 lines:\n%s", text)
	}
}

// A pod of the pool that no entry takes is listed without a port, and has no slot. An entry without pods is logged.
func TestPodsOfThePoolWithoutLabels(t *testing.T) {
	ctx, cluster := t.Context(), apiserver.Fake()
	groups := []Group{{Name: "small", Variant: "small", Label: "gearshift.dev/variant", Slots: []Slot{{0, "small-0"}}}, {Name: "large", Variant: "large", Label: "gearshift.dev/variant"}}
	config := settings.Default()
	config.Kubernetes = &settings.Kubernetes{Pool: "pool"}
	app := map[string]string{"app": "qwen3"}
	must(t, cluster.AddPool(ctx, "pool", app, 8000), cluster.AddPod(ctx, "a", app), cluster.SetPod(ctx, "a", "10.0.0.1", true))
	must(t, cluster.AddPod(ctx, "b", map[string]string{"app": "qwen3", "gearshift.dev/variant": "large"})) // has no address yet
	var log lockedBuffer
	h := follow(t, Watching(cluster.Router, apiserver.Namespace, &config, groups, slog.New(slog.NewTextHandler(&log, nil))))
	h.want(t, "a 10.0.0.1 ready")
	s := NewSlots(groups)
	h.mu.Lock()
	s.Set(h.list)
	h.mu.Unlock()
	if want := `it has no label gearshift.dev/variant; want small or large`; len(s.waiting) != 1 || s.waiting[0].cause != want {
		t.Errorf("waiting %+v, want %s", s.waiting, want)
	}
	log.wait(t, `"no pod matches an entry of replicas" entry=small labels="{gearshift.dev/variant: small}" selector="app=qwen3"`)
	if strings.Contains(log.text.String(), "entry=large") {
		t.Errorf("the pod of large is not ready, and the log says that there is none:\n%s", log.text.String())
	}
}

// Without a pool, pods with the labels that all entries share are meant for slots.
func TestPodsWithSharedLabels(t *testing.T) {
	ctx, cluster := t.Context(), apiserver.Fake()
	groups := []Group{
		{Name: "small", Variant: "small", Selector: map[string]string{"app": "vllm", "size": "small"}, Port: 8000},
		{Name: "large", Variant: "large", Selector: map[string]string{"app": "vllm", "size": "large"}, Port: 8000},
	}
	config := settings.Default()
	config.Kubernetes = &settings.Kubernetes{}
	for i, labels := range []map[string]string{{"app": "vllm"}, {"app": "vllm", "size": "small"}, {"app": "other"}} {
		name := string(rune('a' + i))
		must(t, cluster.AddPod(ctx, name, labels), cluster.SetPod(ctx, name, "10.0.0."+string(rune('1'+i)), true))
	}
	h := follow(t, Watching(cluster.Router, apiserver.Namespace, &config, groups, slog.New(slog.DiscardHandler)))
	h.want(t, "a 10.0.0.1 ready", "b 10.0.0.2:8000 ready")
	if want, got := "its labels do not match those of small or large; want {app: vllm, size: small} or {app: vllm, size: large}", fault(groups, &Endpoint{Labels: map[string]string{"app": "vllm"}}); got != want {
		t.Errorf("cause %s, want %s", got, want)
	}
}

// A pod whose label names a variant or host that the scenario lacks is listed without a port. Pods without such labels
// that no entry selects are not the router's.
func TestPodsWithWrongLabels(t *testing.T) {
	onClusters(t, func(t *testing.T, c *apiserver.Cluster) {
		ctx := t.Context()
		groups := fleetOf()
		groups[0].Port, groups[1].Port, groups[2].Port = 8000, 9000, 8100
		config := settings.Default()
		config.Kubernetes = &settings.Kubernetes{}
		for i, labels := range []map[string]string{{"gearshift.dev/variant": "smal"}, {"app": "small", "gearshift.dev/host": "l5"}, {"app": "other"}, {"app": "small"}} {
			name := string(rune('a' + i))
			must(t, c.AddPod(ctx, name, labels), c.SetPod(ctx, name, "10.0.0."+string(rune('1'+i)), true))
		}
		h := follow(t, Watching(c.Router, apiserver.Namespace, &config, groups, slog.New(slog.DiscardHandler)))
		h.want(t, "a 10.0.0.1 smal ready", "b 10.0.0.2 ready", "d 10.0.0.4:8000 ready")
		s := NewSlots(groups)
		h.mu.Lock()
		s.Set(h.list)
		h.mu.Unlock()
		var causes []string
		for _, w := range s.waiting {
			causes = append(causes, w.cause)
		}
		if want := []string{`variant "smal" is none of the scenario's; want small, fast or big`, `host "l5" is none of the scenario's; want l4 or h100`}; !slices.Equal(causes, want) {
			t.Errorf("causes %q, want %q", causes, want)
		}
	})
}
