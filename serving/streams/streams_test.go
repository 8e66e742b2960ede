package streams_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"image"
	"image/jpeg"
	"io"
	"log/slog"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"gearshift/internal/memnet"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/offload"
	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/openai/inference"
	"gearshift/serving/streams"
)

// engine answers batches of n frames in that many ms and 5 more for each frame, unless it is off.
type engine struct {
	ms    float64
	off   atomic.Bool
	stall atomic.Int64 // ms that the next batch takes longer
	last  atomic.Pointer[inference.Tensor]
	mu    sync.Mutex
	stops chan struct{}
}

func newEngine(ms float64) *engine { return &engine{ms: ms, stops: make(chan struct{})} }

// stop breaks what runs, and has nobody listen any more.
func (e *engine) stop() {
	e.off.Store(true)
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.stops)
}

// RoundTrip implements [http.RoundTripper].
func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	if e.off.Load() {
		return nil, syscall.ECONNREFUSED
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	q, err := inference.ReadRequest(r.Header, body)
	if err != nil {
		return nil, err
	}
	n := q.Inputs[0].Rows()
	if _, err := q.Inputs[0].Cut(); err != nil {
		return nil, err
	}
	select {
	case <-time.After(time.Duration((e.ms + 5*float64(n) + float64(e.stall.Swap(0))) * float64(time.Millisecond))):
	case <-e.stops:
		return nil, syscall.ECONNRESET
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	e.last.Store(&q.Inputs[0])
	h := http.Header{"Content-Type": {"application/json"}}
	text, err := (&inference.Answer{Model: "m", Outputs: []inference.Tensor{{
		Name: "boxes", Datatype: "FP32", Shape: []int64{int64(n), 1}, Data: []byte("[" + strings.TrimSuffix(strings.Repeat("7,", n), ",") + "]"),
	}}}).Write(h)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: 200, Header: h, ContentLength: -1, Body: io.NopCloser(bytes.NewReader(text))}, nil
}

// rig is a server of streams on two hosts.
type rig struct {
	*serving.Server
	listener *memnet.Listener
	packets  memnet.Packets // of HTTP/3
	engines  []*engine
	stop     func()
}

func latency(ms float64) (list []float64) {
	for n := 1; n <= 16; n++ {
		list = append(list, ms+5*float64(n))
	}
	return list
}

func newRig(t testing.TB, change ...func(*streams.Config)) *rig {
	t.Helper()
	return keyedRig(t, "", change...)
}

// keyedRig is a rig that wants the keys of a file.
func keyedRig(t testing.TB, keys string, change ...func(*streams.Config)) *rig {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "boxes", Total: time.Second, Pace: time.Millisecond, Weight: 1, Quality: []float64{1, 0.99}}}, []fleet.Variant{{Name: "detector"}, {Name: "small"}},
		[]fleet.Host{{Name: "a"}, {Name: "b"}}, []fleet.Replica{{Name: "detector@a"}, {Name: "detector@b", Host: 1}, {Name: "small@a", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	ledger := fleet.NewLedger(table)
	core, err := router.New(router.Config{Ledger: ledger, Fallback: first{}, Balancer: emptiest{}})
	if err != nil {
		t.Fatal(err)
	}
	c := streams.Config{
		FPS: 60, Policy: offload.Gearshift, Grace: 0.02, Margin: 0.15, Period: 200 * time.Millisecond, Horizon: time.Second, DropRate: 0.006,
		Clients: 1000, MaxFrame: 32 << 10, Idle: time.Minute, Input: streams.Input{Tensor: "image", Encoding: streams.Uint8, Width: 32, Height: 16, Range: [2]float64{-1, 1}},
	}
	for i, name := range []string{"a", "b"} {
		c.Hosts = append(c.Hosts, streams.Host{Name: name, Sizes: []streams.Size{{Replica: i, Latency: latency(13)}}})
	}
	for _, f := range change {
		f(&c)
	}
	g := &rig{listener: memnet.Listen(), engines: []*engine{newEngine(13), newEngine(13), newEngine(1)}}
	log := slog.New(slog.DiscardHandler)
	module := streams.New(streams.Options{Config: c, Ledger: ledger, Log: log})
	settings := config.Default()
	settings.Metrics, settings.KeysFile = config.MetricsOpen, keys
	g.Server, err = serving.New(serving.Options{
		Config: settings, Router: core, Log: log, Modules: []serving.Module{module},
		Backends: []serving.Backend{{Transport: g.engines[0]}, {Transport: g.engines[1]}, {Transport: g.engines[2]}},
	})
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: g.Handler()}
	var serves sync.WaitGroup
	serves.Go(func() { _ = server.Serve(g.listener) })
	end := func() {}
	if overWebTransport {
		if end, err = module.ServeHTTP3(g.packets.Listen()); err != nil {
			t.Fatal(err)
		}
	}
	g.stop = func() {
		g.Drain()
		time.Sleep(100 * time.Millisecond) // synctest's
		end()
		_ = server.Close()
		serves.Wait()
		g.Close()
	}
	return g
}

