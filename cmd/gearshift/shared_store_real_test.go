package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"gearshift/internal/etcd/etcdtest"
)

// TestSharedStoreForReal: an etcd, two routers with failover and two engines, in processes of their own, one router in a
// network namespace. That is cut off from etcd, not from the engines, and etcd and the routers are killed, stopped and
// slowed. Both routers answer all the time, no two act at one moment, another acts within 3 s, engines report to it, and
// promotions are refused while etcd is away.
// GEARSHIFT_SHARED_STORE=5 is how often each fault comes.
func TestSharedStoreForReal(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("GEARSHIFT_SHARED_STORE"))
	if rounds == 0 {
		t.Skip("it takes minutes, and root; set GEARSHIFT_SHARED_STORE to a number of rounds, or run make shared-store-real")
	}
	x := newSharedFleet(t)
	for range rounds {
		x.leads(x.cutOff) // its interface goes down: sending fails at once
		x.fault("cut off, link down", x.free, func() { x.space.cut(0) }, x.promotionsAway)
		x.heals(func() { x.space.heal(0) })

		x.leads(x.cutOff) // the other end goes down: what is sent is lost
		x.fault("cut off, silent", x.free, func() { x.otherEnd("down") }, x.promotionsAway)
		x.heals(func() { x.otherEnd("up") })

		x.leads(x.free)
		x.fault("killed", x.cutOff, x.free.die, nil)
		x.free.start()

		x.etcdDies()
		x.etcdHangs()
		x.etcdIsSlow()
	}
	x.report()
}

// sharedFleet is the processes, and what was seen of them.
type sharedFleet struct {
	*testing.T
	space        *spaces
	etcd         *process
	dir          string // of etcd
	hosts        []string
	scenario     string // of the routers, a file
	engines      []*process
	store        [2]string
	cutOff, free *sharedRouter // the one in a namespace, and the other
	watch        *sharedWatch
	policy       string // in production
	took         map[string][]time.Duration
}

// newSharedFleet starts the processes. The namespace has two links: by the first its router reaches etcd, by the second
// this test reaches the router.
func newSharedFleet(t *testing.T) *sharedFleet {
	x := &sharedFleet{T: t, space: &spaces{t: t}, dir: filepath.Join(t.TempDir(), "etcd"), took: map[string][]time.Duration{}}
	if err := x.space.make(1); err != nil {
		t.Skipf("no network namespaces, which need root and iproute2: %v", err)
	}
	second := fmt.Sprintf("10.%d.%d", 64+os.Getpid()%128, 201)
	for _, args := range []string{
		"link add gsw" + strconv.Itoa(os.Getpid()) + " type veth peer name eth1 netns " + x.space.space(0),
		"addr add " + second + ".1/30 dev gsw" + strconv.Itoa(os.Getpid()),
		"link set gsw" + strconv.Itoa(os.Getpid()) + " up",
		"-n " + x.space.space(0) + " addr add " + second + ".2/30 dev eth1",
		"-n " + x.space.space(0) + " link set eth1 up",
	} {
		if err := ip(strings.Fields(args)...); err != nil {
			t.Fatal(err)
		}
	}
	_, port, _ := net.SplitHostPort(freeAddr(t))
	x.store = [2]string{"etcd://" + x.space.address(0, 1) + ":" + port + "/mine", "etcd://127.0.0.1:" + port + "/mine"}
	x.startEtcd()
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	t.Setenv("GEARSHIFT_FLEET_TOKEN", "fleet-"+testToken)
	x.promote("static:small")
	x.scenario = x.served(second + ".1")
	x.cutOff = &sharedRouter{T: t, name: "in a namespace", scenario: x.scenario, store: x.store[0], prefix: x.space.prefix(0), addr: second + ".2:9001", admin: second + ".2:9002"}
	x.free = &sharedRouter{T: t, name: "the other", scenario: x.scenario, store: x.store[1], addr: freeAddr(t), admin: freeAddr(t)}
	x.startEngines()
	x.cutOff.start()
	x.free.start()
	x.watch = watchShared(x.cutOff, x.free)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s\n%s:\n%s\nengines:\n%s\n%s", x.cutOff.name, x.cutOff.p.log, x.free.name, x.free.p.log, x.engines[0].log, x.engines[1].log)
		}
	})
	return x
}

