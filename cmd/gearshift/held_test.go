package main

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestHeldRequestsForReal: engines that speak vLLM's sleep mode in processes of their own, one of them the small size at
// a larger share of memory, the router before them in another, and clients that do not stop asking for each size
// while an operator puts sizes to sleep. What is asked for a size that sleeps is held until the router has woken it,
// and every request is answered. GEARSHIFT_HELD=2m is a long run.
func TestHeldRequestsForReal(t *testing.T) {
	length := 5 * time.Second
	if text := os.Getenv("GEARSHIFT_HELD"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			t.Fatalf("GEARSHIFT_HELD=%s: want a time such as 2m", text)
		}
	}
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	l := newHeldRun(t)
	ctx, stop := context.WithTimeout(t.Context(), length)
	defer stop()
	var clients sync.WaitGroup
	for i, model := range []string{"small", "small", "large", "large", "auto"} {
		clients.Go(func() { l.ask(ctx, model, rand.New(rand.NewPCG(2, uint64(i)))) })
	}
	sleeps := 0
	for ctx.Err() == nil {
		l.swap([]string{"large@cpu0"}, nil) // its requests wake it
		pause(ctx, 700*time.Millisecond)
		if sleeps++; sleeps%2 == 0 && ctx.Err() == nil { // the small size has the memory of both
			l.swap([]string{"small@cpu0", "large@cpu0"}, []string{"wide@cpu0"})
			pause(ctx, time.Second)
			l.swap([]string{"wide@cpu0"}, []string{"small@cpu0", "large@cpu0"})
		}
	}
	clients.Wait()
	wrong, longest := map[string]int{}, time.Duration(0)
	for _, a := range l.asked {
		longest = max(longest, a.to.Sub(a.from))
		if a.wrong != "" {
			wrong[a.wrong]++
		}
	}
	for text, n := range wrong {
		t.Errorf("%d requests failed: %s", n, text)
	}
	metrics := (&soak{t: t, url: l.url}).metrics()
	begun := 0.0
	for name, n := range metrics {
		if strings.HasPrefix(name, "gearshift_held_total{") {
			if strings.Contains(name, `result="begun"`) {
				begun += n
			} else if n > 0 {
				t.Errorf("%s is %v", name, n)
			}
		}
	}
	t.Logf("%d requests, %v of them held, the longest took %v; %d rounds of sleep", len(l.asked), begun, longest, sleeps)
	if begun == 0 || len(l.asked) < 20 {
		t.Errorf("%d requests, %v of them held", len(l.asked), begun)
	}
}

// heldScenario has two sizes on a host, and the small one at a second share of its memory. Of the shares, the large
// one fits alone.
const heldScenario = `name: held
tasks:
  - {name: chat, deadline_ms: 500, quality: {small: 0.6, large: 1}}
models:
  - {name: small, memory: 37MiB, load_ms: 9000, sleep_ms: 60, wake_ms: 160, first_answer_ms: 90}
  - {name: large, memory: 150MiB, load_ms: 9000, sleep_ms: 180, wake_ms: 520, first_answer_ms: 180}
variants: [{name: small, model: small}, {name: large, model: large}]
hosts: [{name: cpu0, memory: 300MiB}]
replicas:
  - {variant: small, hosts: [cpu0], memory: 60MiB}
  - {variant: large, hosts: [cpu0], memory: 200MiB}
  - {name: wide, variant: small, hosts: [cpu0], memory: 270MiB, state: warm}
profiles:
  - {variant: small, launch_floor_ms: 0.1, weights_ms: 0.8, growth_per_sequence: 0.01, token_ms: 0.1, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.5, weight_bytes: 9_000_000, activation_bytes: 4_000_000, kv_bytes_per_token: 6144}
  - {variant: large, launch_floor_ms: 0.1, weights_ms: 6, growth_per_sequence: 0.01, token_ms: 0.8, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.5, weight_bytes: 81_000_000, activation_bytes: 16_000_000, kv_bytes_per_token: 28672}
workload:
  prompt_tokens: {distribution: uniform, min: 8, max: 32}
  output_tokens: {distribution: geometric, mean: 4, max: 16}
serving:
  overload: {shed: never}
  lifecycle: {poll_interval: 500ms}
`

// newHeldRun starts an engine for each replica, and the router.
func newHeldRun(t *testing.T) *loading {
	path := write(t, "held.yaml", heldScenario)
	args := []string{"scenario", "upstreams", path}
	for _, replica := range []string{"small@cpu0", "large@cpu0", "wide@cpu0"} {
		engine := startProcess(t, "engine", "--addr", "127.0.0.1:0", "--scenario", path, "--replica", replica)
		args = append(args, "--at", replica+"=http://"+engine.listens(t))
	}
	served := strings.ReplaceAll(succeed(t, args...), "{url:", "{lifecycle: vllm, url:")
	served = strings.Replace(served, "serving:\n", "serving:\n  hold: {for: 20s}\n", 1)
	l := &loading{t: t, admin: freeAddr(t)}
	router := startProcess(t, "serve", "--scenario", write(t, "served.yaml", served), "--addr", "127.0.0.1:0",
		"--admin-addr", l.admin, "--store", path+".db", "--policy", "slackfit")
	l.url, l.admin = "http://"+router.listens(t), "http://"+l.admin
	return l
}

// swap puts replicas to sleep and has others woken as soon as they have. Where the router has woken something for a
// held request in between, an order may find no memory: it is not followed then.
func (l *loading) swap(sleep, wake []string) {
	for _, name := range sleep {
		_, _, _ = gearshift(l.t, "replica", "sleep", name, "--admin", l.admin)
	}
	for _, name := range wake {
		_, _, _ = gearshift(l.t, "replica", "wake", name, "--admin", l.admin, "--wait")
	}
}