// emptiest takes the first replica there is.
type emptiest struct{}

func (emptiest) Name() string { return "emptiest" }
func (emptiest) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	for _, i := range v.Table.ReplicasOf(variant) {
		if v.Available(i) {
			return i
		}
	}
	return -1
}

// metric is the sum of a metric's samples whose line has the text.
func (g *rig) metric(t testing.TB, name, with string) (sum float64) {
	t.Helper()
	response, err := g.listener.Client().Get("http://127.0.0.1/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, name) && strings.Contains(line, with) && !strings.HasPrefix(line, "#") {
			var x float64
			if err := json.Unmarshal([]byte(strings.TrimSpace(line[strings.LastIndex(line, " "):])), &x); err == nil {
				sum += x
			}
		}
	}
	return sum
}

// picture is a frame of that size.
func picture(width, height int) []byte {
	var b bytes.Buffer
	_ = jpeg.Encode(&b, image.NewYCbCr(image.Rect(0, 0, width, height), image.YCbCrSubsampleRatio420), nil)
	return b.Bytes()
}

// progressive is the frame with the marker of a picture in many passes.
func progressive(frame []byte) []byte {
	b := bytes.Clone(frame)
	b[bytes.Index(b, []byte{0xff, 0xc0})+1] = 0xc2
	return b
}

// scene loses its rate with each frame.
type scene struct {
	rate  float64
	frame []byte
}

func (s scene) Frame(int) []byte                                    { return s.frame }
func (s scene) Track(*streams.Down, int, streams.Reference) float64 { return s.rate }

// clients are some that stream until stopped.
type clients struct {
	list []*streams.Client
	errs []error
	stop func()
}

func (g *rig) stream(n int, sla float64, heard func(i int, d *streams.Down)) *clients {
	ctx, cancel := context.WithCancel(context.Background())
	c := &clients{errs: make([]error, n)}
	var all sync.WaitGroup
	for i := range n {
		x := &streams.Client{URL: "http://127.0.0.1", HTTP: g.listener.Client(), SLA: sla, FPS: 60, DropRate: 0.006, Scene: scene{0.006, picture(32, 16)}, WebTransport: overWebTransport, Dial: g.dialQUIC}
		if heard != nil {
			x.Heard = func(d *streams.Down) { heard(i, d) }
		}
		c.list = append(c.list, x)
		all.Go(func() {
			time.Sleep(time.Duration(i) * 7 * time.Millisecond)
			c.errs[i] = x.Run(ctx)
		})
	}
	c.stop = func() { cancel(); all.Wait() }
	return c
}

