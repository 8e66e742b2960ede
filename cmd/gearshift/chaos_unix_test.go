//go:build unix

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gearshift/serving/control/failover"
)

// TestChaos: four engines with agents and a router with failover, in processes of their own, and
// clients of eight applications. Engines are killed, stopped and started again at random, up to two at a
// time, and so is the router, which goes on from its state file. Each request ends in a way that
// there is, none is lost that had not begun to be answered while the router lived, no model is
// loaded twice, memory of no host is exceeded, and terms and epochs of orders never run back. At
// the end all is as it was. Before the troubles clients ask for a while, GEARSHIFT_CHAOS_CALM, to see
// how many hosts are then taken for lost. GEARSHIFT_CHAOS=30m (make chaos) is the long run;
// without it the run takes some seconds. GEARSHIFT_CHAOS_SEED has other troubles.
func TestChaos(t *testing.T) {
	calm, length, seed := time.Second, 6*time.Second, uint64(1)
	if text := os.Getenv("GEARSHIFT_CHAOS"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			t.Fatalf("GEARSHIFT_CHAOS=%s: want a time such as 30m", text)
		}
	}
	if text := os.Getenv("GEARSHIFT_CHAOS_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("GEARSHIFT_CHAOS_SEED=%s: want a whole number", text)
		}
	}
	if text := os.Getenv("GEARSHIFT_CHAOS_CALM"); text != "" {
		var err error
		if calm, err = time.ParseDuration(text); err != nil || calm < 0 {
			t.Fatalf("GEARSHIFT_CHAOS_CALM=%s: want a time such as 15m", text)
		}
	}
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	t.Setenv("GEARSHIFT_FLEET_TOKEN", "token-of-the-fleet")
	keepBusy(t)
	c := newChaos(t, calm, length, seed)
	c.run()
	c.settle()
	c.check()
}

// chaosScenario is eight applications of two families on four hosts of three sites, any two of
// which have room for the smallest variant of each.
const chaosScenario = `name: chaos
tasks:
  - {name: a1, deadline_ms: 500, rate: 3, primary: h1, critical: true, quality: {small: 0.6, medium: 0.8, large: 1}}
  - {name: a2, deadline_ms: 500, rate: 2, primary: h2, critical: true, quality: {small: 0.6, medium: 0.8, large: 1}}
  - {name: a3, deadline_ms: 500, rate: 2, primary: h3, quality: {small: 0.6, medium: 0.8, large: 1}}
  - {name: a4, deadline_ms: 500, rate: 1, quality: {small: 0.6, medium: 0.8, large: 1}}
  - {name: a5, deadline_ms: 500, rate: 1, quality: {small: 0.6, medium: 0.8, large: 1}}
  - {name: b1, deadline_ms: 500, rate: 3, primary: h4, critical: true, quality: {little: 0.7, big: 1}}
  - {name: b2, deadline_ms: 500, rate: 2, primary: h1, quality: {little: 0.7, big: 1}}
  - {name: b3, deadline_ms: 500, rate: 1, quality: {little: 0.7, big: 1}}
models:
  - {name: small, memory: 40MiB, load_ms: 100}
  - {name: medium, memory: 80MiB, load_ms: 200}
  - {name: large, memory: 150MiB, load_ms: 400}
  - {name: little, memory: 30MiB, load_ms: 100}
  - {name: big, memory: 120MiB, load_ms: 300}
variants: [{name: small, model: small}, {name: medium, model: medium}, {name: large, model: large}, {name: little, model: little}, {name: big, model: big}]
hosts: [{name: h1, site: a, memory: 500MiB}, {name: h2, site: a, memory: 500MiB}, {name: h3, site: b, memory: 500MiB}, {name: h4, site: c, memory: 500MiB}]
profiles:
  - {variant: small, launch_floor_ms: 0.1, weights_ms: 2, growth_per_sequence: 0.01, token_ms: 0.1, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.1, weight_bytes: 9_000_000, activation_bytes: 4_000_000, kv_bytes_per_token: 6144}
  - {variant: medium, launch_floor_ms: 0.1, weights_ms: 4, growth_per_sequence: 0.01, token_ms: 0.2, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.1, weight_bytes: 32_000_000, activation_bytes: 8_000_000, kv_bytes_per_token: 15360}
  - {variant: large, launch_floor_ms: 0.1, weights_ms: 8, growth_per_sequence: 0.01, token_ms: 0.4, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.1, weight_bytes: 81_000_000, activation_bytes: 16_000_000, kv_bytes_per_token: 28672}
  - {variant: little, launch_floor_ms: 0.1, weights_ms: 2, growth_per_sequence: 0.01, token_ms: 0.1, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.1, weight_bytes: 8_000_000, activation_bytes: 4_000_000, kv_bytes_per_token: 6144}
  - {variant: big, launch_floor_ms: 0.1, weights_ms: 6, growth_per_sequence: 0.01, token_ms: 0.3, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.1, weight_bytes: 60_000_000, activation_bytes: 16_000_000, kv_bytes_per_token: 20480}
workload:
  prompt_tokens: {distribution: uniform, min: 8, max: 32}
  output_tokens: {distribution: geometric, mean: 8, max: 32}
failover: {headroom: 40%, heartbeat: 50ms, misses: 4, return_after: 500ms}
serving:
  overload: {shed: never}
  backend: upstream
  upstreams:
`

