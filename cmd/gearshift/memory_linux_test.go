package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// memoryScenario is a fleet that has room for all that comes.
const memoryScenario = `name: roomy
tasks:
  - {name: chat, deadline_ms: 1000, quality: {small: 1}}
variants: [{name: small}]
hosts: [{name: gpu0, memory: 80GiB}]
replicas: [{variant: small, hosts: [gpu0], memory: 100%}]
profiles:
  - {variant: small, launch_floor_ms: 0.1, weights_ms: 0.1, growth_per_sequence: 0, token_ms: 0.0001, context_token_ms: 0,
     overhead_ms: 0.1, sequence_ms: 0.001, contention: 0, weight_bytes: 1000000, activation_bytes: 1000000, kv_bytes_per_token: 64}
workload:
  prompt_tokens: {distribution: uniform, min: 20, max: 60}
  output_tokens: {distribution: geometric, mean: 8, max: 64}
training:
  presets_from: tiny
  observation: [{kind: advice, rule: slackfit}, {kind: task-one-hot}]
  load: {min_rate: 1, max_rate: 2, uniform_share: 0.3, min_phase_s: 1, max_phase_s: 2}
serving: {max_in_flight: 4096}
`

// hwm is the largest size that the process had in memory, in bytes.
func (p *process) hwm(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.command.Process.Pid) + "/status")
	if err != nil {
		t.Fatalf("the process is gone: %v, %v: %s", err, p.err, p.log)
	}
	for line := range strings.Lines(string(text)) {
		if kb, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, _ := strconv.Atoi(strings.Fields(kb)[0])
			return n << 10
		}
	}
	t.Fatal("/proc has no VmHWM")
	return 0
}

// bulk is clients that send bodies of 8 MiB, of which the router can do little.
type bulk struct {
	addr string
	body string // for which there is no model
	fine string // to be answered
	// pause is what a quick sender takes for 64 KiB: the cores are the server's, too.
	pause time.Duration
	sent  [4]atomic.Int64 // bytes, by kind
	got   sync.Map        // status lines, *atomic.Int64
}

// The kinds of them: quick and slow, with the length ahead and in chunks.
const (
	bulkSlow = 1 << iota
	bulkChunked
)

func newBulk(addr string) *bulk {
	const front, back = `{"model":"auto","max_tokens":4,"messages":[{"role":"user","content":"hi"}],"metadata":{"x":"`, `"}}`
	fine := front + strings.Repeat("x", 8<<20-len(front)-len(back)) + back
	return &bulk{addr: addr, pause: 10 * time.Millisecond, fine: fine, body: strings.Replace(fine, "auto", "none", 1)}
}

// run sends one body after another until the context ends. One in eight is to be answered.
func (b *bulk) run(ctx context.Context, i int) {
	for n := i; ctx.Err() == nil; n++ {
		body := b.body
		if n%8 == 0 {
			body = b.fine
		}
		status := b.once(ctx, i%4, body)
		n, _ := b.got.LoadOrStore(status, new(atomic.Int64))
		n.(*atomic.Int64).Add(1)
		select {
		case <-time.After(200 * time.Millisecond): // a client that comes back
		case <-ctx.Done():
		}
	}
}