// Clients of two hosts are served, keep their SLAs and find their batches begun as planned; what they have sent takes no
// memory in the end.
func TestClientsAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		c := g.stream(20, 0.06, nil)
		time.Sleep(10 * time.Second)
		hosts, results, late := map[string]int{}, 0, 0
		for i, x := range c.list {
			m := x.Measured()
			hosts[m.Host]++
			results, late = results+m.Results, late+m.Late
			// A server of its own has results after 2 frames, every 2 frames.
			if stride := float64(m.Strides) / float64(m.Tracked); m.Served < 9*time.Second || 0.006*(stride-2.5) > 0.06 || len(m.Errors) > 0 {
				t.Errorf("client %d: served for %v with strides of %v, errors %v; why: %q", i, m.Served, stride, m.Errors, m.Why)
			}
			if m.Sent < m.Results || m.Results < 40 {
				t.Errorf("client %d: %d results of %d frames", i, m.Results, m.Sent)
			}
		}
		if hosts["a"] < 6 || hosts["b"] < 6 {
			t.Errorf("hosts %v; want both to have some", hosts)
		}
		if late > results/20 {
			t.Errorf("%d of %d results late", late, results)
		}
		if n := g.metric(t, "gearshift_stream_clients", `place="served"`); n != 20 {
			t.Errorf("%v served", n)
		}
		c.stop()
		time.Sleep(time.Second)
		for _, err := range c.errs {
			if err != nil {
				t.Error(err)
			}
		}
		g.released(t)
	})
}

// Clients are served by the size that costs the host least: by the small one, if its gap leaves enough of the SLA.
func TestClientsMoveToASmallerSize(t *testing.T) {
	for gap, want := range map[float64]string{0.01: "small", 0.2: "detector"} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, func(c *streams.Config) {
				c.Hosts = c.Hosts[:1]
				c.Hosts[0].Sizes = append(c.Hosts[0].Sizes, streams.Size{Replica: 2, Latency: latency(1)[:8], Gap: gap})
			})
			defer g.stop()
			models := map[string]int{}
			var mu sync.Mutex
			c := g.stream(6, 0.06, func(_ int, d *streams.Down) {
				mu.Lock()
				defer mu.Unlock()
				if d.Type == streams.KindResult {
					models[d.Model]++
				}
			})
			time.Sleep(3 * time.Second)
			c.stop()
			if len(models) != 1 || models[want] < 60 {
				t.Errorf("gap %v: results by %v; want all by %s", gap, models, want)
			}
		})
	}
}

// Engines get frames as their tensor wants them.
func TestEncodings(t *testing.T) {
	for encoding, want := range map[streams.Encoding]struct {
		datatype string
		shape    []int64
		row      int
		green    func(row []byte) bool // whether the pixels are green
	}{
		streams.Uint8: {"UINT8", []int64{16, 32, 3}, 16 * 32 * 3, func(row []byte) bool { return row[0] < 3 && row[1] > 130 && row[2] < 3 && row[4] > 130 }},
		streams.Float: {"FP32", []int64{3, 16, 32}, 4 * 16 * 32 * 3, func(row []byte) bool {
			at := func(i int) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:])) }
			return at(0) < -0.96 && at(16*32) > 0.02 && at(16*32) < 0.12 && at(2*16*32) < -0.96
		}},
		streams.JPEG: {"BYTES", []int64{1}, 4 + len(picture(32, 16)), func(row []byte) bool { return bytes.Equal(row[4:], picture(32, 16)) }},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, func(c *streams.Config) { c.Input.Encoding, c.Hosts = encoding, c.Hosts[:1] })
			defer g.stop()
			c := g.stream(2, 0.06, nil)
			time.Sleep(time.Second)
			c.stop()
			time.Sleep(time.Second)
			got := g.engines[0].last.Load()
			if got == nil || got.Datatype != want.datatype || !slices.Equal(got.Shape[1:], want.shape) {
				t.Fatalf("%s: the engine got %+v", encoding, got)
			}
			rows, err := got.Cut()
			if err != nil || len(rows[0]) != want.row || !want.green(rows[0]) {
				t.Errorf("%s: a row of %d bytes, %v; want %d", encoding, len(rows[0]), err, want.row)
			}
			g.released(t)
		})
	}
}

// released checks that nobody is there and nothing is held.
func (g *rig) released(t testing.TB) {
	t.Helper()
	if n := g.metric(t, "gearshift_stream_clients", ""); n != 0 {
		t.Errorf("%v clients are left", n)
	}
	if u := g.Batches().Buffers().Usage(); u.Held != 0 {
		t.Errorf("%d bytes are held", u.Held)
	}
}

