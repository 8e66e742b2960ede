package etcd_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	cluster "gearshift/internal/etcd"
	"gearshift/internal/etcd/etcdtest"
	"gearshift/serving/control/states"
	"gearshift/serving/control/states/etcd"
)

// router is a store of one, behind a proxy of its own, and what its controllers have heard.
type router struct {
	*etcd.Store
	proxy *etcdtest.Proxy
	state states.Shared
	begun atomic.Int64 // times

	mu    sync.Mutex // protects what follows
	turns []states.Turn
}

func newRouter(t *testing.T, server *etcdtest.Server) *router {
	t.Helper()
	return newRouterOf(t, server, 0)
}

// newRouterOf is newRouter with a lease that lasts as long as said.
func newRouterOf(t *testing.T, server *etcdtest.Server, ttl time.Duration) *router {
	t.Helper()
	r := &router{proxy: etcdtest.NewProxy(t, server.Endpoint)}
	address, err := cluster.Parse("etcd://" + r.proxy.Endpoint + "/mine")
	if err != nil {
		t.Fatal(err)
	}
	if r.Store, err = etcd.New(etcd.Options{Address: address, TTL: ttl}); err != nil {
		t.Fatal(err)
	}
	state, err := r.Open(states.Failover, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Open(states.Failover, time.Now()); !errors.Is(err, states.ErrHeld) {
		t.Errorf("a second of the kind: %v", err)
	}
	r.state = state.(states.Shared)
	r.state.Follow(func(x states.Turn) error {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.turns = append(r.turns, x)
		return nil
	})
	t.Cleanup(func() {
		r.proxy.Pass()
		if err := r.Close(); err != nil && !errors.Is(err, context.Canceled) { // a test has closed it
			t.Error(err)
		}
	})
	return r
}

// last returns what the router has heard last.
func (r *router) last() (x states.Turn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.turns); n > 0 {
		x = r.turns[n-1]
	}
	return x
}

func (r *router) begin() *router { r.Begin(func() { r.begun.Add(1) }); return r }

// acts waits until the router acts.
func (r *router) acts(t *testing.T) {
	t.Helper()
	etcdtest.Eventually(t, "the router acts", r.Acts)
}

// TestOneActs: one of two routers acts, the other follows what it saves and takes over with that: at once if the first
// ends in order. Terms rise.
func TestOneActs(t *testing.T) {
	server := etcdtest.Start(t)
	const ttl = time.Hour // the other does not wait for its end
	a, b := newRouterOf(t, server, ttl).begin(), newRouterOf(t, server, ttl)
	a.acts(t)
	b.begin()
	if x := a.last(); !x.Acts || x.Last != nil || x.Term < states.FirstTerm(time.Now())-60 {
		t.Errorf("first turn %+v", x)
	}
	if err := a.state.Save([]byte("first")); err != nil {
		t.Fatal(err)
	}
	etcdtest.Eventually(t, "the other follows", func() bool { return string(b.last().Last) == "first" })
	if x := b.last(); x.Acts || b.Acts() || x.Term != a.Term() || b.Leader() != a.Leader() {
		t.Errorf("the other has heard %+v", x)
	}
	if err := b.state.Save([]byte("not mine")); !errors.Is(err, states.ErrStandsBy) {
		t.Errorf("saved by the one that stands by: %v", err)
	}
	server.Compact(t)
	if err := a.state.Save([]byte("second")); err != nil {
		t.Fatal(err)
	}
	etcdtest.Eventually(t, "the other follows beyond a compaction", func() bool { return string(b.last().Last) == "second" })
	term := a.Term()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	b.acts(t)
	if x := b.last(); !x.Acts || string(x.Last) != "second" || x.Term <= term || b.Term() != x.Term {
		t.Errorf("the other goes on from %+v, after term %d", x, term)
	}

}

// TestTheRouterThatActsIsCutOff: it has ceased before the other begins, which is once its lease of 2 s has ended, and its
// state is not saved any more. In which time that is, make shared-store-real measures.
func TestTheRouterThatActsIsCutOff(t *testing.T) {
	server := etcdtest.Start(t)
	client := server.Client(t)
	a := newRouter(t, server).begin()
	a.acts(t)
	b := newRouter(t, server).begin()
	for range 2 {
		if err := a.state.Save([]byte("kept")); err != nil {
			t.Fatal(err)
		}
		etcdtest.Eventually(t, "the other follows", func() bool { return string(b.last().Last) == "kept" })
		if granted := a.granted(t, client); granted != 2 {
			t.Errorf("the lease is of %d s, want 2", granted)
		}
		cut := time.Now()
		a.proxy.Hold()
		etcdtest.Eventually(t, "the other acts", func() bool {
			if both(a, b) {
				t.Fatal("both act")
			}
			return b.Acts()
		})
		t.Logf("the other acts after %v", time.Since(cut))
		if err := a.state.Save([]byte("late")); !errors.Is(err, states.ErrStandsBy) {
			t.Errorf("saved by the one that was cut off: %v", err)
		}
		if string(b.last().Last) != "kept" {
			t.Errorf("the other goes on from %q", b.last().Last)
		}
		a.proxy.Pass()
		etcdtest.Eventually(t, "the first has heard that it no longer acts", func() bool { return !a.last().Acts && a.Leader() == b.Leader() })
		a, b = b, a
	}
}

