package streams_test

import (
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/streams"
)

// state asks for the state of streams, which has no more than it should.
func (g *rig) state(t *testing.T, query string) (s streams.State) {
	t.Helper()
	w := g.admin(query)
	if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %v: %s", w.Code, err, w.Body)
	}
	return s
}

func (g *rig) admin(query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.AdminHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8081"+streams.StatePath+query, nil))
	return w
}

// The state has what clients measure themselves, and what hosts have run in the last second.
func TestStateOfThoseServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		if s := g.state(t, ""); s.Total != 0 || len(s.Clients) != 0 || len(s.Hosts) != 2 || s.Hosts[0].Room != 1 || !s.Hosts[0].Up {
			t.Errorf("before any client: %+v", s)
		}
		c := g.stream(16, 0.06, nil)
		time.Sleep(9*time.Second + 600*time.Millisecond)
		before := c.measured()
		time.Sleep(time.Second)
		s, results, strides, tracked := g.state(t, ""), 0, 0, 0
		for i, m := range c.measured() {
			results, strides, tracked = results+m.Results-before[i].Results, strides+m.Strides-before[i].Strides, tracked+m.Tracked-before[i].Tracked
		}
		if s.FPS != 60 || s.Counts.Served != 16 || s.Counts.Connected != 16 || s.Counts.Waiting != 0 || s.Total != 16 || len(s.Clients) != 16 || s.Counts.Frames["answered"] < 100 || s.Counts.Batches < 30 {
			t.Errorf("16 clients: %+v", s.Counts)
		}
		mean, sum := 0.0, 0
		for _, x := range s.Clients {
			if !x.Served || x.Host == "" || x.Model != "detector" || x.SLA != 0.06 || math.Abs(x.DropRate-0.006) > 1e-3 || x.Why != "" || x.Address == "" {
				t.Errorf("client %+v", x)
			}
			// A server of its own has results after 2 frames, every 2 frames.
			if x.Drop == nil || math.Abs(*x.Drop-x.DropRate*(x.Stride-2.5)) > 1e-4 || *x.Drop > 0.06 {
				t.Errorf("client %d: drop %v with strides of %v", x.ID, x.Drop, x.Stride)
			}
			mean, sum = mean+x.Stride/16, sum+x.Results
		}
		if own := float64(strides) / float64(tracked); math.Abs(mean-own) > 0.5 || math.Abs(float64(sum-results)) > 0.1*float64(results) {
			t.Errorf("%d results with strides of %v; clients have %d of %v", sum, mean, results, own)
		}
		if !slices.IsSortedFunc(s.Clients, func(a, b streams.ClientState) int { return -cmp.Compare(*a.Drop, *b.Drop) }) {
			t.Error("those that have least left do not come first")
		}
		frames := 0
		for _, h := range s.Hosts {
			if h.Clients < 4 || h.Room <= 0 || h.Room >= 1 || len(h.Batches) < 5 {
				t.Errorf("host %+v", h)
			}
			for i, b := range h.Batches {
				frames += b.Frames
				if b.Model != "detector" || b.AgoMS > 1200 || i > 0 && b.AgoMS+h.Batches[i-1].TookMS > h.Batches[i-1].AgoMS+0.2 ||
					b.TookMS != 0 && math.Abs(b.TookMS-13-5*float64(b.Frames)) > 0.5 {
					t.Errorf("host %s, batch %d: %+v after %+v", h.Name, i, b, h.Batches[max(0, i-1)])
				}
			}
		}
		if math.Abs(float64(frames-results)) > 0.2*float64(results) {
			t.Errorf("batches of %d frames; clients have %d results", frames, results)
		}
		c.stop()
		time.Sleep(time.Second)
		if s = g.state(t, ""); s.Total != 0 || s.Hosts[0].Clients != 0 || s.Counts.Frames["answered"] < 100 {
			t.Errorf("once they have gone: %+v", s)
		}
	})
}

// measured returns what all have.
func (c *clients) measured() (list []streams.Measured) {
	for _, x := range c.list {
		list = append(list, x.Measured())
	}
	return list
}