// served writes the scenario of the routers, whose engines listen at the address.
func (x *sharedFleet) served(address string) string {
	text, err := os.ReadFile("testdata/two-sizes.yaml")
	if err != nil {
		x.Fatal(err)
	}
	text = append(text, "serving:\n  backend: upstream\n  upstreams:\n"...)
	for i := range 2 {
		_, port, _ := net.SplitHostPort(freeAddr(x.T))
		x.hosts = append(x.hosts, address+":"+port)
		text = fmt.Appendf(text, "    \"*@h%d\": {url: \"http://%s\", lifecycle: gearshift}\n", i+1, x.hosts[i])
	}
	return write(x.T, "served.yaml", string(text))
}

// startEngines starts an engine for each host, which reports to the router that acts.
func (x *sharedFleet) startEngines() {
	for i, addr := range x.hosts {
		host := fmt.Sprintf("h%d", i+1)
		e := startProcess(x.T, "engine", "--scenario", "testdata/two-sizes.yaml", "--host", host, "--addr", addr, "--agent", "http://"+x.cutOff.admin+",http://"+x.free.admin, "--agent-host", host)
		e.listens(x.T)
		x.engines = append(x.engines, e)
	}
}

var sharedRegistered = regexp.MustCompile(`msg=registered .*router=(\S+) .*term=(\d+)`)

// reports returns the router that the engine reports to, and its term. Terms never fall.
func (x *sharedFleet) reports(e *process) (router string, term uint64) {
	for _, m := range sharedRegistered.FindAllStringSubmatch(e.log.String(), -1) {
		next, _ := strconv.ParseUint(m[2], 10, 64)
		if next < term {
			x.Errorf("an engine follows term %d after %d", next, term)
		}
		router, term = m[1], next
	}
	return router, term
}

// reported waits until all engines report to the router that acts, in its term.
func (x *sharedFleet) reported(kind string, since time.Time) {
	x.Helper()
	etcdtest.Eventually(x, "after "+kind+", engines report to the router that acts", func() bool {
		for _, r := range []*sharedRouter{x.cutOff, x.free} {
			if acts, term := leadership(r.metrics()); acts {
				return !slices.ContainsFunc(x.engines, func(e *process) bool {
					router, at := x.reports(e)
					return router != "http://"+r.admin || float64(at) != term
				})
			}
		}
		return false
	})
	x.took["engines, "+kind] = append(x.took["engines, "+kind], time.Since(since))
}

// otherEnd sets the end of the namespace's first link that is outside of it.
func (x *sharedFleet) otherEnd(to string) {
	if err := ip("link", "set", x.space.device(0), to); err != nil {
		x.Error(err)
	}
}

// startEtcd starts etcd where it was, and waits until it listens.
func (x *sharedFleet) startEtcd() {
	_, port, _ := strings.Cut(strings.TrimPrefix(x.store[1], "etcd://127.0.0.1"), ":")
	port, _, _ = strings.Cut(port, "/")
	x.etcd = startProcess(x.T, "test-etcd", x.dir, "0.0.0.0:"+port)
	x.etcd.listens(x.T)
}

// promote puts a policy in production by a command that reaches etcd.
func (x *sharedFleet) promote(policy string) {
	succeed(x.T, "policy", "promote", policy, "--store", x.store[1])
	x.policy = policy
}

// leads has a router act: the other is killed and started again if it does.
func (x *sharedFleet) leads(r *sharedRouter) {
	x.Helper()
	other := x.other(r)
	etcdtest.Eventually(x, "one acts", func() bool { return r.acts() || other.acts() })
	if r.acts() {
		return
	}
	x.fault("killed", r, other.die, nil)
	other.start()
}

func (x *sharedFleet) other(r *sharedRouter) *sharedRouter {
	if r == x.free {
		return x.cutOff
	}
	return x.free
}

// fault does something to the router that acts, and measures when the next one does.
func (x *sharedFleet) fault(kind string, next *sharedRouter, do, meanwhile func()) {
	x.Helper()
	at := time.Now()
	do()
	x.measure(kind, at, next)
	if meanwhile != nil {
		meanwhile()
	}
}

