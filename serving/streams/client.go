package streams

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/quic-go/quic-go"
	"golang.org/x/sync/errgroup"
)

// Scene holds what a client streams, and its tracker.
type Scene interface {
	// Frame returns a frame as a JPEG. It is called in the order of their numbers.
	Frame(number int) []byte
	// Track takes in a result, which the client has from the frame ready on, or nil where it is not served any more from
	// there on. It returns the accuracy that the tracker is found to lose with each frame; negative if that is not known.
	// A server for the client alone would have a result after r.First frames, every r.Every frames. Results come
	// in the order of their frames; Frame may be called meanwhile.
	Track(result *Down, ready int, r Reference) (rate float64)
}

// Reference is the setup to which an SLA relates: batches of one, as often as those take, on a server for the client alone.
type Reference struct{ First, Every int }

// Client streams a scene.
type Client struct {
	// URL is that of the router, as ws://127.0.0.1:8080 or with http, and Key an API key, if it wants one.
	URL, Key string
	HTTP     *http.Client // nil is the usual one
	// WebTransport has it stream over that instead of a WebSocket, and Dial, if not nil, how it connects then.
	WebTransport bool
	Dial         func(ctx context.Context, addr string, t *tls.Config, q *quic.Config) (*quic.Conn, error)
	// SLA is the accuracy that it may lose, FPS its frames in a second, and Task that of the results; empty is the router's.
	SLA, FPS float64
	Task     string
	// DropRate is what it loses with each frame until it has measured that.
	DropRate float64
	Scene    Scene
	// Link delays what is sent and received; nil does not.
	Link Link
	// Warmup sets what is not measured, from the begin of Run on.
	Warmup time.Duration
	// Heard, if not nil, hears what the router says. It must not wait.
	Heard func(d *Down)

	rate atomic.Uint64 // the bits of what its tracker is found to lose

	mu       sync.Mutex // protects all below
	begun    time.Time
	schedule []Due
	number   int // of the message that the schedule is from, or of word of its place
	changed  chan struct{}
	tracked  int     // the frame whose result is tracked; −1: none
	counted  int     // the newest frame whose stride is counted
	sent     int     // the newest frame that was sent; −1: none
	network  float64 // ms
	alone    float64 // ms that a batch of one takes
	tracks   chan track
	measured Measured
	since    time.Time // served
	heard    time.Time // of the last result
	host     string    // that served it last
	lost     time.Time // its place
}

// Measured holds what a client has measured.
type Measured struct {
	Served   time.Duration // in all
	Sent     int
	Results  int
	Late     int             // results of batches that began more than a frame interval later than planned
	EndToEnd []time.Duration // from the capture of a frame to its result
	Gap      time.Duration   // the longest between two results
	Moves    int             // from one host to another
	Away     time.Duration   // the longest that it was without a place, after it had one
	Strides  int             // of all frames that were tracked, summed
	Tracked  int             // how many they were
	Errors   map[string]int  // by code
	Why      string          // it is not served
	Host     string          // that serves it
	DropRate float64         // that its tracker is found to have
	Network  float64         // ms that a frame to the router and its result back take
}

// track is a result that is to be tracked.
type track struct {
	*Down
	ready int
	Reference
}

// The weight of one result in the time that the network is taken to take, and how often a client reports what it has
// estimated.
const (
	weight  = 0.25
	reports = time.Second
)

// Measured returns what the client has measured so far.
func (c *Client) Measured() Measured {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.measured
	if !c.since.IsZero() {
		m.Served += c.counting(c.since, time.Now())
	}
	m.DropRate, m.Network = math.Float64frombits(c.rate.Load()), c.network
	m.EndToEnd = slices.Clone(m.EndToEnd)
	return m
}

