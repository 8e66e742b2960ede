package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSoak: four engines in processes of their own that die, hang, slow down, cut
// answers and talk nonsense, the router before them in another, and clients of all
// kinds, some of which vanish. Each request ends in one way, on which client and
// router agree, and nothing stays. GEARSHIFT_SOAK=30m (make soak) is the long run,
// in which memory has to be flat too; with -race the router is built so as well.
func TestSoak(t *testing.T) {
	length := 6 * time.Second
	if text := os.Getenv("GEARSHIFT_SOAK"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			t.Fatalf("GEARSHIFT_SOAK=%s: want a time such as 30m", text)
		}
	}
	seed := uint64(1)
	if text := os.Getenv("GEARSHIFT_SOAK_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatalf("GEARSHIFT_SOAK_SEED=%s: want a whole number", text)
		}
	}
	s := newSoak(t, length, seed)
	s.run()
	s.check()
}

// soak is one run.
type soak struct {
	t       *testing.T
	length  time.Duration
	seed    uint64
	engines []*soakEngine
	router  *process
	url     string
	tally   *tally

	goroutines float64   // of the router, before any load
	held       []float64 // memory, each second
	troubles   map[string]int
}

const (
	soakHosts   = 4
	soakClients = 16
)

// soakTimeouts are short, so that a short run sees every one of them.
const soakTimeouts = "  timeouts: {connect: 500ms, header: 3s, first_token: 2s, idle: 1s, total: 10s}\n  cooldown: 500ms\n"

func newSoak(t *testing.T, length time.Duration, seed uint64) *soak {
	s := &soak{t: t, length: length, seed: seed, tally: newTally(), troubles: map[string]int{}}
	text := soakScenario(t, soakHosts)
	path := write(t, "soak.yaml", text)
	args := []string{"scenario", "upstreams", path}
	for i := range soakHosts {
		e := &soakEngine{t: t, scenario: path, host: fmt.Sprintf("gpu%d", i), addr: freeAddr(t)}
		e.start()
		s.engines = append(s.engines, e)
		args = append(args, "--at", e.host+"=http://"+e.addr)
	}
	served := write(t, "served.yaml", succeed(t, args...))
	s.router = startProcess(t, "serve", "--scenario", served, "--addr", "127.0.0.1:0", "--admin-addr", "off", "--store", path+".db", "--policy", "slackfit")
	s.url = "http://" + s.router.listens(t)
	return s
}

// soakScenario is the scenario tiny with so many hosts, whose replicas take few requests.
func soakScenario(t *testing.T, hosts int) string {
	text := succeed(t, "scenario", "show", "tiny")
	var list, names []string
	for i := range hosts {
		list = append(list, fmt.Sprintf("  - {name: gpu%d, memory: 8GiB}\n", i))
		names = append(names, fmt.Sprintf("gpu%d", i))
	}
	for _, edit := range [][2]string{
		{list[0], strings.Join(list, "")},
		{"hosts: [gpu0]", "hosts: [" + strings.Join(names, ", ") + "]"},
		{"max_in_flight: 128", "max_in_flight: 3"},
		{"  backend: simulated", soakTimeouts + "  backend: simulated"},
	} {
		if !strings.Contains(text, edit[0]) {
			t.Fatalf("the scenario has no %q", edit[0])
		}
		text = strings.ReplaceAll(text, edit[0], edit[1])
	}
	return text
}

// freeAddr is an address that nobody listens on.
func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// run puts the load on for the length of the soak.
func (s *soak) run() {
	s.goroutines = s.metrics()["go_goroutines"]
	ctx, stop := context.WithTimeout(s.t.Context(), s.length)
	defer stop()
	var work sync.WaitGroup
	for i := range soakClients {
		c := newSoakClient(s.url, rand.New(rand.NewPCG(s.seed, uint64(i))), s.tally)
		work.Go(func() { c.run(ctx) })
	}
	work.Go(func() { s.watch(ctx) })
	s.trouble(ctx)
	work.Wait()
}

// soakTroubles are what befalls an engine: faults, or its death.
var soakTroubles = []string{
	"die", "die",
	"hang=0.5", "stall=0.5", "slow=0.7,delay=1s", "slow=0.3,delay=5s", "cut=0.5", "garbage=0.5", "error=0.5", "refuse=0.5",
	"hang=1,lie", "sick,error=1", "hang=0.1,stall=0.1,slow=0.1,cut=0.1,garbage=0.1,error=0.1,refuse=0.1",
}

// trouble lets one engine after the other misbehave for a while, at most two at
// a time, and leaves them all well.
func (s *soak) trouble(ctx context.Context) {
	random := rand.New(rand.NewPCG(s.seed, 1<<32))
	step := min(5*time.Second, max(300*time.Millisecond, s.length/20))
	tick := time.NewTicker(step)
	defer tick.Stop()
	var ill []int
	var next []int // troubles to come; each comes once in a round
	for {
		if len(next) == 0 {
			next = random.Perm(len(soakTroubles))
		}
		if len(ill) == 2 || len(ill) == 1 && random.IntN(3) == 0 {
			s.engines[ill[0]].heal()
			ill = ill[1:]
		}
		if i := random.IntN(soakHosts); len(ill) == 0 || ill[0] != i {
			ill = append(ill, i)
			trouble := soakTroubles[next[0]]
			next = next[1:]
			s.engines[i].befall(trouble)
			s.troubles[trouble]++
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, i := range ill {
				s.engines[i].heal()
			}
			return
		}
	}
}

// watch samples the router's memory, and says how far the soak is.
func (s *soak) watch(ctx context.Context) {
	start := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s.held = append(s.held, s.memory())
		if n := len(s.held); n%60 == 0 {
			fmt.Printf("soak: %v of %v, %.1f MB, %s\n", time.Since(start).Round(time.Second), s.length, s.held[n-1]/1e6, s.tally.line())
		}
	}
}

// soakEngine is the server of one host, which may die and come back.
type soakEngine struct {
	t                    *testing.T
	scenario, host, addr string
	process              *process // nil while it is dead
}

func (e *soakEngine) start() {
	e.process = startProcess(e.t, "engine", "--scenario", e.scenario, "--host", e.host, "--addr", e.addr, "--fault", "none")
	e.process.listens(e.t)
}

// befall lets it die, or misbehave.
func (e *soakEngine) befall(trouble string) {
	if trouble == "die" {
		e.process.kill()
		e.process = nil
		return
	}
	(&engineProcess{url: "http://" + e.addr}).fault(e.t, trouble)
}

func (e *soakEngine) heal() {
	if e.process == nil {
		e.start()
		return
	}
	(&engineProcess{url: "http://" + e.addr}).fault(e.t, "")
}