// measure waits until one of the routers acts, and holds the time against the bar.
func (x *sharedFleet) measure(kind string, since time.Time, next ...*sharedRouter) {
	x.Helper()
	etcdtest.Eventually(x, "after "+kind+", another acts", func() bool { return slices.ContainsFunc(next, (*sharedRouter).acts) })
	took := time.Since(since)
	x.took[kind] = append(x.took[kind], took)
	if took > 3*time.Second {
		x.Errorf("%s: another acts after %v, not within 3 s", kind, took)
	}
	x.reported(kind, since)
}

// promotionsAway: the router that is cut off refuses promotions, a command elsewhere promotes, and etcd forgets what
// was before.
func (x *sharedFleet) promotionsAway() {
	x.Helper()
	x.refused("policy", "promote", "static:small", "--reason", "x", "--force", "--admin", "http://"+x.cutOff.admin)
	next := map[string]string{"static:small": "static:large", "static:large": "static:small"}[x.policy]
	x.promote(next)
	etcdtest.Compact(x, strings.TrimSuffix(strings.TrimPrefix(x.store[1], "etcd://"), "/mine"))
}

// refused: a command ends with one line that says that the store is away.
func (x *sharedFleet) refused(args ...string) {
	x.Helper()
	began := time.Now()
	code, out, stderr := gearshift(x.T, args...)
	if code != 1 || out != "" || !strings.Contains(stderr, "is away: cannot") || strings.Count(stderr, "\n") != 1 {
		x.Errorf("%q: exit code %d, %s\n%s", args, code, out, stderr)
	}
	x.took["promotion refused"] = append(x.took["promotion refused"], time.Since(began))
}

// heals ends a fault, and waits until both routers follow what is in production.
func (x *sharedFleet) heals(heal func()) {
	x.Helper()
	at := time.Now()
	heal()
	for _, r := range []*sharedRouter{x.cutOff, x.free} {
		etcdtest.Eventually(x, r.name+" routes by "+x.policy, func() bool {
			_, policy, err := r.ask()
			return err == nil && policy == x.policy
		})
	}
	x.took["follows after a heal"] = append(x.took["follows after a heal"], time.Since(at))
}

// etcdDies: etcd is killed. None acts, promotions are refused, and one acts soon after it is back.
func (x *sharedFleet) etcdDies() {
	x.Helper()
	x.etcd.kill()
	x.none("etcd was killed")
	x.refused("policy", "promote", "static:small", "--store", x.store[1])
	x.refused("policy", "promote", "static:small", "--reason", "x", "--force", "--admin", "http://"+x.free.admin)
	x.startEtcd()
	x.measure("etcd back", time.Now(), x.cutOff, x.free)
	x.heals(func() {})
}

// etcdHangs: etcd is stopped for longer than a lease.
func (x *sharedFleet) etcdHangs() {
	x.Helper()
	_ = x.etcd.command.Process.Signal(syscall.SIGSTOP)
	x.none("etcd hangs")
	x.refused("policy", "promote", "static:small", "--store", x.store[1])
	_ = x.etcd.command.Process.Signal(syscall.SIGCONT)
	x.measure("etcd goes on", time.Now(), x.cutOff, x.free)
}

// none waits until no router acts.
func (x *sharedFleet) none(why string) {
	x.Helper()
	etcdtest.Eventually(x, "none acts, as "+why, func() bool { return !x.cutOff.acts() && !x.free.acts() })
}

// etcdIsSlow: etcd is stopped for most of 4 s, a fifth of a second at a time. The same router acts all the while, and
// promotions pass.
func (x *sharedFleet) etcdIsSlow() {
	x.Helper()
	before := x.cutOff.term() + x.free.term()
	for range 16 {
		_ = x.etcd.command.Process.Signal(syscall.SIGSTOP)
		<-time.After(200 * time.Millisecond)
		_ = x.etcd.command.Process.Signal(syscall.SIGCONT)
		<-time.After(50 * time.Millisecond)
	}
	if after := x.cutOff.term() + x.free.term(); after != before || !x.cutOff.acts() && !x.free.acts() {
		x.Errorf("while etcd is slow, another router acts, or none")
	}
	x.promote(x.policy)
}
