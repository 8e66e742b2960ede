package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/config"
)

// router is a router whose only engines are those of its ledger.
type router struct {
	*Module
	ledger  *fleet.Ledger
	monitor *signals.Monitor
	asked   atomic.Bool
	now     atomic.Int64
	shift   atomic.Int64         // see Shared
	shared  chan []signals.Count // what others have, whenever that is set; one is kept
}

func (r *router) Counts(replica int) signals.Count {
	n := r.ledger.InFlightOn(replica)
	return signals.Count{InFlight: n, Held: 100 * n}
}

func (r *router) Share(shares []signals.Count) {
	r.monitor.Share(shares)
	select {
	case <-r.shared:
	default:
	}
	r.shared <- shares
}

// Shared maps replicas in another order than the table's, like a router that assigns slots.
func (r *router) Shared(replica int) string {
	return fmt.Sprint("engine ", (replica+int(r.shift.Load()))%len(r.table.Replicas))
}

func (r *router) GaugesAsked() bool { return r.asked.Load() }

// until waits until the others' requests in flight on a replica have the wanted number.
func (r *router) until(t *testing.T, replica, inFlight int) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		select {
		case shares := <-r.shared:
			if shares[replica].InFlight == inFlight {
				return
			}
		case <-late:
			t.Fatalf("others never had %d requests on replica %d", inFlight, replica)
		}
	}
}

// started makes a router that answers at a URL, and asks the configured routers once it has begun.
func started(t *testing.T, c config.Peers) (r *router, url string) {
	t.Helper()
	ledger := fleet.NewLedger(conformance.Fleet(0))
	r = &router{ledger: ledger, monitor: signals.New(ledger), shared: make(chan []signals.Count, 1)}
	if c.Poll == 0 {
		c.Poll, c.SilentAfter, c.JoinWithin = 20*time.Millisecond, time.Second, 3*time.Second
	}
	r.Module = New(Options{Config: c, Ledger: ledger, Log: slog.New(slog.DiscardHandler)})
	r.engines, r.clock = r, func() time.Duration { return time.Duration(r.now.Load()) }
	server := httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(server.Close)
	return r, server.URL
}

func view(l *fleet.Ledger, now time.Duration) *fleet.View {
	var v fleet.View
	l.View(now, &v)
	return &v
}

func TestRoutersKnowEachOthersRequests(t *testing.T) {
	other, url := started(t, config.Peers{})
	own, self := started(t, config.Peers{})
	own.list([]string{url, self, url + "/"}) // the router itself is one, and the other has two addresses
	var leases []fleet.Lease
	for i := range 5 {
		lease, _ := other.ledger.Begin(2, 0)
		leases = append(leases, lease)
		other.ledger.Arrive(time.Duration(i) * time.Second)
		own.ledger.Arrive(time.Duration(i) * time.Second)
	}
	own.ledger.Begin(2, 0)
	other.now.Store(int64(5 * time.Second))
	own.now.Store(int64(5 * time.Second))
	defer own.Begin(t.Context())()
	own.until(t, 2, 5)
	v := view(own.ledger, 5*time.Second)
	if v.InFlight[2] != 6 || v.Own(2) != 1 || v.Held[2] != 500 {
		t.Errorf("the view has %d in flight, %d its own, and %d tokens; want 6, 1 and the other's 500", v.InFlight[2], v.Own(2), v.Held[2])
	}
	if alone := view(other.ledger, 5*time.Second); math.Abs(v.Smoothed[0]-2*alone.Smoothed[0]) > 1e-9 || v.Rate != 2*alone.Rate {
		t.Errorf("the rate is %v and %v; want twice %v and %v", v.Rate, v.Smoothed, alone.Rate, alone.Smoothed)
	}
	for _, lease := range leases[1:] {
		lease.End()
	}
	own.until(t, 2, 1)
	known := own.Known()
	for late := time.Now().Add(10 * time.Second); len(known) != 2 && time.Now().Before(late); known = own.Known() {
		time.Sleep(time.Millisecond) // until it has found itself at its own address
	}
	if len(known) != 2 || !known[0].Heard || known[0].InFlight != 1 || known[0].Instance != other.instance {
		t.Errorf("known are %+v; want the other router at two addresses", known)
	}
	own.list(nil) // the other is taken off the list
	own.until(t, 2, 0)
	if v := view(own.ledger, 5*time.Second); v.InFlight[2] != 1 {
		t.Errorf("without the other the view has %d in flight, want its own", v.InFlight[2])
	}
}

