package failover_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/internal/etcd"
	"gearshift/internal/etcd/etcdtest"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/control/failover"
	"gearshift/serving/control/states"
	shared "gearshift/serving/control/states/etcd"
)

// member is one of two routers of one fleet, which share their state in etcd, each behind a proxy.
type member struct {
	*rig
	store *shared.Store
	proxy *etcdtest.Proxy
}

// newMember starts a router of the engines.
func newMember(t *testing.T, server *etcdtest.Server, engines []*engine) *member {
	t.Helper()
	m := &member{proxy: etcdtest.NewProxy(t, server.Endpoint)}
	address, err := etcd.Parse("etcd://" + m.proxy.Endpoint + "/fleet")
	if err != nil {
		t.Fatal(err)
	}
	if m.store, err = shared.New(shared.Options{Address: address}); err != nil {
		t.Fatal(err)
	}
	m.rig = &rig{t: t, engines: engines, change: func(o *failover.Options, s *serving.Options) { o.States, s.Acts = m.store, m.store.Acts }}
	m.start()
	m.store.Begin(m.server.Engines().Nudge)
	t.Cleanup(func() {
		m.proxy.Pass()
		m.end()
		if err := m.store.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

// standsBy checks that the router claims nothing of applications, neither in its status nor in its metrics.
func (m *member) standsBy() {
	m.t.Helper()
	s := m.module.Situation()
	if !s.StandsBy || s.Unprotected != 0 || s.Unrecovered != 0 {
		m.t.Errorf("the one that stands by: stands by %v, %d unprotected, %d unrecovered", s.StandsBy, s.Unprotected, s.Unrecovered)
	}
	for _, a := range s.Applications {
		if a.Unprotected != "" || a.Unrecovered != "" {
			m.t.Errorf("the one that stands by has %+v", a)
		}
	}
	w := httptest.NewRecorder()
	m.server.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	text := w.Body.String()
	if strings.Contains(text, "\ngearshift_failover_unprotected_applications") || strings.Contains(text, "\ngearshift_failover_applications") || !strings.Contains(text, "\ngearshift_failover_term ") {
		m.t.Errorf("the one that stands by has metrics of applications, or no term:\n%s", text)
	}
}

// answered waits until applications are answered as wanted, by what the router knows.
func (m *member) answered(want ...string) {
	m.t.Helper()
	var got []string
	etcdtest.Eventually(m.t, strings.Join(want, " "), func() bool {
		got = actives(m.module.Situation())
		return slices.Equal(got, want)
	})
}

// TestTwoRoutersShareAState: one router recovers applications; the other stands by, routes, and refuses orders and
// agents. When the first is cut off, the second continues from its state: it loads nothing twice, and recovers the next
// loss. Engines never follow an older term after a newer one.
func TestTwoRoutersShareAState(t *testing.T) {
	server := etcdtest.Start(t)
	var engines []*engine
	for i, h := range hosts {
		engines = append(engines, newEngine(h, i, models[i+1]))
	}
	a := newMember(t, server, engines)
	etcdtest.Eventually(t, "the first acts", a.store.Acts)
	b := newMember(t, server, engines)
	ctx, cancel := context.WithCancel(t.Context())
	var reporting sync.WaitGroup
	for _, e := range engines {
		reporting.Go(func() {
			e.agent(ctx, func() http.Handler {
				for _, m := range []*member{a, b} {
					if m.store.Acts() {
						return m.admin()
					}
				}
				return nil
			})
		})
	}
	t.Cleanup(reporting.Wait)
	t.Cleanup(cancel)
	a.answered(homes...)
	protected := func(m *member) {
		t.Helper()
		etcdtest.Eventually(t, "all are protected", func() bool { return m.module.Situation().Unprotected == 0 })
	}
	protected(a)
	if w := post(b.admin(), "/admin/failover/drill", map[string]string{"host": "h1"}); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "stands by") || w.Header().Get("Connection") != "close" {
		t.Errorf("a drill by the one that stands by: %d %s, headers %v", w.Code, w.Body, w.Header())
	}
	b.standsBy()
	engines[0].kill()
	a.answered("small@h2", "large-two@h2", "large-three@h3")
	for i, task := range tasks {
		etcdtest.Eventually(t, task+" is answered by the one that stands by", func() bool {
			status, replica := b.ask(task)
			return status == http.StatusOK && replica == actives(a.module.Situation())[i]
		})
	}
	a.settled()
	orders := [][]string{a.orders(1), a.orders(2)}
	a.proxy.Hold()
	post(a.admin(), "/admin/failover/drill", map[string]string{"host": "h3"}) // what it can no longer save
	etcdtest.Eventually(t, "the second acts", b.store.Acts)
	b.answered("small@h2", "large-two@h2", "large-three@h3")
	if s := b.module.Situation(); s.Counts.Recovered != 1 || s.Hosts[0].State != "lost" || s.Term <= a.store.Term() {
		t.Errorf("the second has not the state of the first: counts %+v, hosts %+v, term %d after %d", s.Counts, s.Hosts, s.Term, a.store.Term())
	}
	for i, want := range orders {
		if got := b.orders(i + 1); !slices.Equal(got, want) {
			t.Errorf("%s got the orders %v, and had %v before", hosts[i+1], got, want)
		}
	}
	engines[0].start()
	b.answered(homes...)
	a.proxy.Pass()
	for _, e := range engines {
		e.mu.Lock()
		if term := e.epoch >> 32; term != 0 && term != b.store.Term() && term != a.store.Term() {
			t.Errorf("%s follows the term %d", e.base.Host, term)
		}
		e.mu.Unlock()
	}
	if a.store.Acts() {
		t.Error("both act")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if strings.Contains(a.logs.String(), "the failover state is not saved") {
		t.Errorf("a router that does not act says that it carries out orders:\n%s", a.logs.String())
	}
}

// TestNoneActsWithoutEtcd: a router that has never reached etcd routes, and gives engines no order from its start.
func TestNoneActsWithoutEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	server.Stop()
	var engines []*engine
	for i, h := range hosts {
		engines = append(engines, newEngine(h, i, models[i+1]))
	}
	m := newMember(t, server, engines)
	engines[0].kill()
	m.server.Engines().Settle()
	if status, replica := m.ask(tasks[1]); status != http.StatusOK || replica != "large-two@h2" {
		t.Errorf("status %d by %q", status, replica)
	}
	if got := slices.Concat(m.orders(0), m.orders(1), m.orders(2)); len(got) > 0 || m.store.Acts() {
		t.Errorf("engines got the orders %q", got)
	}
	server.Restart(t)
	etcdtest.Eventually(t, "it acts once etcd is there, and loads backups", func() bool { return m.store.Acts() && len(m.orders(1)) > 0 })
}

// turns is the state of several routers, whose turns a test gives.
type turns struct{ follow func(states.Turn) error }

func (s *turns) Open(string, time.Time) (states.State, error) { return s, nil }
func (s *turns) Follow(f func(states.Turn) error)             { s.follow = f }
func (s *turns) Term() uint64                                 { return 0 }
func (s *turns) Path() string                                 { return "etcd" }
func (s *turns) Last() []byte                                 { return nil }
func (s *turns) Trouble() string                              { return "" }
func (s *turns) Save([]byte) error                            { return nil }
func (s *turns) Close() error                                 { return nil }

// TestARouterThatNoLongerActs: a host that it had given up is judged by its own health checks, which the states that the
// next router saves do not change.
func TestARouterThatNoLongerActs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		shared := &turns{}
		var acts atomic.Bool
		var ledger *fleet.Ledger
		g := newRig(t, func(o *failover.Options, s *serving.Options) {
			o.States, s.Acts, ledger = shared, acts.Load, s.Router.Ledger()
		})
		turn := func(x states.Turn) {
			t.Helper()
			if err := shared.follow(x); err != nil {
				t.Fatal(err)
			}
			acts.Store(x.Acts)
			g.server.Engines().Settle()
		}
		const lost = 1 // large-one@h1
		is := func(when string, want fleet.State) {
			t.Helper()
			if synctest.Wait(); ledger.State(lost) != want {
				t.Errorf("%s: the replica on the lost host is %v, want %v", when, ledger.State(lost), want)
			}
		}
		turn(states.Turn{Acts: true, Term: 1})
		g.after(5*time.Second, homes...)
		g.engines[0].kill()
		g.after(3*time.Second, "small@h2", "large-two@h2", "large-three@h3")
		is("while it acts", fleet.Down)
		turn(states.Turn{Term: 1})
		is("when it ceases", fleet.Up)
		time.Sleep(time.Minute)
		is("by its health checks", fleet.Down)
		for i := range 2 {
			turn(states.Turn{Term: 2, Last: fmt.Appendf(nil, `{"zero":%d}`, i)})
			is("after another router has saved a state", fleet.Down)
		}
	})
}

// settled waits until the saved state is the last one.
func (m *member) settled() {
	m.t.Helper()
	m.server.Engines().Settle()
	before := ""
	etcdtest.Eventually(m.t, "orders have ended", func() bool {
		now := strings.Join(slices.Concat(m.orders(0), m.orders(1), m.orders(2)), " ")
		same := now == before
		before = now
		return same && m.module.Situation().Unprotected == 0
	})
}
