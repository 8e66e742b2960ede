package streams

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// Scene holds what a client streams, and its tracker.
type Scene interface {
	// Frame returns a frame as a JPEG. It is called in the order of their numbers.
	Frame(number int) []byte
	// Track takes in the result of a frame, which is tracked from now on, and returns the accuracy that the tracker of the
	// result before, of the frame tracked, had lost on it; negative if that is not known.
	Track(result *Down, tracked int) (drop float64)
}

// Client streams a scene.
type Client struct {
	// URL is that of the router, as ws://127.0.0.1:8080 or with http, and Key an API key, if it wants one.
	URL, Key string
	HTTP     *http.Client // nil is the usual one
	// SLA is the accuracy that it may lose, FPS its frames in a second, and Task that of the results; empty is the router's.
	SLA, FPS float64
	Task     string
	// DropRate is what it loses with each frame until it has measured that.
	DropRate float64
	Scene    Scene
	// Heard, if not nil, hears what the router says. It must not wait.
	Heard func(d *Down)

	mu       sync.Mutex // protects all below
	begun    time.Time
	schedule []Due
	changed  chan struct{}
	tracked  int // the frame whose result is tracked; −1: none
	counted  int // the newest frame whose stride is counted
	sent     int // the newest frame that was sent; −1: none
	rate     float64
	network  float64 // ms
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
}

// The weight of one result in what a client estimates, and how often it reports that.
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
		m.Served += time.Since(c.since)
	}
	m.EndToEnd = slices.Clone(m.EndToEnd)
	return m
}

// Run streams until the context ends, which is no error, or the connection does.
func (c *Client) Run(ctx context.Context) error {
	h := http.Header{}
	if c.Key != "" {
		h.Set("Authorization", "Bearer "+c.Key)
	}
	conn, _, err := websocket.Dial(ctx, c.URL+Path, &websocket.DialOptions{HTTPHeader: h, HTTPClient: c.HTTP})
	if err != nil {
		return fmt.Errorf("cannot stream to %s: %w", c.URL, err)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(16 << 20)
	c.mu.Lock()
	c.begun, c.changed, c.tracked, c.sent, c.rate = time.Now(), make(chan struct{}, 1), -1, -1, c.DropRate
	c.measured.Errors = map[string]int{}
	c.mu.Unlock()
	if err := c.say(ctx, conn, &Up{Type: KindHello, SLA: c.SLA, FPS: c.FPS, Task: c.Task, DropRate: c.DropRate}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sender sync.WaitGroup
	sender.Go(func() { cancel(c.send(ctx, conn)) })
	defer sender.Wait()
	defer cancel(nil)
	for {
		_, text, err := conn.Read(ctx)
		if err != nil {
			if context.Cause(ctx) == nil || ctx.Err() == nil {
				return fmt.Errorf("the stream has ended: %w", err)
			}
			if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) && !errors.Is(cause, context.DeadlineExceeded) {
				return cause
			}
			_ = conn.Close(websocket.StatusNormalClosure, "")
			return nil
		}
		var d Down
		if err := json.Unmarshal(text, &d); err != nil {
			return fmt.Errorf("the router said what is no JSON: %w", err)
		}
		c.hear(&d)
	}
}

func (c *Client) say(ctx context.Context, conn *websocket.Conn, u *Up) error {
	text, err := json.Marshal(u)
	if err == nil {
		err = conn.Write(ctx, websocket.MessageText, text)
	}
	return err
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
		if d.Served && c.host != "" && c.host != d.Host {
			m.Moves++
		}
		c.host = cmp.Or(d.Host, c.host)
		if m.Why, m.Host = d.Why, d.Host; d.Served && c.since.IsZero() {
			if c.since = now; !c.lost.IsZero() {
				m.Away, c.lost = max(m.Away, now.Sub(c.lost)), time.Time{}
			}
		} else if !d.Served && !c.since.IsZero() {
			m.Served += now.Sub(c.since)
			c.lost = now
			c.count(now)
			c.since, c.schedule, c.tracked = time.Time{}, nil, -1
		}
	case KindSchedule:
		c.schedule = d.Frames
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

// result takes in a result.
func (c *Client) result(d *Down, now time.Time) {
	m := &c.measured
	m.Results++
	if !c.heard.IsZero() {
		m.Gap = max(m.Gap, now.Sub(c.heard))
	}
	c.heard = now
	if d.LateMS > 1000/c.FPS {
		m.Late++
	}
	took := now.Sub(c.begun) - time.Duration(d.Captured)*time.Microsecond
	m.EndToEnd = append(m.EndToEnd, took)
	network := max(0, took.Seconds()*1000-d.QueueMS-d.InferenceMS)
	if c.network == 0 {
		c.network = network
	}
	c.network += weight * (network - c.network)
	if d.Frame <= c.tracked {
		return
	}
	c.count(now)
	if c.tracked >= 0 {
		stride := d.Frame - c.tracked
		if drop := c.Scene.Track(d, c.tracked); drop >= 0 {
			c.rate += weight * (drop/float64(stride) - c.rate)
		}
	} else {
		c.Scene.Track(d, d.Frame)
	}
	c.tracked = d.Frame
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
	if n := newest - c.counted; c.tracked >= 0 && n > 0 {
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
	c.measured.Sent++
	return newest, 0
}

// send sends frames by the schedule, and reports what the client has measured.
func (c *Client) send(ctx context.Context, conn *websocket.Conn) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	report := time.NewTicker(reports)
	defer report.Stop()
	for {
		frame, wait := c.next(time.Now())
		if frame >= 0 {
			b := AppendHeader(nil, frame, c.at(frame).Sub(c.begun).Microseconds())
			if err := conn.Write(ctx, websocket.MessageBinary, append(b, c.Scene.Frame(frame)...)); err != nil {
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
			u := Up{Type: KindReport, DropRate: min(c.rate, mostRate), NetworkMS: min(c.network, mostNetworkMS)}
			c.mu.Unlock()
			if err := c.say(ctx, conn, &u); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
