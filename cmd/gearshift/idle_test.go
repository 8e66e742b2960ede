package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestIdleSlots measures what a router costs that has nothing to do but to watch 500 engines: their health and gauges.
// GEARSHIFT_IDLE sets the time of the measurement (make idle).
func TestIdleSlots(t *testing.T) {
	const engines, present = 500, `gearshift_discovery_slots{state="present",variant="small"}`
	length, _ := time.ParseDuration(os.Getenv("GEARSHIFT_IDLE"))
	if length <= 0 {
		t.Skip("it takes a minute; set GEARSHIFT_IDLE to a time such as 30s, or run make idle")
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(idleEngine)}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	var list strings.Builder
	for i := range engines {
		fmt.Fprintf(&list, "- {variant: small, address: \"127.1.%d.%d:%s\", name: e%d}\n", i/250, i%250+1, port, i)
	}
	text := fmt.Sprintf(`name: idle
tasks: [{name: chat, deadline_ms: 40, quality: {small: 1}}]
variants: [{name: small}]
hosts: [{name: gpu, memory: 8GiB}]
replicas: [{variant: small, host: gpu, slots: %d, memory: 90%%, port: 8000}]
profiles:
  - {variant: small, launch_floor_ms: 3, weights_ms: 2, growth_per_sequence: 0.003, token_ms: 0.02, context_token_ms: 0.0002, overhead_ms: 1,
      sequence_ms: 0.2, contention: 0.15, weight_bytes: 800_000_000, activation_bytes: 100_000_000, kv_bytes_per_token: 32_768}
workload:
  prompt_tokens: {distribution: uniform, min: 20, max: 60}
  output_tokens: {distribution: geometric, mean: 32, max: 200}
serving:
  backend: upstream
  discovery: {file: %s}
  upstreams: {"small@*": {}}
`, engines, write(t, "endpoints.yaml", list.String()))
	router := startProcess(t, "serve", "--scenario", write(t, "idle.yaml", text), "--addr", "127.0.0.1:0", "--admin-addr", "off", "--policy", "universal")
	url := "http://" + router.listens(t)
	for late := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if n := (&soak{t: t, url: url}).metrics()[present]; n == engines {
			break
		} else if time.Now().After(late) {
			t.Fatalf("%v engines are present after a minute, want %d: %s", n, engines, router.log)
		}
	}
	time.Sleep(10 * time.Second) // until each has been probed
	before, began := router.processorTime(t), time.Now()
	time.Sleep(length)
	cores := float64(router.processorTime(t)-before) / float64(time.Since(began))
	t.Logf("%d idle engines cost %.3f of a core, and %.0f MB", engines, cores, router.resident()/1e6)
	if cores > 0.1 {
		t.Errorf("they cost %.3f of a core, want at most .1", cores)
	}
}

// idleEngine answers as vLLM does that has no requests.
func idleEngine(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/health":
	case "/metrics":
		fmt.Fprint(w, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{model_name=\"small\"} 0\n# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting{model_name=\"small\"} 0\n# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc{model_name=\"small\"} 0\n")
	case "/v1/models":
		fmt.Fprint(w, `{"object":"list","data":[{"id":"small","object":"model"}]}`)
	default:
		http.NotFound(w, r)
	}
}

// processorTime returns the time that the process has used of all processors.
func (p *process) processorTime(t *testing.T) time.Duration {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.command.Process.Pid) + "/stat")
	if err != nil {
		t.Skip("no /proc, from which the processor time of another process is read: " + err.Error())
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond
}