func TestSilentRouterIsDropped(t *testing.T) {
	var mute atomic.Bool
	own, _ := started(t, config.Peers{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if mute.Load() {
			http.Error(w, "no", http.StatusServiceUnavailable)
			return
		}
		_, _ = fmt.Fprintf(w, `{"instance":"other","number":%d,"rate":3,"smoothed":[3,3],"replicas":{%q:{"in_flight":4,"held":9},"unknown":{"in_flight":7}}}`,
			time.Now().UnixNano(), own.Shared(1))
	}))
	defer server.Close()
	own.ledger.ShareRate(2)
	own.list([]string{server.URL})
	defer own.Begin(t.Context())()
	own.until(t, 1, 4)
	if rate := view(own.ledger, 0).Rate; rate != 3 {
		t.Errorf("a rate of %v, want the other's 3", rate)
	}
	mute.Store(true)
	own.now.Add(int64(2 * time.Second))
	own.until(t, 1, 0)
	for i := range 3 {
		own.ledger.Arrive(time.Duration(i) * time.Second)
	}
	if rate := view(own.ledger, 2*time.Second).Rate; rate != 1 { // half of one per second, times two
		t.Errorf("a rate of %v while no other is heard, want the router's own .5 times 2", rate)
	}
	if known := own.Known(); known[0].Heard {
		t.Errorf("a silent router is heard: %+v", known)
	}
}

// Each change of another router is one line in the log.
func TestChangesOfRoutersAreLogged(t *testing.T) {
	var status atomic.Int64
	status.Store(http.StatusUnauthorized)
	own, _ := started(t, config.Peers{})
	var log bytes.Buffer
	own.Log = slog.New(slog.NewTextHandler(&log, nil))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if status.Load() != http.StatusOK {
			w.WriteHeader(int(status.Load()))
			return
		}
		_, _ = fmt.Fprintf(w, `{"instance":"other","number":%d}`, time.Now().UnixNano())
	}))
	defer server.Close()
	own.list([]string{server.URL, server.URL + "/silent"})
	own.began = true
	own.peers[1].err = errors.New("no route")
	steps := []struct {
		status int
		after  time.Duration
		want   string
	}{
		{http.StatusUnauthorized, 0, "refuses this router's token"},
		{http.StatusUnauthorized, 4 * time.Second, "a router has never answered"}, // the second
		{http.StatusUnauthorized, 0, ""},
		{http.StatusOK, 0, "a router answers"},
		{http.StatusOK, 0, ""},
		{http.StatusServiceUnavailable, 2 * time.Second, "a router does not answer"},
		{http.StatusServiceUnavailable, 2 * time.Second, ""},
		{http.StatusOK, 0, "a router answers"},
		{http.StatusForbidden, 0, "refuses this router's token"},
		{http.StatusForbidden, 0, ""},
	}
	for i, x := range steps {
		log.Reset()
		status.Store(int64(x.status))
		own.now.Add(int64(x.after))
		own.askOne(t.Context(), own.peers[0])
		own.correct(own.clock())
		url := "peer=" + server.URL
		if x.want == "a router has never answered" {
			url = "peer=" + server.URL + "/silent"
		}
		lines := strings.Count(log.String(), "\n")
		if x.want == "" && lines != 0 || x.want != "" && (lines != 1 || !strings.Contains(log.String(), x.want) || !strings.Contains(log.String(), url)) {
			t.Errorf("step %d: want one line with %q and %s, or none without; got\n%s", i, x.want, url, log.String())
		}
	}
}

func TestWhatARouterSaysIsBounded(t *testing.T) {
	own, _ := started(t, config.Peers{})
	own.list([]string{"http://other"})
	name := own.Shared(0)
	say := func(number uint64, inFlight int, rate float64) {
		own.take(own.peers[0], &Share{Instance: "other", Number: number, Rates: fleet.Rates{Rate: rate}, Replicas: map[string]Load{name: {InFlight: inFlight, Held: inFlight}}}, 0)
	}
	for _, x := range []struct {
		number   uint64
		inFlight int
		rate     float64
		want     int32
	}{{2, 3, 5, 3}, {1, 9, 5, 3}, {3, -4, math.NaN(), 0}, {4, math.MaxInt, math.Inf(1), most}} {
		say(x.number, x.inFlight, x.rate)
		v := view(own.ledger, 0)
		if v.InFlight[0] != x.want || !(v.Rate >= 0 && v.Rate <= 5) {
			t.Errorf("answer %d of %d requests: the view has %d, and a rate of %v", x.number, x.inFlight, v.InFlight[0], v.Rate)
		}
	}
	// Another process at the address begins to count again.
	own.take(own.peers[0], &Share{Instance: "next", Number: 1}, 0)
	if v := view(own.ledger, 0); v.InFlight[0] != 0 {
		t.Errorf("after a restart of the other the view has %d in flight", v.InFlight[0])
	}
}