// When more come than fit, those that fit are served, and the others hear why they are not.
func TestWhoDoesNotFitWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		c := g.stream(60, 0.02, nil)
		hard := g.stream(1, 0.0001, nil)
		time.Sleep(6 * time.Second)
		served, waiting := 0, 0
		for _, x := range c.list {
			switch m := x.Measured(); {
			case m.Host != "":
				served++
			case m.Why == "no host has room for it" || strings.HasSuffix(m.Why, "has no room for it any more"):
				waiting++
			default:
				t.Errorf("why: %q", m.Why)
			}
		}
		if served < 12 || served > 40 || served+waiting != 60 {
			t.Errorf("%d served, %d wait", served, waiting)
		}
		if why := hard.list[0].Measured().Why; !strings.Contains(why, "room for it") {
			t.Errorf("one that would take a whole host: %q", why)
		}
		c.stop()
		hard.stop()
	})
}

// The clients of a host that is lost are served elsewhere within 300 ms, or hear that they are not.
func TestAHostIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		var mu sync.Mutex
		var lost time.Time
		moved, said := map[int]time.Duration{}, map[int]string{}
		c := g.stream(24, 0.06, func(i int, d *streams.Down) {
			mu.Lock()
			defer mu.Unlock()
			if d.Type == streams.KindPlace && !lost.IsZero() {
				said[i] = d.Why
				if d.Served && moved[i] == 0 {
					moved[i] = time.Since(lost)
				}
			}
		})
		time.Sleep(5 * time.Second)
		var on []int
		for i, x := range c.list {
			if x.Measured().Host == "a" {
				on = append(on, i)
			}
		}
		mu.Lock()
		lost = time.Now()
		mu.Unlock()
		g.engines[0].stop()
		time.Sleep(300 * time.Millisecond)
		mu.Lock()
		for _, i := range on {
			if _, there := said[i]; !there {
				t.Errorf("client %d of the host that is lost has heard nothing", i)
			}
		}
		if len(on) < 6 || len(moved) < len(on)-3 {
			t.Errorf("%d of %d clients of the host are served elsewhere within 300 ms: %v", len(moved), len(on), said)
		}
		mu.Unlock()
		before := c.list[on[0]].Measured().Results
		time.Sleep(2 * time.Second)
		if after := c.list[on[0]].Measured().Results; after <= before+5 {
			t.Errorf("a client that moved has %d results after %d", after, before)
		}
		c.stop()
		time.Sleep(3 * time.Second)
		g.released(t)
	})
}

// Without its smaller size a host goes on with the first; its clients keep their places there.
func TestASmallerSizeIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *streams.Config) {
			c.Hosts = c.Hosts[:1]
			c.Hosts[0].Sizes = append(c.Hosts[0].Sizes, streams.Size{Replica: 2, Latency: latency(1), Gap: 0.01})
		})
		defer g.stop()
		var mu sync.Mutex
		last := map[int]string{}
		c := g.stream(6, 0.06, func(i int, d *streams.Down) {
			mu.Lock()
			defer mu.Unlock()
			if d.Type == streams.KindResult {
				last[i] = d.Model
			}
		})
		time.Sleep(3 * time.Second)
		g.engines[2].stop()
		time.Sleep(3 * time.Second)
		for i, x := range c.list {
			mu.Lock()
			model := last[i]
			mu.Unlock()
			if m := x.Measured(); model != "detector" || m.Away > 0 || m.Gap > 400*time.Millisecond {
				t.Errorf("client %d: results by %s, without a place for %v, longest gap %v", i, model, m.Away, m.Gap)
			}
		}
		c.stop()
	})
}

// An engine that stalls for a moment costs its clients that moment and nobody their place, of a host that carries 17: what
// is lost is lost, and the room is as before.
func TestAStallEvictsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *streams.Config) { c.Hosts = c.Hosts[:1] })
		defer g.stop()
		c := g.stream(15, 0.03, nil)
		time.Sleep(10 * time.Second)
		full := g.metric(t, "gearshift_stream_clients", `place="served"`)
		before := g.metric(t, "gearshift_stream_evictions_total", "")
		for range 6 {
			g.engines[0].stall.Store(400)
			time.Sleep(3 * time.Second)
		}
		if n := g.metric(t, "gearshift_stream_evictions_total", "") - before; n > 0 {
			t.Errorf("%v of %v clients were evicted by six stalls of 400 ms", n, full)
		}
		if n := g.metric(t, "gearshift_stream_clients", `place="served"`); n < full {
			t.Errorf("%v are served in the end, %v before", n, full)
		}
		c.stop()
	})
}