// granted returns how long the lease under the router's key lasts, in seconds.
func (r *router) granted(t *testing.T, client *clientv3.Client) int64 {
	t.Helper()
	got, err := client.Get(t.Context(), "/mine/control/leader")
	if err != nil || len(got.Kvs) != 1 || !strings.HasSuffix(string(got.Kvs[0].Value), r.Leader()) {
		t.Fatalf("the router's key: %v, %v", got, err)
	}
	lease, err := client.TimeToLive(t.Context(), clientv3.LeaseID(got.Kvs[0].Lease))
	if err != nil {
		t.Fatal(err)
	}
	return lease.GrantedTTL
}

// both reports whether two routers act at one moment: the first before and after the other was asked, in one term.
func both(a, b *router) bool {
	term := a.Term()
	return a.Acts() && b.Acts() && a.Acts() && a.Term() == term
}

// TestALeaseThatIsGone: what the router that acts by its clock saves is refused once its key is gone.
func TestALeaseThatIsGone(t *testing.T) {
	server := etcdtest.Start(t)
	a := newRouter(t, server).begin()
	a.acts(t)
	client := server.Client(t)
	leases, err := client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("leases %v, %v", leases, err)
	}
	term := a.Term()
	a.proxy.Slow(20 * time.Millisecond) // so that it does not hear of it by a renewal first, as a rule
	if _, err := client.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	if err := a.state.Save([]byte("late")); !errors.Is(err, states.ErrStandsBy) {
		t.Errorf("saved without the key: %v", err)
	}
	got, err := client.Get(t.Context(), "/mine/control/state/failover", clientv3.WithCountOnly())
	if err != nil || got.Count != 0 {
		t.Errorf("%d states are there, %v", got.Count, err)
	}
	etcdtest.Eventually(t, "it acts in another term", func() bool { return a.Acts() && a.Term() > term })
}

// TestEtcdRestarts: while etcd is gone none acts, and then one does, with the state.
func TestEtcdRestarts(t *testing.T) {
	server := etcdtest.Start(t)
	a := newRouter(t, server).begin()
	a.acts(t)
	b := newRouter(t, server).begin()
	if err := a.state.Save([]byte("kept")); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	etcdtest.Eventually(t, "none acts", func() bool { return !a.Acts() && !b.Acts() })
	server.Restart(t)
	etcdtest.Eventually(t, "one acts", func() bool {
		if both(a, b) {
			t.Fatal("both act")
		}
		return a.Acts() || b.Acts()
	})
	leads := a
	if b.Acts() {
		leads = b
	}
	if string(leads.last().Last) != "kept" {
		t.Errorf("it goes on from %q", leads.last().Last)
	}
}

// TestItsOwnKeyIsLeft: a router that finds its own key, under a lease that has long to go, ends that and acts again.
func TestItsOwnKeyIsLeft(t *testing.T) {
	server := etcdtest.Start(t)
	a := newRouter(t, server).begin()
	a.acts(t)
	client, term := server.Client(t), a.Term()
	leases, err := client.Leases(t.Context())
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("leases %v, %v", leases, err)
	}
	long, err := client.Grant(t.Context(), 3600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Put(t.Context(), "/mine/control/leader", "1 "+a.Leader(), clientv3.WithLease(long.ID)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Revoke(t.Context(), leases.Leases[0].ID); err != nil {
		t.Fatal(err)
	}
	etcdtest.Eventually(t, "it acts in another term", func() bool { return a.Acts() && a.Term() > term })
}

// TestTheStateCannotBeUsed: a router whose controllers refuse the state stands by, and another takes it.
func TestTheStateCannotBeUsed(t *testing.T) {
	server := etcdtest.Start(t)
	a := newRouter(t, server)
	refused := make(chan bool, 100)
	a.state.Follow(func(states.Turn) error {
		select {
		case refused <- true:
		default:
		}
		return errors.New("of another fleet")
	})
	a.begin()
	<-refused
	if a.Acts() {
		t.Error("it acts")
	}
	newRouter(t, server).begin().acts(t)
}

// TestNeverTwo: whatever happens to three routers' connections, no two act at one moment, and once nothing happens one
// does.
func TestNeverTwo(t *testing.T) {
	server := etcdtest.Start(t)
	var routers []*router
	for range 3 {
		routers = append(routers, newRouter(t, server).begin())
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 12 {
		x := routers[rng.IntN(len(routers))]
		switch rng.IntN(4) {
		case 0:
			x.proxy.Cut()
		case 1:
			x.proxy.Hold()
		case 2:
			x.proxy.Slow(time.Duration(rng.IntN(150)) * time.Millisecond)
		case 3:
			x.proxy.Pass()
		}
		until := time.Now().Add(time.Duration(200+rng.IntN(500)) * time.Millisecond)
		etcdtest.Eventually(t, "time passes", func() bool {
			for i, a := range routers {
				for j, b := range routers {
					if i != j && both(a, b) {
						t.Fatalf("routers %d and %d act at one moment", i, j)
					}
				}
			}
			return time.Now().After(until)
		})
	}
	for _, x := range routers {
		x.proxy.Pass()
	}
	etcdtest.Eventually(t, "one acts", func() bool { return routers[0].Acts() || routers[1].Acts() || routers[2].Acts() })
}