// chaosHosts are the scenario's.
var chaosHosts = []string{"h1", "h2", "h3", "h4"}

// chaos is one run.
type chaos struct {
	t        *testing.T
	calm     time.Duration // without troubles
	length   time.Duration // with them
	random   *rand.Rand
	scenario string
	state    string
	url      string // of the clients' port
	admin    string // of the admin listener
	router   *process
	fronts   []*front
	tally    *tally
	begun    time.Time // when clients began to ask
	troubled time.Time // when the troubles began
	ended    time.Time

	mu       sync.Mutex // protects what follows
	crashes  []crash    // of the router
	troubles map[string]int
	blind    []time.Time // when every host was taken for lost
	losses   []hostLoss
	notices  []failover.Notice
	faults   []string // what must not be, as soon as it is seen
}

// crash is a time in which no router was there.
type crash struct{ from, to time.Time }

func newChaos(t *testing.T, calm, length time.Duration, seed uint64) *chaos {
	c := &chaos{t: t, calm: calm, length: length, random: rand.New(rand.NewPCG(seed, 1)), tally: newTally(), troubles: map[string]int{}}
	text := chaosScenario
	for _, host := range chaosHosts {
		f := newFront(c, host)
		c.fronts = append(c.fronts, f)
		text += fmt.Sprintf("    \"*@%s\": {url: \"http://%s\", lifecycle: gearshift}\n", host, f.addr)
	}
	c.scenario = write(t, "chaos.yaml", text)
	c.state = filepath.Join(filepath.Dir(c.scenario), "failover.db")
	c.url, c.admin = freeAddr(t), freeAddr(t)
	c.startRouter()
	for _, f := range c.fronts {
		f.start()
	}
	c.whole("before the troubles")
	return c
}

func (c *chaos) startRouter() {
	c.router = startProcess(c.t, "serve", "--scenario", c.scenario, "--addr", c.url, "--admin-addr", c.admin,
		"--store", c.scenario+".db", "--policy", "slackfit", "--failover-state", c.state)
	c.router.listensWithin(c.t, 2*time.Minute)
	follow(c.t, "http://"+c.url, func(n failover.Notice) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.notices = append(c.notices, n)
	})
}