// raw is a client that says anything.
type raw struct {
	t    *testing.T
	conn rawConn
	mu   sync.Mutex
	got  []streams.Down
	end  chan error
}

func (g *rig) raw(t *testing.T) *raw {
	t.Helper()
	conn := g.dial(t)
	x := &raw{t: t, conn: conn, end: make(chan error, 1)}
	go func() {
		for {
			_, text, err := conn.Read(context.Background())
			if err != nil {
				x.end <- err
				return
			}
			var d streams.Down
			if err := json.Unmarshal(text, &d); err != nil {
				t.Error(err)
			}
			x.mu.Lock()
			x.got = append(x.got, d)
			x.mu.Unlock()
		}
	}()
	return x
}

// text and frame send something, which may find the connection closed.
func (x *raw) text(s string) {
	_ = x.conn.Write(context.Background(), websocket.MessageText, []byte(s))
}
func (x *raw) frame(n int, picture []byte) {
	_ = x.conn.Write(context.Background(), websocket.MessageBinary, append(streams.AppendHeader(nil, n, 0), picture...))
}

// last returns the last message of a type, once things have settled.
func (x *raw) last(kind string) (d streams.Down) {
	time.Sleep(time.Second)
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, o := range x.got {
		if o.Type == kind {
			d = o
		}
	}
	return d
}

