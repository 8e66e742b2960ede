//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/netip"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// measurement is one run against one target. Times are in nanoseconds.
type measurement struct {
	Round    int     `json:"round"`
	Target   string  `json:"target"`
	Kind     string  `json:"kind"`
	Bytes    int     `json:"bytes"` // of the prompt
	Requests int     `json:"requests"`
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	Rate     float64 `json:"rate"`              // answers a second
	CPU      float64 `json:"cpu"`               // of the target's process, for each request
	GapP50   float64 `json:"gap_p50,omitempty"` // of a stream: how far gaps stretch or shrink
	GapP99   float64 `json:"gap_p99,omitempty"`
	Watched  bool    `json:"watched,omitempty"` // the cores' pace was
	Slowed   float64 `json:"slowed,omitempty"`  // share of the time during which others slowed a core
	Tries    int     `json:"tries,omitempty"`   // since disturbed ones are taken again
	Lost     int     `json:"lost,omitempty"`    // tries, not among those, that ended without an answer
}

// The kinds of measurements.
const (
	kindLatency    = "latency"    // one client
	kindThroughput = "throughput" // 32 clients
	kindOpen       = "open"       // the same clients, at 70 % of the throughput
	kindStream     = "stream"
)

const (
	manyClients = 32
	openShare   = 0.7
)

// direct is the name of the target that all others are compared with.
const direct = "direct"

// target is one way to the upstream.
type target struct {
	name   string
	addr   netip.AddrPort
	pid    int // 0: its processor time is not reported
	header string
}

// parseTarget reads NAME=ADDR[,pid=N][,FIELD: VALUE…].
func parseTarget(text string) (t target, err error) {
	var rest string
	var ok bool
	if t.name, rest, ok = strings.Cut(text, "="); !ok {
		return t, fmt.Errorf("target %q: want NAME=ADDR[,pid=N][,FIELD: VALUE…]", text)
	}
	parts := strings.Split(rest, ",")
	if t.addr, err = netip.ParseAddrPort(parts[0]); err != nil {
		return t, fmt.Errorf("target %q: %w", text, err)
	}
	for _, part := range parts[1:] {
		if pid, ok := strings.CutPrefix(part, "pid="); ok {
			if t.pid, err = strconv.Atoi(pid); err != nil {
				return t, fmt.Errorf("target %q: %w", text, err)
			}
		} else {
			t.header += part + "\r\n"
		}
	}
	return t, nil
}

// request is a chat of a prompt of so many bytes.
func (t target) request(bytes int, stream bool) []byte {
	const words = "the gear turns and every wheel follows its own time so the small one answers soon while "
	prompt := strings.Repeat(words, bytes/len(words)+1)[:bytes]
	body := `{"model":"auto","messages":[{"role":"user","content":"` + prompt + `"}],"max_tokens":8}`
	if stream {
		body = `{"stream":true,` + body[1:]
	}
	return []byte("POST /v1/chat/completions HTTP/1.1\r\nHost: " + t.addr.String() + "\r\nContent-Type: application/json\r\nAccept: application/json\r\n" +
		"User-Agent: overhead\r\nAuthorization: Bearer none\r\n" + t.header + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body)
}

// plan is what to measure.
type plan struct {
	*loop
	targets       []target
	rounds        int
	sizes         []int
	duration      time.Duration
	random        *rand.Rand
	out           *json.Encoder
	log           io.Writer
	open, streams []string      // targets that are loaded at 70 %, and asked for streams, too
	cores         []int         // whose pace is watched
	patience      time.Duration // that is left for what is disturbed
	pace          pace
	round         int
	most          float64 // answers a second of the target measured last
}

func newMeasureCommand() *cobra.Command {
	p := plan{sizes: []int{1 << 10, 10 << 10, 220 << 10}, random: rand.New(rand.NewPCG(3, 4)), log: os.Stderr}
	var targets []string
	var upstream string
	c := &cobra.Command{
		Use:   "measure",
		Short: "Measure targets in turn, and write each result as a line of JSON",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			p.out = json.NewEncoder(c.OutOrStdout())
			for _, text := range targets {
				t, err := parseTarget(text)
				if err != nil {
					return err
				}
				p.targets = append(p.targets, t)
			}
			addr, err := netip.ParseAddrPort(upstream)
			if err != nil {
				return err
			}
			runtime.GOMAXPROCS(1 + len(p.cores)) // the loop never gives its one away
			if err := p.pace.watch(c.Context(), p.cores); err != nil {
				return err
			}
			runtime.LockOSThread()
			debug.SetGCPercent(-1) // in pauses instead
			if p.loop, err = newLoop(addr); err != nil {
				return err
			}
			defer p.close()
			return p.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&upstream, "upstream", "127.0.0.1:18400", "`ADDR` at which to be the targets' upstream")
	f.StringArrayVar(&targets, "target", nil, "`NAME=ADDR[,pid=N][,FIELD: VALUE…]`, again for each")
	f.StringSliceVar(&p.open, "open", nil, "targets to load at 70 % of their throughput, too")
	f.StringSliceVar(&p.streams, "stream", nil, "targets to ask for streams, too")
	f.IntVar(&p.rounds, "rounds", 5, "how often each is measured")
	f.DurationVar(&p.duration, "time", 500*time.Millisecond, "of each measurement")
	f.IntSliceVar(&p.sizes, "sizes", p.sizes, "bytes of the prompts")
	f.IntSliceVar(&p.cores, "watch", nil, "cores whose pace is watched: while others slow them, nothing is measured")
	f.DurationVar(&p.patience, "patience", 10*time.Minute, "to wait for that, and to take what was disturbed again, in all")
	return c
}

