package backend

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// leads is a connection in memory that leads to an address.
type leads struct {
	net.Conn
	to netip.Addr
}

func (l leads) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.AddrPortFrom(l.to, 80)) }

// named is an upstream whose name has one address at a time. Each of these answers with itself.
type named struct {
	*Upstream
	at      atomic.Pointer[netip.Addr]
	unknown atomic.Bool // lookups fail
	dialled atomic.Int64
}

func newNamed(t *testing.T) *named {
	u, err := NewUpstream(UpstreamConfig{URL: "http://engine.example"})
	if err != nil {
		t.Fatal(err)
	}
	n := &named{Upstream: u}
	n.move("10.0.0.1")
	u.at.lookup = func(context.Context, string) ([]netip.Addr, error) {
		if n.unknown.Load() {
			return nil, errors.New("no such host")
		}
		return []netip.Addr{*n.at.Load()}, nil
	}
	dial := func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe()
		n.dialled.Add(1)
		at := *n.at.Load()
		go func() {
			defer server.Close()
			for in := bufio.NewReader(server); ; {
				if _, err := hear(in); err != nil {
					return
				}
				_, _ = io.WriteString(server, "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n"+at.String())
			}
		}()
		return leads{client, at}, nil
	}
	u.via.(*plain).dial, u.transport.Load().DialContext = dial, dial
	return n
}

func (n *named) move(to string) {
	at := netip.MustParseAddr(to)
	n.at.Store(&at)
}

// ask returns which address answers a request; large ones take another way than small ones.
func (n *named) ask(t *testing.T, large bool) string {
	t.Helper()
	r := plainRequest(t.Context(), "{}")
	if large {
		r.Header.Set("Expect", "nothing")
	}
	status, _, body, err := whole(n, r)
	if err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v", status, err)
	}
	return body
}

// Kept connections end where the name has another address, which is the one that is probed.
func TestANamesNewAddressIsUsed(t *testing.T) {
	for name, large := range map[string]bool{"small requests": false, "large ones": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNamed(t)
				defer n.Close()
				for range 100 { // ten seconds
					if at := n.ask(t, large); at != "10.0.0.1" {
						t.Fatalf("answered by %s", at)
					}
					time.Sleep(100 * time.Millisecond)
				}
				if dialled := n.dialled.Load(); dialled != 1 {
					t.Errorf("%d connections, want the first one kept", dialled)
				}
				n.unknown.Store(true)
				n.move("10.0.0.2")
				time.Sleep(2 * lookEvery)
				if at := n.ask(t, large); at != "10.0.0.1" {
					t.Errorf("answered by %s: a lookup that fails ends connections that work", at)
				}
				n.unknown.Store(false)
				time.Sleep(lookEvery + lookEvery/10)
				if at := n.ask(t, large); at != "10.0.0.2" {
					t.Errorf("answered by %s, %v after the name moved", at, lookEvery)
				}
			})
		})
	}
}

// A name is looked up only while it is used, and an address never.
func TestNamesAreLookedUpWhileTheyAreUsed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for host, want := range map[string]int64{"engine.example": 1, "10.0.0.1": 0, "::1": 0} {
			var looked atomic.Int64
			a := newAddresses(host)
			a.lookup = func(context.Context, string) ([]netip.Addr, error) {
				looked.Add(1)
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			}
			a.use(time.Now())
			synctest.Wait()
			if n := looked.Load(); n != want {
				t.Errorf("%s: looked up %d times at once, want %d", host, n, want)
			}
			time.Sleep(2 * idleTime)
			n := looked.Load()
			time.Sleep(10 * idleTime)
			if looked.Load() != n {
				t.Errorf("%s: looked up %v after its last use", host, 2*idleTime)
			}
			a.stop()
		}
	})
}