// What ends a session is said in one clear error, and what does not costs that frame alone. Another client is served
// as if nothing happened.
func TestFaultsAreOfTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		other := g.stream(1, 0.06, nil)
		good := picture(32, 16)
		hello := func(x *raw) { x.text(`{"type":"hello","sla":0.06,"fps":60,"frame":600}`) }
		// next is a frame of the schedule, once it is due.
		next := func(x *raw) int {
			hello(x)
			d := x.last(streams.KindSchedule)
			if len(d.Frames) == 0 {
				t.Fatal("there is no schedule")
			}
			return d.Frames[0].Frame
		}
		for name, c := range map[string]struct {
			do   func(x *raw)
			code string
			says string
			ends websocket.StatusCode
		}{
			"no JSON":         {func(x *raw) { x.text("{") }, "invalid_message", "no JSON", websocket.StatusPolicyViolation},
			"no hello":        {func(x *raw) { x.text(`{"type":"report","drop_rate":0.1}`) }, "invalid_message", "the first message", websocket.StatusPolicyViolation},
			"an unknown type": {func(x *raw) { x.text(`{"type":"bye"}`) }, "invalid_message", `type "bye"; want hello or report`, websocket.StatusPolicyViolation},
			"an SLA too high": {func(x *raw) { x.text(`{"type":"hello","sla":7}`) }, "invalid_message", "sla: 7", websocket.StatusPolicyViolation},
			"another rate":    {func(x *raw) { x.text(`{"type":"hello","fps":30}`) }, "invalid_message", "fps: 30; streams here have 60", websocket.StatusPolicyViolation},
			"an unknown task": {func(x *raw) { x.text(`{"type":"hello","task":"depth"}`) }, "invalid_message", `"depth" has no streams; want boxes`, websocket.StatusPolicyViolation},
			"a slow network":  {func(x *raw) { x.text(`{"type":"hello","network_ms":900}`) }, "invalid_message", "network_ms: 900", websocket.StatusPolicyViolation},
			"a long message":  {func(x *raw) { x.text(strings.Repeat(" ", 5000)) }, "too_large", "more than 4096 bytes", websocket.StatusMessageTooBig},
			"a flood": {func(x *raw) {
				hello(x)
				for range 30 {
					x.text(`{"type":"report"}`)
				}
			}, "too_many_messages", "more than 20 messages", websocket.StatusPolicyViolation},
			"a flood of frames": {func(x *raw) {
				hello(x)
				for range 300 {
					x.frame(601, nil)
					time.Sleep(time.Millisecond)
				}
			}, "too_many_frames", "more than 240 frames", websocket.StatusPolicyViolation},
			"a large frame":      {func(x *raw) { hello(x); x.frame(601, make([]byte, 40<<10)) }, "too_large", "serving.streams.max_frame", websocket.StatusMessageTooBig},
			"no frame at all":    {func(x *raw) { hello(x); _ = x.conn.Write(context.Background(), websocket.MessageBinary, []byte("x")) }, "invalid_frame", "a frame of 1 bytes", 0},
			"garbage":            {func(x *raw) { x.frame(next(x), []byte("garbage")) }, "invalid_frame", "is no JPEG", 0},
			"half a frame":       {func(x *raw) { x.frame(next(x), good[:len(good)-8]) }, "invalid_frame", "cannot be decoded", 0},
			"many passes":        {func(x *raw) { x.frame(next(x), progressive(good)) }, "invalid_frame", "is no baseline JPEG", 0},
			"another size":       {func(x *raw) { x.frame(next(x), picture(64, 64)) }, "invalid_frame", "64 × 64 pixels; want 32 × 16", 0},
			"before its hello":   {func(x *raw) { x.frame(1, good) }, "not_served", "is not served", 0},
			"of the future":      {func(x *raw) { x.frame(next(x)+1000, good) }, "early_frame", "is of the future", 0},
			"from long ago":      {func(x *raw) { n := next(x); time.Sleep(time.Second); x.frame(n, good) }, "late_frame", "say hello again", 0},
			"twice":              {func(x *raw) { n := next(x); x.frame(n, good); time.Sleep(time.Millisecond); x.frame(n, good) }, "stale_frame", "the newest counts", 0},
			"a number too large": {func(x *raw) { hello(x); x.frame(1<<50, good) }, "invalid_frame", "want a number up to", 0},
		} {
			x := g.raw(t)
			c.do(x)
			if d := x.last(streams.KindError); d.Code != c.code || !strings.Contains(d.Message, c.says) {
				t.Errorf("%s: %q %q; want %s, %s", name, d.Code, d.Message, c.code, c.says)
			}
			if c.ends == 0 {
				_ = x.conn.CloseNow()
			}
			if err := <-x.end; c.ends != 0 && !overWebTransport && websocket.CloseStatus(err) != c.ends {
				t.Errorf("%s: ends with %v; want %v", name, err, c.ends)
			}
		}
		m := other.list[0].Measured()
		if len(m.Errors) > 0 || m.Late > m.Results/20 || m.Results < 200 {
			t.Errorf("the other client has %d results, %d late, errors %v", m.Results, m.Late, m.Errors)
		}
		other.stop()
		time.Sleep(time.Second)
		g.released(t)
	})
}

// Pings count as messages do.
func TestAFloodOfPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		x := g.raw(t)
		x.text(`{"type":"hello"}`)
		n := 0
		answered, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		for n < 100 && x.conn.(*websocket.Conn).Ping(answered) == nil {
			n++
		}
		if n < 15 || n > 20 {
			t.Errorf("%d pings are answered in a second; want 19 beside the hello", n)
		}
		<-x.end
		time.Sleep(time.Second)
		g.released(t)
	})
}

// A request that is of no WebSocket is told so, as by all endpoints.
func TestARequestIsNoStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		response, err := g.listener.Client().Get("http://127.0.0.1" + streams.Path)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		var body struct{ Error struct{ Code string } }
		if err := json.NewDecoder(response.Body).Decode(&body); err != nil || response.StatusCode != http.StatusUpgradeRequired || response.Header.Get("Upgrade") != "websocket" || body.Error.Code != "no_websocket" {
			t.Errorf("status %d, %v, %v", response.StatusCode, body, err)
		}
	})
}