// run has clients ask while one trouble follows the other.
func (c *chaos) run() {
	ctx, stop := context.WithTimeout(c.t.Context(), c.calm+c.length)
	defer stop()
	var work sync.WaitGroup
	for i, task := range []string{"a1", "a2", "a3", "a4", "a5", "b1", "b2", "b3"} {
		client := newChaosClient(c, task, rand.New(rand.NewPCG(uint64(i), 2)))
		work.Go(func() { client.run(ctx) })
	}
	work.Go(func() { c.watch(ctx) })
	c.begun = time.Now()
	pause(ctx, c.calm)
	c.troubled = time.Now()
	for n := 1; ctx.Err() == nil; n++ {
		c.trouble()
		pause(ctx, time.Duration(300+c.random.IntN(900))*time.Millisecond)
		if n%100 == 0 {
			fmt.Printf("chaos: %v of %v, %s\n", time.Since(c.troubled).Round(time.Second), c.length, c.tally.line())
		}
	}
	work.Wait()
}

// trouble has one thing happen.
func (c *chaos) trouble() {
	var up, out []*front
	for _, f := range c.fronts {
		if f.process == nil || f.stopped {
			out = append(out, f)
		} else {
			up = append(up, f)
		}
	}
	switch n := c.random.IntN(10); {
	case n == 0:
		c.note("crash of the router")
		c.crash()
	case len(out) == 2 || len(out) == 1 && n < 5:
		c.note("return of an engine")
		out[0].heal()
	case n < 8:
		c.note("kill of an engine")
		up[c.random.IntN(len(up))].kill()
	default:
		c.note("stop of an engine")
		up[c.random.IntN(len(up))].signal(syscall.SIGSTOP)
	}
}

// befalls notes the loss of a host, recovers its end.
func (c *chaos) befalls(host, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.losses = append(c.losses, hostLoss{host: host, kind: kind, at: time.Now()})
}

func (c *chaos) recovers(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.losses {
		if x := &c.losses[i]; x.host == host && x.back.IsZero() {
			x.back = time.Now()
		}
	}
}

func (c *chaos) note(trouble string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.troubles[trouble]++
}

// fault notes what must not be.
func (c *chaos) fault(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults = append(c.faults, fmt.Sprintf(format, args...))
}

// crash kills the router and starts another on the same state.
func (c *chaos) crash() {
	from := time.Now()
	c.mu.Lock()
	c.crashes = append(c.crashes, crash{from: from})
	c.mu.Unlock()
	c.router.kill()
	c.startRouter()
	c.mu.Lock()
	c.crashes[len(c.crashes)-1].to = time.Now()
	c.mu.Unlock()
}

// crashed reports whether the router crashed, or was not there, at some moment of a time.
func (c *chaos) crashed(from, to time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, x := range c.crashes {
		if x.from.Before(to) && (x.to.IsZero() || x.to.After(from)) {
			return true
		}
	}
	return false
}

// settle ends all troubles, and waits until all is as it was.
func (c *chaos) settle() {
	c.ended = time.Now()
	for _, f := range c.fronts {
		f.heal()
	}
	c.whole("after the troubles")
}

// whole waits until each server is up and each application answered.
func (c *chaos) whole(when string) {
	c.t.Helper()
	var last string
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		s, err := c.situation()
		if err != nil {
			last = err.Error()
			continue
		}
		var wrong []string
		for _, x := range s.Hosts {
			if x.State != "up" || x.Agent == nil {
				wrong = append(wrong, x.Name+" is "+x.State)
			}
		}
		for _, x := range s.Applications {
			if x.Unrecovered != "" || x.Active == "" {
				wrong = append(wrong, fmt.Sprintf("%s is answered by nothing: %s", x.Name, x.Unrecovered))
			}
		}
		if last = strings.Join(wrong, ", "); last == "" {
			return
		}
	}
	for _, f := range c.fronts {
		fmt.Printf("the log of %s ends:\n%s", f.host, lastLines(f.process.log.String(), 1000))
	}
	c.t.Fatalf("%s: %s\nthe router's log ends:\n%s", when, last, lastLines(c.router.log.String(), 4000))
}
