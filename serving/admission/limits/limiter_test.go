package limits_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"gearshift/serving/admission/limits"
)

// queue is a listener of connections from given addresses.
type queue chan net.Conn

func (q queue) Accept() (net.Conn, error) {
	select {
	case c := <-q:
		return c, nil
	default:
		return nil, net.ErrClosed
	}
}
func (queue) Close() error   { return nil }
func (queue) Addr() net.Addr { return &net.TCPAddr{} }

// from is a connection's end that seems to come from an address.
type from struct {
	net.Conn
	addr string
}

func (c from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.addr)) }

// site is a limiter with a listener.
type site struct {
	t       *testing.T
	queue   queue
	limiter *limits.Limiter
	l       net.Listener
	reasons []string
}

const refusal = "HTTP/1.1 503 full"

func newSite(t *testing.T, c limits.Config) *site {
	s := &site{t: t, queue: make(queue, 1), limiter: limits.New(c, 1<<20, func(addr string) bool { return strings.HasPrefix(addr, "198.51.100.") })}
	s.l = s.limiter.Listener(s.queue, false, []byte(refusal), func(reason string) { s.reasons = append(s.reasons, reason) })
	return s
}

// connect is a connection from the address, as both ends have it; the server's is nil if
// it is refused.
func (s *site) connect(addr string) (client net.Conn, server *limits.Conn) {
	s.t.Helper()
	client, other := net.Pipe()
	s.t.Cleanup(func() { client.Close() })
	s.queue <- from{other, addr}
	answer := make(chan string, 1)
	go func() {
		b := make([]byte, len(refusal))
		n, _ := io.ReadFull(client, b)
		answer <- string(b[:n])
	}()
	c, err := s.l.Accept()
	if err == nil {
		return client, c.(*limits.Conn)
	}
	if !errors.Is(err, net.ErrClosed) {
		s.t.Fatal(err)
	}
	if got := <-answer; got != refusal {
		s.t.Errorf("a refused client reads %q, want %q", got, refusal)
	}
	return client, nil
}

// busy is a connection with a request at work.
func (s *site) busy(addr string) *limits.Conn {
	s.t.Helper()
	_, c := s.connect(addr)
	if c != nil {
		c.Begin()
	}
	return c
}

func TestConnectionsAreBounded(t *testing.T) {
	for name, x := range map[string]struct {
		bounds  limits.Config
		before  []string
		next    string
		refused string
	}{
		"of an address":           {limits.Config{Total: 9, PerAddress: 2}, []string{"192.0.2.1:1", "192.0.2.1:2"}, "192.0.2.1:3", "address"},
		"mapped into IPv6":        {limits.Config{Total: 9, PerAddress: 2}, []string{"192.0.2.1:1", "[::ffff:192.0.2.1]:2"}, "192.0.2.1:3", "address"},
		"of a network of IPv6":    {limits.Config{Total: 9, PerAddress: 2}, []string{"[2001:db8::1]:1", "[2001:db8::2]:1"}, "[2001:db8::ffff:3]:1", "address"},
		"of another network":      {limits.Config{Total: 9, PerAddress: 2}, []string{"[2001:db8::1]:1", "[2001:db8::2]:1"}, "[2001:db8:0:1::1]:1", ""},
		"of another address":      {limits.Config{Total: 9, PerAddress: 2}, []string{"192.0.2.1:1", "192.0.2.1:2"}, "192.0.2.2:1", ""},
		"in all":                  {limits.Config{Total: 2, PerAddress: 2}, []string{"192.0.2.1:1", "192.0.2.2:1"}, "192.0.2.3:1", "total"},
		"this machine is exempt":  {limits.Config{Total: 9, PerAddress: 1}, []string{"127.0.0.1:1", "127.0.0.1:2", "[::1]:1", "[::1]:2"}, "127.0.0.9:3", ""},
		"a proxy is exempt":       {limits.Config{Total: 9, PerAddress: 1}, []string{"198.51.100.1:1"}, "198.51.100.1:2", ""},
		"but not from the total":  {limits.Config{Total: 2, PerAddress: 1}, []string{"127.0.0.1:1", "127.0.0.1:2"}, "127.0.0.1:3", "total"},
		"beyond what was lowered": {limits.Config{Total: 1, PerAddress: 1}, []string{"192.0.2.1:1"}, "192.0.2.1:2", "address"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, x.bounds)
			for _, addr := range x.before {
				if s.busy(addr) == nil {
					t.Fatalf("%s is refused", addr)
				}
			}
			if c := s.busy(x.next); (c == nil) != (x.refused != "") || strings.Join(s.reasons, " ") != x.refused {
				t.Errorf("%s is refused for %q, want %q", x.next, s.reasons, x.refused)
			}
		})
	}
}

