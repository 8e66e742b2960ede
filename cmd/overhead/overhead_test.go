//go:build linux

package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestFrame(t *testing.T) {
	const counted = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"
	const chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	for _, c := range []struct {
		text        string
		head, whole int
	}{
		{"HTTP/1.1 200 OK\r\nContent-Le", 0, 0},
		{counted + "abc", len(counted), 0},
		{counted + "abcde", len(counted), len(counted) + 5},
		{counted + "abcdeHTTP/1.1 200", len(counted), len(counted) + 5},
		{chunked + "10\r\n0123456789abcdef\r\n", len(chunked), 0},
		{chunked + "1\r\na\r\n0\r\n\r\nHTTP", len(chunked), len(chunked) + 11},
		{chunked + "0\r\n\r\n", len(chunked), len(chunked) + 5},
		{"GET / HTTP/1.1\r\nHost: x\r\n\r\n", 27, 27},
	} {
		if head, whole := frame([]byte(c.text)); head != c.head || whole != c.whole {
			t.Errorf("%q: head %d, whole %d; want %d, %d", c.text, head, whole, c.head, c.whole)
		}
	}
}

func TestStampAfter(t *testing.T) {
	const text = "data: @12@\n\ndata: @345@\n\ndata: @6"
	stamp, end := stampAfter([]byte(text), 0)
	if stamp != 12 || text[:end] != "data: @12@" {
		t.Errorf("first %d until %d", stamp, end)
	}
	if stamp, end = stampAfter([]byte(text), end); stamp != 345 || text[end:] != "\n\ndata: @6" {
		t.Errorf("second %d until %d", stamp, end)
	}
	if stamp, end = stampAfter([]byte(text), end); stamp != 0 || end != 0 {
		t.Errorf("half a stamp is %d until %d", stamp, end)
	}
}

// A figure is the median of its rounds, of an even number the mean of the middle two;
// what it adds and how it stands to another are reckoned round by round.
func TestTable(t *testing.T) {
	var list []measurement
	for round, p50 := range [][3]float64{{10, 40, 110}, {10, 20, 30}, {20, 30, 60}, {10, 110, 210}} {
		for i, target := range []string{direct, "nginx", "gearshift"} {
			list = append(list, measurement{Round: round, Target: target, Kind: kindLatency, Bytes: 1 << 10, P50: 1e3 * p50[i]})
		}
	}
	out := tables(t, list...)
	// Added are 30, 10, 10 and 100 µs, and 100, 20, 40 and 200: 3.33, 2, 4 and 2 times.
	for _, want := range []string{
		"| nginx | 20 (10–100) | 1 | – |",
		"| gearshift | 70 (20–200) | 2.67 (2.00–4.00) | – |",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %s in\n%s", want, out)
		}
	}
}

// tables is what is printed of the measurements.
func tables(t *testing.T, list ...measurement) string {
	t.Helper()
	var lines, out strings.Builder
	for _, m := range list {
		if err := json.NewEncoder(&lines).Encode(m); err != nil {
			t.Fatal(err)
		}
	}
	tables := table{cells: map[cell]measurement{}}
	if err := tables.read(strings.NewReader(lines.String())); err != nil {
		t.Fatal(err)
	}
	tables.write(&out)
	return out.String()
}

