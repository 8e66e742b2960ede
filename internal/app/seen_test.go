package app

import (
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/internal/onnxruntime"
	"gearshift/router/fleet"
)

// A server shows policies how busy hosts are if the scenario says so, or a class of requests gets a size first by that.
// Otherwise it does not measure it.
func TestAServerShowsHowBusyHostsAre(t *testing.T) {
	const last = "    - {kind: log-rate, scale: [3]}\n"
	const serving = "\nserving:\n"
	first := serving + "  classes: [{name: batch, first: {variant: small, from: 0.5}}]\n"
	for lines, hosts := range map[string]int{last + "    - {kind: host-busy, scale: [1, 1]}\n": 1, last + "    - {kind: states}\n": 0, first: 1} {
		synctest.Test(t, func(t *testing.T) {
			of := last
			if lines == first {
				of = serving
			}
			s := tiny(t, of, lines)
			o := Options{Scenario: s.Name, Policy: usual(s).rule, Engine: onnxruntime.Native}
			x := assembly{o: o, s: s, config: o.config(s), log: slog.New(slog.DiscardHandler), backends: rehearsedBackends, adminToken: "asked-for-by-nobody"}
			if key, err := x.assemble(); err != nil {
				t.Fatal(key, err)
			}
			defer x.close()
			ledger := x.routing.core.Ledger()
			for range 16 {
				if _, ok := ledger.Begin(0, 0); !ok {
					t.Fatal("no place")
				}
			}
			time.Sleep(time.Minute)
			var v fleet.View
			if ledger.View(0, &v); len(v.Busy) != hosts || hosts > 0 && v.BusyShare(0) == 0 {
				t.Errorf("views show %v, want %d hosts, which have requests", v.Busy, hosts)
			}
		})
	}
}