func TestWaitingConnectionsMakeWay(t *testing.T) {
	s := newSite(t, limits.Config{Total: 3, PerAddress: 3})
	s.busy("192.0.2.1:1")
	_, idle := s.connect("192.0.2.2:1")
	again := s.busy("192.0.2.3:1")
	again.Idle() // waits since later
	if s.busy("192.0.2.4:1") == nil {
		t.Fatal("refused, though connections wait")
	}
	if !closed(idle) {
		t.Error("the connection that has waited longest is open")
	}
	again.Begin()
	if s.busy("192.0.2.5:1") != nil {
		t.Error("a connection with a request at work made way")
	}
	open, _, counts := s.limiter.Usage()
	if open != 3 || counts != (limits.Counts{Total: 1, Idle: 1}) {
		t.Errorf("%d open, %+v", open, counts)
	}
	again.Close()
	again.Close()
	again.Idle() // as the server says at its end
	if open, _, _ := s.limiter.Usage(); open != 2 {
		t.Errorf("%d open after one was closed twice, want 2", open)
	}
}

// At the bound of an address its own connection that has waited longest makes way, however many
// of others have waited longer.
func TestOwnConnectionsMakeWay(t *testing.T) {
	s := newSite(t, limits.Config{Total: 999, PerAddress: 2})
	for i := range 200 {
		s.connect(fmt.Sprintf("203.0.113.%d:%d", i/2, i))
	}
	_, first := s.connect("192.0.2.1:1")
	_, second := s.connect("192.0.2.1:2")
	for _, idle := range []*limits.Conn{first, second} {
		if s.busy("192.0.2.1:3") == nil || !closed(idle) {
			t.Fatal("an idle connection of the address does not make way")
		}
	}
	if s.busy("192.0.2.1:4") != nil {
		t.Error("a connection with a request at work made way")
	}
	open, _, counts := s.limiter.Usage()
	if open != 202 || s.limiter.Waiting() != 200 || counts != (limits.Counts{Address: 1, Idle: 2}) {
		t.Errorf("%d open, %d waiting, %+v", open, s.limiter.Waiting(), counts)
	}
}

// The one of the address with the most makes way, so that a flood pays for itself.
func TestTheGreedyMakeWay(t *testing.T) {
	s := newSite(t, limits.Config{Total: 4, PerAddress: 4})
	_, modest := s.connect("192.0.2.1:1")
	var flood []*limits.Conn
	for _, addr := range []string{"192.0.2.2:1", "192.0.2.2:2", "192.0.2.2:3", "192.0.2.2:4", "192.0.2.2:5"} {
		_, c := s.connect(addr)
		if c == nil {
			t.Fatalf("%s is refused", addr)
		}
		flood = append(flood, c)
	}
	if !closed(flood[0]) || !closed(flood[1]) || closed(modest) {
		t.Error("the flood's oldest connections are open, or another's was closed")
	}
}

func closed(c *limits.Conn) bool { return c.SetReadDeadline(time.Time{}) != nil }

func TestHeadersHaveABudget(t *testing.T) {
	s := newSite(t, limits.Config{Total: 100, PerAddress: 100}) // 64 KiB for headers
	read := func(n int) (*limits.Conn, error) {
		client, c := s.connect("192.0.2.1:1")
		go func() { _, _ = client.Write(make([]byte, n)) }()
		b := make([]byte, 4<<10)
		var err error
		for got := 0; got < n && err == nil; {
			var m int
			m, err = c.Read(b)
			got += m
		}
		return c, err
	}
	first, err := read(60 << 10)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := read(8 << 10); err != nil {
		t.Errorf("a usual header: %v", err)
	}
	if c, err := read(60 << 10); err == nil {
		t.Error("headers of 120 KiB fit into 64 KiB")
	} else {
		c.Close()
	}
	first.Begin()
	first.Idle()
	if _, err := read(60 << 10); err != nil {
		t.Errorf("after the first request is over: %v", err)
	}
	if _, _, counts := s.limiter.Usage(); counts.Headers != 1 {
		t.Errorf("%+v", counts)
	}
}