// run measures everything, in another order each round.
func (p *plan) run(ctx context.Context) error {
	for _, t := range p.targets {
		if err := p.answered(ctx, t); err != nil {
			return err
		}
	}
	for p.round = range p.rounds {
		fmt.Fprintf(p.log, "overhead: round %d of %d\n", p.round+1, p.rounds)
		p.random.Shuffle(len(p.targets), func(i, j int) { p.targets[i], p.targets[j] = p.targets[j], p.targets[i] })
		alternate(p.targets, p.round)
		for _, size := range p.sizes {
			if err := p.each(ctx, size, p.latency); err != nil {
				return err
			}
			// One right after the other: a core's pace soon changes, and the share with it.
			if err := p.each(ctx, size, p.throughput, p.steady); err != nil {
				return err
			}
		}
		if err := p.each(ctx, p.sizes[0], p.stream); err != nil {
			return err
		}
	}
	return nil
}

// way is one kind of measurement.
type way func(context.Context, target, int) (measurement, error)

// each measures every target in these ways.
func (p *plan) each(ctx context.Context, size int, ways ...way) error {
	for _, t := range p.targets {
		p.most = 0
		for _, f := range ways {
			m, err := p.undisturbed(ctx, t, size, f)
			if err != nil {
				return fmt.Errorf("%s, %d bytes: %w", t.name, size, err)
			}
			if m.Requests == 0 {
				continue
			}
			m.Round, m.Target, m.Bytes = p.round, t.name, size
			if m.Kind == kindThroughput {
				p.most = m.Rate
			}
			if err := p.out.Encode(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// mostLost is how many tries of one measurement may end with requests that have no answer.
const mostLost = 3

// undisturbed measures when the cores are at their pace, and again where they did not
// stay so, as far as patience goes. What was disturbed least counts, whatever it shows.
// What ends without an answer is taken again, too: a proxy that forgets one among a
// million need not spoil an hour.
func (p *plan) undisturbed(ctx context.Context, t target, size int, f way) (best measurement, err error) {
	for {
		if err := p.quiet(); err != nil {
			return best, err
		}
		began, spent := now(), processorTime(t.pid)
		p.pace.mark()
		m, err := f(ctx, t, size)
		if errors.As(err, &unanswered{}) && best.Lost < mostLost {
			fmt.Fprintf(p.log, "overhead: %s, %d bytes: %v; measured again\n", t.name, size, err)
			best.Lost++
			continue
		}
		if err != nil || m.Requests == 0 {
			return m, err
		}
		m.Watched, m.Slowed = len(p.cores) > 0, p.pace.slowed()
		m.CPU = float64(processorTime(t.pid)-spent) / float64(m.Requests)
		m.Tries, m.Lost = best.Tries, best.Lost
		if best.Tries == 0 || m.Slowed < best.Slowed {
			best = m
		}
		best.Tries++
		if err := p.settle(t.pid); err != nil {
			return best, err
		}
		if best.Slowed <= mostSlow || p.patience <= 0 {
			return best, nil
		}
		p.patience -= time.Duration(now() - began)
	}
}

// quiet waits until nobody has slowed the cores for a while, as far as patience goes.
func (p *plan) quiet() error {
	const while = 100 * time.Millisecond
	for len(p.cores) > 0 && p.patience > 0 {
		p.pace.mark()
		if err := p.rest(while); err != nil || p.pace.slowed() <= mostSlow {
			return err
		}
		p.patience -= while
	}
	return nil
}

// settle waits until the target has done what its last clients did not wait for,
// or what is next would pay for that.
func (p *plan) settle(pid int) error {
	runtime.GC()
	for range 50 {
		spent := processorTime(pid)
		if err := p.rest(40 * time.Millisecond); err != nil {
			return err
		}
		if pid == 0 || processorTime(pid) == spent {
			return nil
		}
	}
	return nil
}

func (p *plan) latency(ctx context.Context, t target, size int) (measurement, error) {
	taken, err := p.closed(ctx, t.addr, t.request(size, false), 1, p.duration)
	return p.summary(kindLatency, taken), err
}

func (p *plan) throughput(ctx context.Context, t target, size int) (measurement, error) {
	taken, err := p.closed(ctx, t.addr, t.request(size, false), manyClients, p.duration)
	return p.summary(kindThroughput, taken), err
}

func (p *plan) steady(ctx context.Context, t target, size int) (measurement, error) {
	rate := openShare * p.most
	if !slices.Contains(p.open, t.name) || rate == 0 {
		return measurement{}, nil
	}
	taken, err := p.loop.open(ctx, t.addr, t.request(size, false), manyClients, rate, p.duration)
	return p.summary(kindOpen, taken), err
}

func (p *plan) stream(ctx context.Context, t target, size int) (measurement, error) {
	if !slices.Contains(p.streams, t.name) {
		return measurement{}, nil
	}
	f, err := p.streamed(ctx, t.addr, t.request(size, true), p.duration)
	m := p.summary(kindStream, f.first)
	m.GapP50, m.GapP99 = percentiles(absolute(f.gaps))
	return m, err
}

func (p *plan) summary(kind string, taken []int64) measurement {
	m := measurement{Kind: kind, Requests: len(taken), Rate: float64(len(taken)) / p.duration.Seconds()}
	m.P50, m.P99 = percentiles(taken)
	return m
}

func absolute(list []int64) []int64 {
	for i := range list {
		list[i] = max(list[i], -list[i])
	}
	return list
}

func percentiles(list []int64) (p50, p99 float64) {
	if len(list) == 0 {
		return 0, 0
	}
	slices.Sort(list)
	return float64(list[len(list)/2]), float64(list[len(list)*99/100])
}

// processorTime of a process and its threads so far, in nanoseconds; zero if
// it cannot be had.
func processorTime(pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return (user + system) * int64(10*time.Millisecond)
}