// Run streams until the context ends, which is no error, or the connection does.
func (c *Client) Run(ctx context.Context) error {
	conn, err := c.dial(ctx)
	if err != nil {
		return fmt.Errorf("cannot stream to %s: %w", c.URL, err)
	}
	defer conn.close()
	c.rate.Store(math.Float64bits(c.DropRate))
	c.mu.Lock()
	c.begun, c.changed, c.tracked, c.sent = time.Now(), make(chan struct{}, 1), -1, -1
	c.tracks, c.measured.Errors = make(chan track, mostOut), map[string]int{}
	c.mu.Unlock()
	link, up, down := &shared{link: c.Link}, newDelayed(), newDelayed()
	parts, streaming := errgroup.WithContext(ctx)
	write := func(kind websocket.MessageType, b []byte) error {
		return up.add(streaming, link.delay(c.begun, len(b), Link.Up), func() error { return conn.write(streaming, kind, b) })
	}
	parts.Go(func() error { return up.run(streaming) })
	parts.Go(func() error { return down.run(streaming) })
	parts.Go(func() error { return c.send(streaming, write) })
	parts.Go(func() error { return c.follow(streaming) })
	parts.Go(func() error {
		for {
			text, err := conn.next(streaming)
			if err != nil {
				return fmt.Errorf("the stream has ended: %w", err)
			}
			at := link.delay(c.begun, len(text), Link.Down)
			if err := down.add(streaming, at, func() error { return c.read(text) }); err != nil {
				return err
			}
		}
	})
	if err := parts.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// follow has results tracked, apart from what has to be on time.
func (c *Client) follow(ctx context.Context) error {
	for {
		select {
		case x := <-c.tracks:
			if rate := c.Scene.Track(x.Down, x.ready, x.Reference); rate >= 0 {
				c.rate.Store(math.Float64bits(rate))
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// read takes in a message of the router.
func (c *Client) read(text []byte) error {
	var d Down
	if err := json.Unmarshal(text, &d); err != nil {
		return fmt.Errorf("the router said what is no JSON: %w", err)
	}
	c.hear(&d)
	return nil
}

// hear takes in what the router says.
func (c *Client) hear(d *Down) {
	now := time.Now()
	if c.Heard != nil {
		defer c.Heard(d)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &c.measured
	switch d.Type {
	case KindPlace:
		c.number = d.Number
		if d.Served && c.host != "" && c.host != d.Host {
			m.Moves++
		}
		c.host, c.alone = cmp.Or(d.Host, c.host), cmp.Or(d.AloneMS, c.alone)
		if m.Why, m.Host = d.Why, d.Host; d.Served && c.since.IsZero() {
			if c.since = now; !c.lost.IsZero() {
				m.Away, c.lost = max(m.Away, now.Sub(c.lost)), time.Time{}
			}
		} else if !d.Served && !c.since.IsZero() {
			m.Served += c.counting(c.since, now)
			c.lost = now
			c.count(now)
			c.track(nil, now)
			c.since, c.schedule, c.tracked = time.Time{}, nil, -1
		}
	case KindSchedule:
		if d.Number < c.number {
			return // a later one has come, or word of its place
		}
		c.number, c.schedule = d.Number, d.Frames
		select {
		case c.changed <- struct{}{}:
		default:
		}
	case KindError:
		m.Errors[d.Code]++
	case KindResult:
		c.result(d, now)
	}
}

// counting returns the part of a time that is measured.
func (c *Client) counting(from, to time.Time) time.Duration {
	if begin := c.begun.Add(c.Warmup); from.Before(begin) {
		from = begin
	}
	return max(0, to.Sub(from))
}

// result takes in a result.
func (c *Client) result(d *Down, now time.Time) {
	took := now.Sub(c.begun) - time.Duration(d.Captured)*time.Microsecond
	if m := &c.measured; c.counting(c.begun, now) > 0 {
		m.Results++
		m.EndToEnd = append(m.EndToEnd, took)
		if !c.heard.IsZero() {
			m.Gap = max(m.Gap, now.Sub(c.heard))
		}
		if d.LateMS > 1000/c.FPS {
			m.Late++
		}
	}
	c.heard = now
	network := max(0, took.Seconds()*1000-d.QueueMS-d.InferenceMS)
	if c.network == 0 {
		c.network = network
	}
	c.network += weight * (network - c.network)
	if d.Frame > c.tracked && !c.since.IsZero() { // what comes after its place is gone does not count
		c.count(now)
		c.track(d, now)
		c.tracked = d.Frame
	}
}

// track has a result tracked that has come.
func (c *Client) track(d *Down, now time.Time) {
	frames := func(ms float64) int { return int(math.Ceil(ms*c.FPS/1000 - 1e-6)) }
	c.tracks <- track{d, c.newest(now) + 1, Reference{frames(c.network + c.alone), max(1, frames(c.alone))}}
}

// at returns when the client has a frame.
func (c *Client) at(frame int) time.Time {
	return c.begun.Add(time.Duration(float64(frame) / c.FPS * float64(time.Second)))
}

// newest returns the newest frame that it has.
func (c *Client) newest(now time.Time) int { return int(now.Sub(c.begun).Seconds()*c.FPS + 1e-6) }

// count counts the strides of the frames until now.
func (c *Client) count(now time.Time) {
	newest := c.newest(now)
	if n := newest - c.counted; c.tracked >= 0 && n > 0 && c.counting(c.begun, now) > 0 {
		c.measured.Strides += n*(c.counted+1-c.tracked) + n*(n-1)/2
		c.measured.Tracked += n
	}
	c.counted = newest
}

// next takes the next frame of the schedule, once it is captured, and else returns how long that takes. Of those that
// are past the newest will do.
func (c *Client) next(now time.Time) (frame int, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	newest := c.newest(now)
	c.schedule = slices.DeleteFunc(c.schedule, func(d Due) bool { return d.Frame <= c.sent })
	k := 0
	for k < len(c.schedule) && c.schedule[k].Frame <= newest {
		k++
	}
	if k == 0 {
		if len(c.schedule) == 0 {
			return -1, time.Hour
		}
		return -1, c.at(c.schedule[0].Frame).Sub(now)
	}
	c.schedule = c.schedule[k:]
	c.sent = newest
	if c.counting(c.begun, now) > 0 {
		c.measured.Sent++
	}
	return newest, 0
}

// send sends frames by the schedule, and reports what the client has measured.
func (c *Client) send(ctx context.Context, write func(websocket.MessageType, []byte) error) error {
	say := func(u *Up) error {
		text, err := json.Marshal(u)
		if err == nil {
			err = write(websocket.MessageText, text)
		}
		return err
	}
	if err := say(&Up{Type: KindHello, SLA: c.SLA, FPS: c.FPS, Task: c.Task, DropRate: c.DropRate}); err != nil {
		return err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	report := time.NewTicker(reports)
	defer report.Stop()
	for {
		frame, wait := c.next(time.Now())
		if frame >= 0 {
			b := AppendHeader(nil, frame, c.at(frame).Sub(c.begun).Microseconds())
			if err := write(websocket.MessageBinary, append(b, c.Scene.Frame(frame)...)); err != nil {
				return err
			}
			continue
		}
		timer.Reset(max(leastWait, wait))
		select {
		case <-timer.C:
		case <-c.changed:
		case <-report.C:
			c.mu.Lock()
			c.count(time.Now())
			u := Up{Type: KindReport, DropRate: min(math.Float64frombits(c.rate.Load()), mostRate), NetworkMS: min(c.network, mostNetworkMS)}
			c.mu.Unlock()
			if err := say(&u); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