// Fields occupy memory beside their text: of short ones most is that.
func TestFieldsCountInTheBudgetOfHeaders(t *testing.T) {
	read := func(s *site, text string) error {
		client, c := s.connect("192.0.2.1:1")
		go func() { _, _ = client.Write([]byte(text)) }()
		b := make([]byte, 4<<10)
		for got := 0; got < len(text); {
			n, err := c.Read(b)
			if err != nil {
				return err
			}
			got += n
		}
		return nil
	}
	config := limits.Config{Total: 100, PerAddress: 100} // 64 KiB for headers
	for name, x := range map[string]struct {
		text string
		fits bool
	}{
		"many fields":          {strings.Repeat("a:\r\n", 2000), false},
		"as much in few":       {"a: " + strings.Repeat("x", 8000) + "\r\n\r\n", true},
		"fields as usual":      {strings.Repeat("x-field: value\r\n", 40) + "\r\n", true},
		"lines of a body":      {"a: b\r\n\r\n" + strings.Repeat("\n", 4000), true},
		"fields that end soon": {strings.Repeat("a:\r\n", 600) + "\r\n", false},
	} {
		s := newSite(t, config)
		if err := read(s, x.text); (err == nil) != x.fits {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What an encrypted header holds is unknown before all of it has come.
func TestEncryptedHeadersHaveABudget(t *testing.T) {
	s := newSite(t, limits.Config{Total: 100, PerAddress: 100}) // 64 KiB for headers
	s.l = s.limiter.Listener(s.queue, true, nil, func(string) {})
	read := func(n int) (*limits.Conn, error) {
		client, c := s.connect("192.0.2.1:1")
		go func() { _, _ = client.Write(make([]byte, n)) }()
		b := make([]byte, 4<<10)
		for got := 0; got < n; {
			m, err := c.Read(b)
			if err != nil {
				return c, err
			}
			got += m
		}
		return c, nil
	}
	for range 20 {
		if _, err := read(8 << 10); err != nil {
			t.Fatalf("a usual header: %v", err)
		}
	}
	if c, err := read(16 << 10); err == nil {
		t.Error("a header that may hold 100 KiB fits into 64 KiB")
	} else {
		c.Close()
	}
	for range 3 { // what it was is known when it has come
		c, err := read(12 << 10)
		if err != nil {
			t.Errorf("after another has come: %v", err)
		}
		c.Begin()
	}
}

// What a connection does not show counts when it has been read.
func TestHeadersThatHaveBeenReadCount(t *testing.T) {
	l := limits.New(limits.Config{Total: 100, PerAddress: 100}, 1<<20, func(string) bool { return false }) // 64 KiB for headers
	usual, many := http.Header{"Accept": {"*/*"}}, http.Header{"A": make([]string, 400)}
	if held, ok := l.Hold(usual); held != 0 || !ok {
		t.Errorf("a usual one: %d, %v", held, ok)
	}
	first, ok := l.Hold(many)
	if first < 40<<10 || !ok {
		t.Errorf("400 fields: %d, %v", first, ok)
	}
	if held, ok := l.Hold(many); held != 0 || ok {
		t.Errorf("400 more: %d, %v", held, ok)
	}
	l.Release(first)
	if _, ok := l.Hold(many); !ok {
		t.Error("no room after the first has ended")
	}
	if _, _, counts := l.Usage(); counts.Headers != 1 {
		t.Errorf("%+v", counts)
	}
}

func TestBoundsByDefault(t *testing.T) {
	for _, x := range []struct {
		config limits.Config
		memory int64
		files  int
		want   limits.Config
	}{
		{limits.Config{}, 1 << 30, 0, limits.Config{Total: 10922, PerAddress: 5461}},
		{limits.Config{}, 1 << 30, 1024, limits.Config{Total: 512, PerAddress: 256}},
		{limits.Config{}, 1, 0, limits.Config{Total: 256, PerAddress: 128}},
		{limits.Config{}, 1 << 50, 0, limits.Config{Total: 65536, PerAddress: 32768}},
		{limits.Config{Total: 10}, 1 << 30, 1024, limits.Config{Total: 10, PerAddress: 5}},
		{limits.Config{Total: 10, PerAddress: 9}, 1 << 30, 0, limits.Config{Total: 10, PerAddress: 9}},
	} {
		if got := x.config.Resolve(x.memory, x.files); got != x.want {
			t.Errorf("%+v of %d bytes and %d files: %+v, want %+v", x.config, x.memory, x.files, got, x.want)
		}
	}
	for key, c := range map[string]limits.Config{
		"connections.total: ":       {Total: -1},
		"connections.per_address: ": {Total: 5, PerAddress: 6},
	} {
		if err := c.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%+v: %v, want a fault of %s", c, err, key)
		}
	}
}
