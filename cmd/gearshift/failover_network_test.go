package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// network is how the router and the engines of hosts reach each other. A host that is cut off hears
// nothing, and nothing is heard of it; what is sent meanwhile is not refused.
type network interface {
	name() string
	// engine is where the host's engine is to listen, reach the URL by which the router reaches it,
	// and lead has that lead to where it listens indeed.
	engine(host int) string
	reach(host int) string
	lead(host int, listens string)
	// admin is where the router's admin listener listens, and the URL by which the host reaches it.
	admin(host int, port string) (listens, url string)
	// prefix comes before the command of the host's engine.
	prefix(host int) []string
	cut(host int)
	heal(host int)
}

// newNetwork is one of namespaces, where they can be made and are wanted, and of proxies elsewhere.
func newNetwork(t *testing.T, hosts int, namespaces bool) network {
	t.Helper()
	if namespaces {
		n := &spaces{t: t}
		if err := n.make(hosts); err == nil {
			return n
		} else {
			t.Logf("no network namespaces: %v; links are dropped by proxies that stop forwarding, and a killed process breaks connections through its proxy instead of refusing them", err)
		}
	}
	return newProxies(t, hosts)
}

// spaces is a network namespace for each host, with an interface of its own.
type spaces struct {
	t *testing.T
}

func (n *spaces) name() string { return "network namespaces" }

func (n *spaces) space(host int) string { return fmt.Sprintf("gearshift-%d-%d", os.Getpid(), host) }

func (n *spaces) device(host int) string { return fmt.Sprintf("gs%d-%d", os.Getpid(), host) }

func (n *spaces) address(host, end int) string {
	return fmt.Sprintf("10.%d.%d.%d", 64+os.Getpid()%128, host+1, end)
}

// removeStale removes the namespaces of runs that were cut off.
func (n *spaces) removeStale() {
	list, err := filepath.Glob("/run/netns/gearshift-*-*")
	if err != nil {
		return
	}
	for _, path := range list {
		space := filepath.Base(path)
		if _, err := os.Stat("/proc/" + strings.Split(space, "-")[1]); err != nil {
			_ = ip("netns", "del", space)
		}
	}
}

func (n *spaces) make(hosts int) error {
	n.removeStale()
	for h := range hosts {
		space := n.space(h)
		n.t.Cleanup(func() { _ = ip("netns", "del", space) })
		for _, args := range []string{
			"netns add " + space,
			"link add " + n.device(h) + " type veth peer name eth0 netns " + space,
			"addr add " + n.address(h, 1) + "/30 dev " + n.device(h),
			"link set " + n.device(h) + " up",
			"-n " + space + " addr add " + n.address(h, 2) + "/30 dev eth0",
			"-n " + space + " link set lo up",
			"-n " + space + " link set eth0 up",
		} {
			if err := ip(strings.Fields(args)...); err != nil {
				return err
			}
		}
	}
	return nil
}

// ip is the command of iproute2.
func ip(args ...string) error {
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

func (n *spaces) engine(host int) string { return n.address(host, 2) + ":9001" }

func (n *spaces) reach(host int) string { return "http://" + n.engine(host) }

func (n *spaces) lead(int, string) {}

func (n *spaces) admin(host int, port string) (listens, url string) {
	return "0.0.0.0:" + port, "http://" + n.address(host, 1) + ":" + port
}

func (n *spaces) prefix(host int) []string { return []string{"ip", "netns", "exec", n.space(host)} }

func (n *spaces) cut(host int) { n.set(host, "down") }

func (n *spaces) heal(host int) { n.set(host, "up") }

func (n *spaces) set(host int, to string) {
	if err := ip("-n", n.space(host), "link", "set", "eth0", to); err != nil {
		n.t.Error(err)
	}
}

// proxies stand between the router and each host, one each way.
type proxies struct {
	t    *testing.T
	to   []*proxy // the engines
	from []*proxy // the admin listener
}

func newProxies(t *testing.T, hosts int) *proxies {
	p := &proxies{t: t}
	for range hosts {
		p.to, p.from = append(p.to, newProxy(t)), append(p.from, newProxy(t))
	}
	return p
}

func (p *proxies) name() string { return "proxies" }

func (p *proxies) engine(int) string { return "127.0.0.1:0" }

func (p *proxies) reach(host int) string { return "http://" + p.to[host].Addr().String() }

func (p *proxies) lead(host int, listens string) { p.to[host].lead(listens) }

func (p *proxies) admin(host int, port string) (listens, url string) {
	p.from[host].lead("127.0.0.1:" + port)
	return "127.0.0.1:" + port, "http://" + p.from[host].Addr().String()
}

func (p *proxies) prefix(int) []string { return nil }

func (p *proxies) cut(host int) {
	p.to[host].hold(true)
	p.from[host].hold(true)
}

func (p *proxies) heal(host int) {
	p.to[host].hold(false)
	p.from[host].hold(false)
}

// proxy forwards connections, unless it holds them.
type proxy struct {
	net.Listener
	mu      sync.Mutex // protects what follows
	change  *sync.Cond
	target  string
	holding bool
}

func newProxy(t *testing.T) *proxy {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l}
	p.change = sync.NewCond(&p.mu)
	t.Cleanup(func() {
		p.hold(false)
		_ = l.Close()
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go p.forward(c)
		}
	}()
	return p
}

// lead has connections go there from now on.
func (p *proxy) lead(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
}

func (p *proxy) hold(yes bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holding = yes
	p.change.Broadcast()
}

// pass waits while the proxy holds, and returns where connections go.
func (p *proxy) pass() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.holding {
		p.change.Wait()
	}
	return p.target
}

func (p *proxy) forward(client net.Conn) {
	defer func() { _ = client.Close() }()
	server, err := net.DialTimeout("tcp", p.pass(), time.Second)
	if err != nil {
		_ = client.(*net.TCPConn).SetLinger(0) // a reset
		return
	}
	defer func() { _ = server.Close() }()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{client, server}, {server, client}} {
		both.Go(func() {
			_, _ = io.Copy(&held{p, way[1]}, way[0])
			_ = way[1].(*net.TCPConn).CloseWrite()
			_ = way[0].(*net.TCPConn).CloseRead()
		})
	}
	both.Wait()
}

// held writes when the proxy passes.
type held struct {
	p *proxy
	net.Conn
}

func (h *held) Write(b []byte) (int, error) {
	h.p.pass()
	return h.Conn.Write(b)
}