// testLoop is a loop, and the address of its upstream.
func testLoop(t *testing.T) (*loop, netip.AddrPort) {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(free.Addr().String())
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := newLoop(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l, addr
}

// The clients and the upstream are one thread, and find each other there.
func TestLoop(t *testing.T) {
	l, addr := testLoop(t)
	self := target{name: direct, addr: addr}
	if err := l.answered(t.Context(), self); err != nil {
		t.Fatal(err)
	}
	const short = 50 * time.Millisecond
	plain := self.request(1<<10, false)
	for name, ask := range map[string]func() ([]int64, error){
		"closed": func() ([]int64, error) { return l.closed(t.Context(), addr, plain, 4, short) },
		"open":   func() ([]int64, error) { return l.open(t.Context(), addr, plain, 4, 1000, short) },
	} {
		if taken, err := ask(); err != nil || len(taken) == 0 {
			t.Errorf("%s: %d answers, %v", name, len(taken), err)
		}
	}
	f, err := l.streamed(t.Context(), addr, self.request(1<<10, true), short)
	if err != nil || len(f.first) == 0 || len(f.gaps) != len(f.first)*(streamEvents-1) {
		t.Errorf("%d first events and %d gaps, %v", len(f.first), len(f.gaps), err)
	}
	if len(l.clients) > 0 {
		t.Errorf("%d clients are still there", len(l.clients))
	}
}

// Of requests without an answer it is said whether the proxy has lost them, or the upstream.
func TestUnansweredSaysWhoLostThem(t *testing.T) {
	l, addr := testLoop(t)
	l.within = 50 * time.Millisecond
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	proxy := target{name: "silent", addr: netip.MustParseAddrPort(silent.Addr().String())}
	_, err = l.closed(t.Context(), proxy.addr, proxy.request(64, false), 3, time.Millisecond)
	if want := (unanswered{requests: 3, sent: 3, reached: 0, within: l.within}); err != want {
		t.Errorf("%v, not: %v", err, want)
	}
	o, err := l.newLoad(addr, proxy.request(64, false), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer o.close()
	o.next = func(*client) error { return nil } // as if the answers did not come
	if err := o.begin(); err != nil {
		t.Fatal(err)
	}
	err = o.finish(t.Context(), now())
	if want := (unanswered{requests: 2, sent: 2, reached: 2, within: l.within}); err != want {
		t.Errorf("%v, not: %v", err, want)
	}
}

// What a proxy leaves without an answer is measured again, a few times, and told.
func TestUnansweredIsMeasuredAgain(t *testing.T) {
	l, addr := testLoop(t)
	self := target{name: "portkey", addr: addr}
	p := plan{loop: l, log: io.Discard, patience: time.Second}
	asked := 0
	silentFor := func(times int) way {
		asked = 0
		return func(context.Context, target, int) (measurement, error) {
			if asked++; asked <= times {
				return measurement{}, unanswered{requests: 1}
			}
			return measurement{Target: self.name, Kind: kindLatency, Bytes: 1 << 10, Requests: 7}, nil
		}
	}
	m, err := p.undisturbed(t.Context(), self, 1<<10, silentFor(2))
	if err != nil || m.Requests != 7 || m.Lost != 2 || m.Tries != 1 {
		t.Errorf("%+v, %v", m, err)
	}
	if _, err := p.undisturbed(t.Context(), self, 1<<10, silentFor(99)); err == nil || asked != 1+mostLost {
		t.Errorf("asked %d times: %v", asked, err)
	}
	out := tables(t, m)
	if want := "- portkey left requests without an answer for 5s in 2 measurements, which were taken again\n"; !strings.Contains(out, want) {
		t.Errorf("no %s in\n%s", want, out)
	}
}

// The share of a target's most answers is of what was measured right before, and of its own.
func TestSteadyFollowsItsOwnThroughput(t *testing.T) {
	l, addr := testLoop(t)
	var out strings.Builder
	p := plan{
		loop: l, targets: []target{{name: "nginx", addr: addr}, {name: "portkey", addr: addr}, {name: "gearshift", addr: addr}},
		duration: 50 * time.Millisecond, out: json.NewEncoder(&out), log: io.Discard, open: []string{"nginx", "gearshift"},
	}
	idle := func(context.Context, target, int) (measurement, error) { return measurement{}, nil }
	if err := p.each(t.Context(), 64, p.throughput, p.steady); err != nil {
		t.Fatal(err)
	}
	if err := p.each(t.Context(), 64, idle, p.steady); err != nil { // without a rate there is no share of it
		t.Fatal(err)
	}
	var got []string
	for d := json.NewDecoder(strings.NewReader(out.String())); d.More(); {
		var m measurement
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		got = append(got, m.Target+" "+m.Kind)
	}
	if want := []string{"nginx throughput", "nginx open", "portkey throughput", "gearshift throughput", "gearshift open"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}