// Fragments with nothing in them end a connection, of which nothing else would be seen.
func TestFragmentsOfNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		conn, err := g.listener.Dial(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		go io.Copy(io.Discard, conn)
		_, err = io.WriteString(conn, "GET "+streams.Path+" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x02\x80mask")
		sent := 0
		for some := strings.Repeat("\x00\x80mask", 1000); err == nil && sent < 1<<20; sent += len(some) {
			_, err = io.WriteString(conn, some)
		}
		if err == nil {
			t.Errorf("%d bytes of empty fragments were taken", sent)
		}
	})
}

// A client that is served and sends nothing loses its place; one that says nothing is sent away.
func TestSilentClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		x := g.raw(t)
		x.text(`{"type":"hello","sla":0.06}`)
		if d := x.last(streams.KindPlace); !d.Served {
			t.Errorf("%+v; want a place", d)
		}
		time.Sleep(2 * time.Second)
		if d := x.last(streams.KindPlace); d.Served || d.Why != "no frame has come for 2s" {
			t.Errorf("%+v; want it to have lost its place", d)
		}
		x.text(`{"type":"report"}`)
		if d := x.last(streams.KindPlace); !d.Served {
			t.Errorf("%+v; want a place again", d)
		}
		time.Sleep(time.Minute)
		if d := x.last(streams.KindError); d.Code != "idle" {
			t.Errorf("%+v; want it to be sent away", d)
		}
		<-x.end
		time.Sleep(time.Second)
		g.released(t)
	})
}

// Clients that vanish in the middle of what they do leave nothing behind, and others their places.
func TestClientsThatVanish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		stay := g.stream(4, 0.06, nil)
		for range 5 {
			var some []*raw
			for range 6 {
				x := g.raw(t)
				x.text(`{"type":"hello","sla":0.06,"frame":0}`)
				some = append(some, x)
			}
			time.Sleep(700 * time.Millisecond)
			for _, x := range some {
				x.frame(43, picture(32, 16))
				_ = x.conn.CloseNow()
				<-x.end
			}
		}
		for i, x := range stay.list {
			if m := x.Measured(); m.Served < 3*time.Second || len(m.Errors) > 0 {
				t.Errorf("client %d: served for %v, errors %v", i, m.Served, m.Errors)
			}
		}
		stay.stop()
		time.Sleep(time.Second)
		g.released(t)
	})
}

// More connections than the bound are refused before they are one.
func TestTooManyClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *streams.Config) { c.Clients = 2 })
		defer g.stop()
		first, second := g.raw(t), g.raw(t)
		synctest.Wait()
		_, response, err := websocket.Dial(context.Background(), "http://127.0.0.1"+streams.Path, &websocket.DialOptions{HTTPClient: g.listener.Client()})
		if err == nil || response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
			t.Errorf("%v; want it to be refused", err)
		}
		for _, x := range []*raw{first, second} {
			_ = x.conn.CloseNow()
			<-x.end
		}
	})
}

// A client needs a key where keys are set, and one for the variants that answer frames.
func TestStreamsWantKeys(t *testing.T) {
	var text strings.Builder
	secrets := map[string]string{}
	for name, models := range map[string][]string{"all": nil, "frames": {"detector"}, "other": {"small"}} {
		k, secret, err := access.NewKey(name, access.Limits{}, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		secrets[name], k.Grants.Models = secret, models
		text.Write(k.Line())
	}
	file := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		g := keyedRig(t, file)
		defer g.stop()
		for _, c := range []struct {
			secret string
			status int
			code   string
		}{{"", 401, "invalid_api_key"}, {"sk-wrong", 401, "invalid_api_key"}, {secrets["other"], 403, "model_not_allowed"}, {secrets["frames"], 101, ""}, {secrets["all"], 101, ""}} {
			h := http.Header{}
			if c.secret != "" {
				h.Set("Authorization", "Bearer "+c.secret)
			}
			conn, response, err := websocket.Dial(context.Background(), "http://127.0.0.1"+streams.Path, &websocket.DialOptions{HTTPClient: g.listener.Client(), HTTPHeader: h})
			if response == nil || response.StatusCode != c.status {
				t.Errorf("%q: %v; want status %d", c.secret, err, c.status)
				continue
			}
			if err == nil {
				_ = conn.CloseNow()
				continue
			}
			if body, _ := io.ReadAll(response.Body); !strings.Contains(string(body), c.code) {
				t.Errorf("%q: %s; want %s", c.secret, body, c.code)
			}
		}
	})
}