// once sends one on a connection of its own and returns the status of the answer.
func (b *bulk) once(ctx context.Context, kind int, body string) string {
	c, err := (&net.Dialer{}).DialContext(ctx, "tcp", b.addr)
	if err != nil {
		return "no connection"
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { c.Close() })()
	length := "Content-Length: " + strconv.Itoa(len(body))
	if kind&bulkChunked != 0 {
		length = "Transfer-Encoding: chunked"
	}
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nConnection: close\r\n%s\r\n\r\n", length)
	answered := make(chan string, 1)
	go func() {
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			answered <- "cut off"
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		answered <- strconv.Itoa(r.StatusCode)
	}()
	for rest := body; rest != "" && len(answered) == 0; {
		n := min(len(rest), 64<<10)
		piece := rest[:n]
		if kind&bulkChunked != 0 {
			piece = fmt.Sprintf("%x\r\n%s\r\n", n, piece)
		}
		if _, err := io.WriteString(c, piece); err != nil {
			break
		}
		b.sent[kind].Add(int64(n))
		rest = rest[n:]
		pause := b.pause
		if kind&bulkSlow != 0 {
			pause = 300 * time.Millisecond
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
	if kind&bulkChunked != 0 {
		_, _ = io.WriteString(c, "0\r\n\r\n")
	}
	return <-answered
}

// all says whether each of the statuses has come.
func (b *bulk) all(statuses []string) bool {
	return !slices.ContainsFunc(statuses, func(status string) bool {
		_, came := b.got.Load(status)
		return !came
	})
}

func (b *bulk) String() string {
	var list []string
	b.got.Range(func(status, n any) bool {
		list = append(list, fmt.Sprintf("%s: %d", status, n.(*atomic.Int64).Load()))
		return true
	})
	slices.Sort(list)
	return fmt.Sprintf("%s; MiB sent quick %d, slow %d, quick in chunks %d, slow in chunks %d", strings.Join(list, ", "),
		b.sent[0].Load()>>20, b.sent[bulkSlow].Load()>>20, b.sent[bulkChunked].Load()>>20, b.sent[bulkSlow|bulkChunked].Load()>>20)
}

// roomyServer is a router of memoryScenario in a process of its own, and its address.
func roomyServer(t *testing.T) (*process, string) {
	t.Helper()
	folder := t.TempDir()
	path := filepath.Join(folder, "roomy.yaml")
	if err := os.WriteFile(path, []byte(memoryScenario), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, "serve", "--scenario", path, "--addr", "127.0.0.1:0", "--admin-addr", "off", "--store", filepath.Join(folder, "none.db"))
	return p, p.listens(t)
}

// ordinary asks small requests, twenty a second, until the context ends, and returns
// how long each took. Each must be answered. Idle says that they are no work for the fleet.
func ordinary(ctx context.Context, t *testing.T, addr string, idle bool) (took []time.Duration) {
	t.Helper()
	client := &http.Client{Timeout: 30 * time.Second}
	defer client.CloseIdleConnections()
	for tick := time.NewTicker(50 * time.Millisecond); ctx.Err() == nil; <-tick.C {
		before := time.Now()
		var r *http.Response
		var err error
		if idle {
			r, err = client.Get("http://" + addr + "/v1/models")
		} else {
			r, err = client.Post("http://"+addr+"/v1/chat/completions", "application/json",
				strings.NewReader(`{"model":"auto","max_tokens":4,"messages":[{"role":"user","content":"hi"}]}`))
		}
		if err != nil {
			t.Errorf("an ordinary request: %v", err)
			continue
		}
		text, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if took = append(took, time.Since(before)); r.StatusCode != http.StatusOK || err != nil {
			t.Errorf("an ordinary request gets %d %s, %v", r.StatusCode, text, err)
		}
	}
	if slices.Sort(took); len(took) == 0 {
		t.Fatal("no ordinary request was answered")
	}
	return took
}

// TestBulkLeavesRoomForOrdinaryRequests: 200 anonymous clients send bodies of 8 MiB,
// quick and slow, with and without their length. The router stays below 1 GiB, and
// answers everybody else. GEARSHIFT_BULK_SECONDS makes it longer, and a
// measurement of how long ordinary requests take.
func TestBulkLeavesRoomForOrdinaryRequests(t *testing.T) {
	length := 4 * time.Second
	if s, err := strconv.Atoi(os.Getenv("GEARSHIFT_BULK_SECONDS")); err == nil {
		length = time.Duration(s) * time.Second
	}
	if os.Getenv("GOMEMLIMIT")+os.Getenv("GEARSHIFT_TEST_CGROUP") == "" { // of the process that is started
		t.Setenv("GOMEMLIMIT", "850MiB")
	}
	p, addr := roomyServer(t)
	ctx, stop := context.WithTimeout(t.Context(), length+30*time.Second)
	defer stop()
	flood := newBulk(addr)
	outcomes := []string{"404", "408", "503"} // read whole, cut off, refused
	var all sync.WaitGroup
	all.Go(func() { // a slow machine takes longer to read one whole
		for began := time.Now(); ctx.Err() == nil; time.Sleep(50 * time.Millisecond) {
			if time.Since(began) >= length && flood.all(outcomes) {
				stop()
			}
		}
	})
	for i := range 200 {
		all.Go(func() { flood.run(ctx, i) })
	}
	p.serves(ctx, t, addr, false, os.Getenv("GEARSHIFT_BULK_SECONDS") != "")
	all.Wait()
	t.Logf("bulk: %v", flood)
	if !flood.all(outcomes) {
		t.Errorf("not each of %v came of bulk requests: %v", outcomes, flood)
	}
	p.stop(t)
}

// serves asks the process ordinary requests until the context ends, each of which it must
// answer, in less than 1 GiB. Timed wants the answers within a second as well, which says
// something of the router only where the machine has nothing else to do.
func (p *process) serves(ctx context.Context, t *testing.T, addr string, idle, timed bool) {
	t.Helper()
	took := ordinary(ctx, t, addr, idle)
	hwm, p99 := p.hwm(t), took[len(took)*99/100]
	t.Logf("%d ordinary requests, median %v, p99 %v, slowest %v; at most %d MiB in memory",
		len(took), took[len(took)/2], p99, took[len(took)-1], hwm>>20)
	if hwm >= 1<<30 {
		t.Errorf("the router took %d MiB, want less than 1 GiB", hwm>>20)
	}
	if timed && p99 >= time.Second {
		t.Errorf("ordinary requests took %v at the 99th percentile, want less than a second", p99)
	}
}

// crowd connects so many clients, each of which sends a text and then neither writes
// nor reads.
func crowd(t *testing.T, addr, text string, clients int) {
	t.Helper()
	conns := make([]net.Conn, clients)
	t.Cleanup(func() {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	})
	for i := range conns {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatalf("client %d: %v", i, err)
		}
		if conns[i] = c; text != "" {
			_ = c.SetWriteDeadline(time.Now().Add(5 * time.Second))
			_, _ = io.WriteString(c, text) // the router may hang up
		}
	}
}

// TestCrowdsLeaveRoomForOrdinaryRequests: clients that only connect, that send half a
// header of 60 KiB, that announce 8 MiB and send nothing, or that ask for long answers and
// never read them. GEARSHIFT_CROWD makes them more than a thousand, and
// measures as the test of bulk does.
func TestCrowdsLeaveRoomForOrdinaryRequests(t *testing.T) {
	clients := 1000
	if n, err := strconv.Atoi(os.Getenv("GEARSHIFT_CROWD")); err == nil {
		clients = n
	}
	if os.Getenv("GOMEMLIMIT")+os.Getenv("GEARSHIFT_TEST_CGROUP") == "" {
		t.Setenv("GOMEMLIMIT", "850MiB")
	}
	const line = "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	stream := `{"model":"auto","stream":true,"ignore_eos":true,"max_tokens":100000,"messages":[{"role":"user","content":"hi"}]}`
	for name, text := range map[string]string{
		"silent":       "",
		"half headers": line + "X-Long: " + strings.Repeat("x", 60<<10),
		"announced":    line + "Content-Length: 8388608\r\n\r\n{",
		"never read":   line + "Content-Length: " + strconv.Itoa(len(stream)) + "\r\n\r\n" + stream,
	} {
		t.Run(name, func(t *testing.T) {
			p, addr := roomyServer(t)
			n := clients
			if name == "never read" {
				n /= 5 // the engines work for each of them, here and on the same cores
			}
			crowd(t, addr, text, n)
			ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
			defer stop()
			// Clients that never read fill the fleet as well, and the engines, which are in the
			// same process, work for them as fast as they can: the time is theirs.
			idle := name == "never read"
			p.serves(ctx, t, addr, idle, !idle && os.Getenv("GEARSHIFT_CROWD") != "")
			p.kill()
		})
	}
}