func TestJoiningRouterHearsTheOthersFirst(t *testing.T) {
	_, url := started(t, config.Peers{})
	own, _ := started(t, config.Peers{})
	own.list([]string{url})
	if why := own.unready(); why != "" {
		t.Errorf("a server that does not serve yet is not ready: %s", why)
	}
	end := own.Begin(t.Context())
	<-own.shared
	if own.unready() == "" {
		t.Error("ready before the engines were asked")
	}
	own.asked.Store(true)
	late := time.After(20 * time.Second)
	for own.unready() != "" {
		select {
		case <-own.shared:
		case <-late:
			t.Fatal("never ready")
		}
	}
	end()
	// Routers that do not answer do not hold it up for long.
	deaf, _ := started(t, config.Peers{})
	deaf.list([]string{url})
	deaf.began = true
	if deaf.unready() == "" {
		t.Error("ready before it has heard the other")
	}
	if deaf.now.Store(int64(4 * time.Second)); deaf.unready() != "" {
		t.Error("not ready after the time to join")
	}
}

func TestNamesAreLookedUp(t *testing.T) {
	other, url := started(t, config.Peers{})
	other.ledger.Begin(3, 0)
	port := url[len("http://127.0.0.1:"):]
	own, _ := started(t, config.Peers{DNS: "routers.example:" + port, Poll: 20 * time.Millisecond, SilentAfter: time.Second, JoinWithin: time.Minute})
	fail := true
	own.Lookup = func(_ context.Context, host string) ([]string, error) {
		if fail = !fail; host != "routers.example" || !fail {
			return []string{"127.0.0.1"}, nil
		}
		return nil, errors.New("no such host")
	}
	own.asked.Store(true)
	defer own.Begin(t.Context())()
	own.until(t, 3, 1)
	own.list([]string{url})
	if known := own.Known(); len(known) != 1 || known[0].URL != url {
		t.Errorf("known are %+v", known)
	}
}

// Routers of a name whose listeners are encrypted are asked by https, and need a certificate for the name.
func TestNamesAreLookedUpForTLS(t *testing.T) {
	other, _ := started(t, config.Peers{})
	other.ledger.Begin(3, 0)
	server := httptest.NewTLSServer(http.HandlerFunc(other.answer)) // has a certificate for example.com
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for name, heard := range map[string]bool{"example.com": true, "other.net": false} {
		own, _ := started(t, config.Peers{DNS: name + ":" + port, Poll: 20 * time.Millisecond, SilentAfter: time.Second, JoinWithin: time.Minute})
		own.TLS = true
		own.client.Transport.(*http.Transport).TLSClientConfig.RootCAs = server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		own.Lookup = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		own.list([]string{"https://127.0.0.1:" + port})
		own.askOne(t.Context(), own.peers[0])
		if known := own.Known(); known[0].Heard != heard {
			t.Errorf("%s: heard is %v, want %v: %v", name, known[0].Heard, heard, own.peers[0].err)
		}
		if heard {
			end := own.Begin(t.Context())
			own.until(t, 3, 1)
			end()
		}
	}
}

func TestShareIsSmall(t *testing.T) {
	own, _ := started(t, config.Peers{})
	for i := range own.table.Replicas {
		for range 30 {
			own.ledger.Begin(i, 0)
		}
	}
	b, err := json.Marshal(own.Own())
	if err != nil || len(b) > 200+60*len(own.table.Replicas) {
		t.Errorf("%d bytes for %d replicas (%v): %s", len(b), len(own.table.Replicas), err, b)
	}
}

// Routers that have given their slots to the same engines in another order exchange load by engine.
func TestSlotsOfRoutersDiffer(t *testing.T) {
	other, url := started(t, config.Peers{})
	own, _ := started(t, config.Peers{})
	other.ledger.Begin(2, 0)
	own.shift.Store(3)
	own.list([]string{url})
	defer own.Begin(t.Context())()
	own.until(t, len(own.table.Replicas)-1, 1) // engine 2 is in slot 2 there, in slot 11 here
	own.shift.Store(0)
	own.until(t, 2, 1) // and has been given slot 2 since
}

// slowEngines take long to use the first share, of 3 requests.
type slowEngines struct {
	*router
	begun, second chan struct{}
}

func (e slowEngines) Share(shares []signals.Count) {
	if shares[0].InFlight == 3 {
		close(e.begun)
		select {
		case <-e.second:
		case <-time.After(50 * time.Millisecond):
		}
	}
	e.monitor.Share(shares)
}

// Of two answers that come at once the later one stays in force.
func TestAnswersKeepTheirOrder(t *testing.T) {
	own, _ := started(t, config.Peers{})
	own.list([]string{"http://other"})
	e := slowEngines{own, make(chan struct{}), make(chan struct{})}
	own.engines = e
	say := func(number uint64, inFlight int) {
		own.take(own.peers[0], &Share{Instance: "other", Number: number, Replicas: map[string]Load{own.Shared(0): {InFlight: inFlight}}}, 0)
	}
	var both sync.WaitGroup
	both.Go(func() { say(1, 3) })
	<-e.begun
	both.Go(func() {
		say(2, 1)
		close(e.second)
	})
	both.Wait()
	if v := view(own.ledger, 0); v.InFlight[0] != 1 {
		t.Errorf("the view has %d in flight, want the later answer's 1", v.InFlight[0])
	}
}