// first takes the first variant.
type first struct{}

func (first) Name() string                                      { return "first" }
func (first) Scratch() int                                      { return 0 }
func (first) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }

// An idle connection takes little memory, since a frame's is taken as it comes.
func TestIdleConnectionsAreSmall(t *testing.T) {
	g := newRig(t)
	defer g.stop()
	const n = 300
	used := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapInuse + m.StackInuse)
	}
	before := used()
	var list []*websocket.Conn
	for range n {
		conn, _, err := websocket.Dial(context.Background(), "http://127.0.0.1"+streams.Path, &websocket.DialOptions{HTTPClient: g.listener.Client()})
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, conn)
	}
	// The client's end is counted too.
	each := (used() - before) / n / 1024
	t.Logf("%.0f KiB for each connection, both ends", each)
	if each > 100 {
		t.Errorf("%.0f KiB for each idle connection, both ends; want 100 at most", each)
	}
	if u := g.Batches().Buffers().Usage(); u.Held != 0 {
		t.Errorf("%d bytes are held for clients that have sent nothing", u.Held)
	}
	for _, conn := range list {
		_ = conn.CloseNow()
	}
}

// Clients whose frames come ever later, as their network has it or as they like, do not delay the others' batches.
func TestClientsThatComeEverLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *streams.Config) { c.Hosts = c.Hosts[:1] })
		defer g.stop()
		others := g.stream(6, 0.06, nil)
		time.Sleep(time.Second)
		var liars []*raw
		for range 3 {
			x := g.raw(t)
			x.text(`{"type":"hello","sla":0.06,"frame":0}`)
			liars = append(liars, x)
		}
		picture := picture(32, 16)
		done := make(chan struct{})
		time.AfterFunc(8*time.Second, func() { close(done) })
		for k := 0; ; k++ {
			select {
			case <-done:
			case <-time.After(50 * time.Millisecond):
				for _, x := range liars {
					x.mu.Lock()
					for i := len(x.got) - 1; i >= 0; i-- {
						if d := x.got[i]; d.Type == streams.KindSchedule && len(d.Frames) > 0 {
							lag := k % 28 // frames
							x.frame(max(1, d.Frames[0].Frame-lag), picture)
							break
						}
					}
					x.mu.Unlock()
				}
				continue
			}
			break
		}
		for i, x := range others.list {
			m := x.Measured()
			if stride := float64(m.Strides) / float64(m.Tracked); m.Served < 7*time.Second || 0.006*(stride-2.5) > 0.06 || m.Late > m.Results/10 || m.Gap > time.Second {
				t.Errorf("client %d: served for %v with strides of %v, longest gap %v, %d of %d late; why: %q", i, m.Served, stride, m.Gap, m.Late, m.Results, m.Why)
			}
		}
		for _, x := range liars {
			_ = x.conn.CloseNow()
			<-x.end
		}
		others.stop()
		time.Sleep(time.Second)
		g.released(t)
	})
}

// Clients that send by intervals of their own are served by either rule of admission, and keep their SLAs.
func TestClientsOfAlpha(t *testing.T) {
	for _, verified := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, func(c *streams.Config) { c.Policy, c.Verified = offload.Alpha, verified })
			defer g.stop()
			c := g.stream(8, 0.06, nil)
			time.Sleep(10 * time.Second)
			served := 0.0
			for i, x := range c.list {
				m := x.Measured()
				if served += m.Served.Seconds() / 10; len(m.Errors) > 0 {
					t.Errorf("verified %v: client %d: errors %v", verified, i, m.Errors)
				}
				if stride := float64(m.Strides) / float64(m.Tracked); m.Tracked > 0 && 0.006*(stride-2.5) > 0.06 {
					t.Errorf("verified %v: client %d has strides of %v", verified, i, stride)
				}
			}
			if served < 5 {
				t.Errorf("verified %v: %.1f of 8 clients served in the mean", verified, served)
			}
			c.stop()
			time.Sleep(time.Second)
			g.released(t)
		})
	}
}
