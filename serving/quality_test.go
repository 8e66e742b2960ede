package serving_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
)

const minQuality = "x-gearshift-min-quality"

// The qualities of small and large are 0.5 and 1 for chat, 0.75 and 1 for copy. The
// policy wants small.
func TestAnswersHaveTheQualityAskedFor(t *testing.T) {
	const copied = "x-gearshift-task"
	for _, c := range []struct {
		name, model     string
		header          []string
		variant, policy string
	}{
		{"none", "auto", nil, "small", "wants@3"},
		{"what all have", "auto", []string{minQuality, "0.5"}, "small", "wants@3"},
		{"what the policy's choice has not", "auto", []string{minQuality, "0.51"}, "large", router.Raised},
		{"what it has for another task", "auto", []string{minQuality, " 0.6 ", copied, "copy"}, "small", "wants@3"},
		{"the best", "auto", []string{minQuality, "1.0", copied, "copy"}, "large", router.Raised},
		{"what the model has by name", "large", []string{minQuality, "1"}, "large", router.Pinned},
		{"zero", "auto", []string{minQuality, "0"}, "small", "wants@3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newRig(t, good)
			w := g.do("POST", chat, strings.Replace(ask, "auto", c.model, 1), c.header...)
			h := w.Header()
			if w.Code != http.StatusOK || h.Get("X-Gearshift-Variant") != c.variant || h.Get("X-Gearshift-Policy") != c.policy {
				t.Errorf("status %d, header %v", w.Code, h)
			}
			if raised := h.Get("X-Gearshift-Fallback") == router.ReasonFloor; raised != (c.policy == router.Raised) {
				t.Errorf("fallback %q", h.Get("X-Gearshift-Fallback"))
			}
			if strings.Contains(g.logs.String(), "does not route") {
				t.Error("the log says that the policy does not route")
			}
		})
	}
}

// The caller of the route endpoint asks as others do, and the explanation says so.
func TestTheRouteEndpointHeedsTheQuality(t *testing.T) {
	g := newRig(t, nil)
	w := g.do("POST", "/v1/gearshift/route", `{}`, minQuality, "0.9", "x-gearshift-explain", "1")
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"variant":"large"`) || !strings.Contains(w.Body.String(), router.ReasonFloor) {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if e := explanation(t, w); e.MinQuality != 0.9 || e.Variant != "large" || e.Fallback != router.ReasonFloor {
		t.Errorf("explained %+v", e)
	}
}

// A retry goes to no variant below the floor, also where nothing else is left.
func TestRetriesKeepTheQuality(t *testing.T) {
	var asked []string
	g := newRig(t, nil, fleetOf(&asked, good, good, refuses))
	if w := g.do("POST", chat, ask, minQuality, "0.9"); w.Code != http.StatusBadGateway || !slices.Equal(asked, []string{"large@a"}) {
		t.Errorf("status %d, asked %v", w.Code, asked)
	}
	asked = nil
	if w := g.do("POST", chat, ask, minQuality, "0.6", "x-gearshift-task", "copy"); w.Code != http.StatusOK || !slices.Equal(asked, []string{"small@a"}) {
		t.Errorf("status %d, asked %v", w.Code, asked)
	}
}

// Where nothing of the quality is up there is nobody to answer; where that is busy,
// the request waits for it, and holds up nobody.
func TestTheQualityAskedForIsDownOrBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{rig: newRig(t, lasting(time.Second), patient), answers: map[string]answer{}}
		for _, name := range []string{"first", "second"} { // both places of the large one
			c.send(t.Context(), name, minQuality, "0.9")
		}
		c.send(t.Context(), "third", minQuality, "0.9")
		if c.waiting() != 1 {
			t.Fatalf("%d wait, want one for the large model", c.waiting())
		}
		c.send(t.Context(), "any")
		if c.waiting() != 1 {
			t.Errorf("%d wait; a place for one without a floor is free", c.waiting())
		}
		c.all.Wait()
		if a := c.answer("third"); a.status != http.StatusOK || a.header.Get("X-Gearshift-Variant") != "large" || a.took != 2*time.Second {
			t.Errorf("status %d after %v, header %v", a.status, a.took, a.header)
		}
		c.core.Ledger().SetUp(largeA, false)
		w := c.do("POST", chat, ask, minQuality, "0.9")
		if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusServiceUnavailable || code != "no_replica" {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		if w := c.do("POST", chat, ask); w.Code != http.StatusOK {
			t.Errorf("without a floor: status %d", w.Code)
		}
	})
}

// Where a floor leaves variants out, no policy was free to choose: the row says so,
// whoever chose.
func TestRowsWithAFloorArePinned(t *testing.T) {
	with, read := logging(t, nil)
	g := newRig(t, good, with)
	g.do("POST", chat, ask, minQuality, "0.9")
	if err := g.core.SetPolicy(chooses(large)); err != nil {
		t.Fatal(err)
	}
	g.do("POST", chat, ask, minQuality, "0.9")
	g.do("POST", chat, ask, minQuality, "0.5")
	rows := read().Runs[0].Rows
	if len(rows) != 3 {
		t.Fatalf("%d rows", len(rows))
	}
	for i, want := range []struct {
		policy     string
		pinned     bool
		propensity float64
	}{{router.Raised, true, 0}, {"wants@3", true, 0}, {"wants@3", false, 1}} {
		if r := rows[i]; r.Variant != large || r.Policy != want.policy || r.Pinned != want.pinned || r.Propensity != want.propensity {
			t.Errorf("row %d: %+v, want %+v", i, r, want)
		}
	}
}
