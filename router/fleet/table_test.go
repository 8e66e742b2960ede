package fleet

import (
	"math"
	"strings"
	"testing"
	"time"
)

// stocked is [table] with models, and resources on the first host.
func stocked(t *testing.T, change func(variants []Variant, hosts []Host, replicas []Replica, models []Model)) (*Table, error) {
	t.Helper()
	built := table(t)
	variants, hosts, replicas := append([]Variant(nil), built.Variants...), append([]Host(nil), built.Hosts...), append([]Replica(nil), built.Replicas...)
	models := []Model{{Name: "weights", Memory: 100, Load: time.Second, Version: "2"}, {Name: "other"}}
	variants[0].Model, variants[1].Model = 0, -1
	hosts[0] = Host{Name: "a", Site: "hall", Memory: 300, Compute: 1e12, Bandwidth: 1e9}
	replicas[1].Memory = 130
	change(variants, hosts, replicas, models)
	return NewTable(built.Tasks, variants, hosts, replicas, models...)
}

// A variant's model says what its replicas take where they do not say it themselves.
func TestModelsInTheTable(t *testing.T) {
	built, err := stocked(t, func([]Variant, []Host, []Replica, []Model) {})
	if err != nil {
		t.Fatal(err)
	}
	if built.ModelOf(0) != 0 || built.ModelOf(1) != -1 || built.ModelIndex("other") != 1 || built.ModelIndex("none") != -1 {
		t.Errorf("models %d and %d", built.ModelOf(0), built.ModelOf(1))
	}
	for i, want := range []int64{100, 130, 0, 0} {
		if got := built.MemoryOf(i); got != want {
			t.Errorf("replica %d takes %d bytes, want %d", i, got, want)
		}
	}
	if built.SiteOf(0) != "hall" || built.SiteOf(1) != "b" {
		t.Errorf("sites %q and %q", built.SiteOf(0), built.SiteOf(1))
	}
	if without := table(t); without.ModelOf(0) != -1 || without.MemoryOf(0) != 0 {
		t.Error("a table without models has one")
	}
}

func TestFaultsOfModelsAndResources(t *testing.T) {
	for want, change := range map[string]func([]Variant, []Host, []Replica, []Model){
		`variant "large" names model 2 of 2`:                  func(v []Variant, _ []Host, _ []Replica, _ []Model) { v[1].Model = 2 },
		`variant "small" names model -2 of 2`:                 func(v []Variant, _ []Host, _ []Replica, _ []Model) { v[0].Model = -2 },
		`model "weights" is listed twice`:                     func(_ []Variant, _ []Host, _ []Replica, m []Model) { m[1].Name = "weights" },
		`model "other" takes -1 bytes`:                        func(_ []Variant, _ []Host, _ []Replica, m []Model) { m[1].Memory = -1 },
		`model "other" takes 0 bytes and -1ns to load`:        func(_ []Variant, _ []Host, _ []Replica, m []Model) { m[1].Load = -1 },
		`host "b" has memory -5`:                              func(_ []Variant, h []Host, _ []Replica, _ []Model) { h[1].Memory = -5 },
		`host "b" has memory 0, compute NaN and bandwidth 0`:  func(_ []Variant, h []Host, _ []Replica, _ []Model) { h[1].Compute = math.NaN() },
		`host "b" has memory 0, compute 0 and bandwidth +Inf`: func(_ []Variant, h []Host, _ []Replica, _ []Model) { h[1].Bandwidth = math.Inf(1) },
		`replica "large@a" takes -7 bytes`:                    func(_ []Variant, _ []Host, r []Replica, _ []Model) { r[2].Memory = -7 },
	} {
		if _, err := stocked(t, change); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want the one fault %s", err, want)
		}
	}
}