// What smaller models lose is in the drop.
func TestStateHasTheGap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *streams.Config) {
			c.Hosts = c.Hosts[:1]
			c.Hosts[0].Sizes = append(c.Hosts[0].Sizes, streams.Size{Replica: 2, Latency: latency(1)[:8], Gap: 0.01})
		})
		defer g.stop()
		c := g.stream(4, 0.06, nil)
		defer c.stop()
		time.Sleep(5 * time.Second)
		for _, x := range g.state(t, "").Clients {
			if x.Model != "small" || x.Drop == nil || math.Abs(*x.Drop-0.01-x.DropRate*(x.Stride-2.5)) > 1e-4 {
				t.Errorf("client %+v", x)
			}
		}
	})
}

// Clients that wait come last, with why, and no answer has more clients than it is to have.
func TestStateIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *streams.Config) { c.Hosts = c.Hosts[:1] })
		defer g.stop()
		c := g.stream(40, 0.02, nil)
		defer c.stop()
		time.Sleep(5 * time.Second)
		s := g.state(t, "")
		served := slices.IndexFunc(s.Clients, func(x streams.ClientState) bool { return !x.Served })
		if served < 3 || served != s.Counts.Served || s.Counts.Waiting != 40-served || len(s.Clients) != 40 {
			t.Fatalf("%d served first: %+v", served, s.Counts)
		}
		for _, x := range s.Clients[served:] {
			if x.Served || !strings.Contains(x.Why, "room") || x.Host != "" || x.Drop != nil {
				t.Errorf("one that waits: %+v", x)
			}
		}
		if s = g.state(t, "?limit=3"); len(s.Clients) != 3 || s.Limit != 3 || s.Total != 40 || s.Counts.Served != served || !s.Clients[2].Served {
			t.Errorf("3 of 40: %+v", s)
		}
		if s = g.state(t, "?limit=0"); s.Clients == nil || len(s.Clients) != 0 || s.Total != 40 {
			t.Errorf("none of 40: %+v", s)
		}
		for _, bad := range []string{"?limit=-1", "?limit=10001", "?limit=many"} {
			if w := g.admin(bad); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "want a number of clients from 0 to 10000") {
				t.Errorf("%s: status %d, %s", bad, w.Code, w.Body)
			}
		}
	})
}

// A host that is lost is shown as such, and so are those that it served.
func TestStateOfALostHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		defer g.stop()
		c := g.stream(8, 0.06, nil)
		defer c.stop()
		time.Sleep(5 * time.Second)
		g.engines[0].stop()
		time.Sleep(500 * time.Millisecond)
		s := g.state(t, "")
		if s.Hosts[0].Up || s.Hosts[0].Clients != 0 || !s.Hosts[1].Up || s.Hosts[1].Clients != 8 || s.Counts.Evicted == 0 {
			t.Errorf("%+v, %+v", s.Hosts, s.Counts)
		}
		time.Sleep(2 * time.Second)
		for _, x := range g.state(t, "").Clients {
			if x.Host != "b" || x.Drop == nil || x.Stride < 2 || x.Stride > 30 {
				t.Errorf("client %+v", x)
			}
		}
	})
}

// However many hosts there are, the batches of some are shown.
func TestStateOfManyHosts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(c *streams.Config) {
			for len(c.Hosts) < 40 {
				c.Hosts = append(c.Hosts, streams.Host{Name: "more", Sizes: c.Hosts[0].Sizes})
			}
		})
		defer g.stop()
		c := g.stream(80, 0.06, nil)
		defer c.stop()
		time.Sleep(3 * time.Second)
		shown, serving := 0, 0
		for _, h := range g.state(t, "").Hosts {
			shown, serving = shown+min(1, len(h.Batches)), serving+min(1, h.Clients)
		}
		if serving != 40 || shown != 32 {
			t.Errorf("%d of 40 hosts serve clients, batches of %d are shown; want those of 32", serving, shown)
		}
	})
}
