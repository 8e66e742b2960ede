package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"gearshift/serving/engines/gauges"
)

// A router asks an engine in another process for its load before the choice, hears it with answers and
// streams, and says its own to a router in front of it.
func TestSignalsAcrossProcesses(t *testing.T) {
	e := startEngine(t, "--cores", "4")
	behind := serveBefore(t, e, "balancer: smallest-batch", "balancer: sampled:2\n  signals: {source: probe, probe_timeout: 500ms}")
	for _, stream := range []bool{false, true} {
		status, _, text := behind.ask(t, "POST", "/v1/chat/completions", fmt.Sprintf(`{"model":"small","stream":%v,"messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":3,"ignore_eos":true}`, stream))
		if status != http.StatusOK {
			t.Fatalf("status %d, %s", status, text)
		}
	}
	_, _, text := behind.ask(t, "GET", "/metrics", "")
	for _, want := range []string{
		`gearshift_signal_reports_total{replica="small@gpu0",source="piggybacked",variant="small"} 2`,
		`gearshift_signal_probes_total{replica="small@gpu0",result="answered",variant="small"} 2`,
		`gearshift_signal_source{replica="small@gpu0",source="own",variant="small"} 0`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics do not have %s", want)
		}
	}
	_, _, page := behind.ask(t, "GET", gauges.LoadsPath, "")
	l, ours, err := gauges.ParseLoads([]byte(page), "small")
	if err != nil || !ours || l.Requests != 0 || l.Cores != 4 {
		t.Errorf("the router says %+v, %v, %v: %s", l, ours, err, page)
	}
}

// Whatever an engine says of its load, requests are answered, and the metrics say what is wrong.
func TestAnEngineMisreportsItsLoad(t *testing.T) {
	e := startEngine(t)
	s := serveBefore(t, e, "balancer: smallest-batch", "balancer: sampled:2\n  signals: {source: header}")
	for fault, counted := range map[string]string{"load_zero": "", "load_frozen": "", "load_jumps": "", "load_back": "restarted", "load_overflow": "impossible", "load_another": "another model"} {
		e.fault(t, fault)
		for range 4 {
			status, _, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"small","messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":2,"ignore_eos":true}`)
			if status != http.StatusOK {
				t.Errorf("%s: status %d, %s", fault, status, text)
			}
		}
		if counted == "" {
			continue
		}
		zero := fmt.Sprintf(`gearshift_signal_faults_total{fault=%q,replica="small@gpu0",source="piggybacked",variant="small"} 0`, counted)
		if _, _, text := s.ask(t, "GET", "/metrics", ""); strings.Contains(text, zero) {
			t.Errorf("%s: no fault is counted: %s", fault, zero)
		}
	}
}
