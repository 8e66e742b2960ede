package serving_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving"
)

// paced is a crowd before one replica whose steps take 10 ms for each sequence, and
// whose forecasts say so.
func paced(t *testing.T) *crowd {
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "small@a"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	profiles := []*profile.Profile{{Sequence: 10}}
	core, err := router.New(router.Config{
		Ledger: fleet.NewLedger(table), Fallback: chooses(small), Balancer: emptiest{},
		Forecaster: profile.NewForecaster(profiles), Gate: router.AdmissionRule{DeadlineShare: 1, KV: 1, Output: 100, Profiles: profiles},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, nil, patient, func(o *serving.Options) {
		o.Router, o.Backends = core, []serving.Backend{{Transport: lasting(time.Second)}}
	})
	g.core = core
	return &crowd{rig: g, answers: map[string]answer{}}
}

// begins sends a request with each deadline, and checks how many of them begin. A
// prefill counts 0.1 ms a sequence, so a batch of n takes a little more than 10·n ms:
// three fit into 40 ms.
func begins(t *testing.T, header string, deadlines []string, want int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := paced(t)
		for i, deadline := range deadlines {
			g.send(t.Context(), fmt.Sprint(i), header, deadline)
		}
		if got := g.core.Ledger().InFlight(); got != want {
			t.Errorf("%d in flight, want %d", got, want)
		}
		g.all.Wait()
		if a := g.answer("0"); a.status != http.StatusOK {
			t.Errorf("status %d", a.status)
		}
	})
}

// GIE #1323, #1922: a deadline of the request's own says when the fleet is full.
func TestRoomGoesByTheDeadlinesOfRequests(t *testing.T) {
	const tpot, loose, tight, impossible = "x-llm-d-slo-tpot-ms", "100", "30", "1"
	for name, c := range map[string]struct {
		there, come []string
		want        int // in flight
	}{
		"as many as hold the task's deadline":                  {[]string{""}, []string{"", "", "", ""}, 3},
		"more where all have time":                             {[]string{loose}, []string{loose, loose, loose, loose, loose, loose, loose, loose, loose}, 9},
		"fewer where they have not":                            {[]string{tight}, []string{tight, tight, tight}, 2},
		"those with time take none of that of others":          {[]string{""}, []string{loose, loose, loose, loose}, 3},
		"those without join what is still quick":               {[]string{loose}, []string{tight, tight, tight}, 2},
		"a deadline that nothing can hold takes nobody's room": {[]string{impossible}, []string{"", "", "", ""}, 3},
		"nor is it held once others are there":                 {[]string{""}, []string{impossible, impossible}, 1},
	} {
		t.Run(name, func(t *testing.T) { begins(t, tpot, append(c.there, c.come...), c.want) })
	}
}

// A deadline for the first token holds where a request may begin, as that per token
// does. Its prompt takes 10 ms here, and the step before it 10 ms for each sequence.
func TestRoomGoesByTheDeadlinesOfFirstTokens(t *testing.T) {
	const ttft, enough, tight, impossible = "x-llm-d-slo-ttft-ms", "45", "35", "5"
	for name, c := range map[string]struct {
		there, come []string
		want        int // in flight
	}{
		"as many as without one where it leaves time": {[]string{""}, []string{enough, enough, enough, enough}, 3},
		"fewer where it does not":                     {[]string{""}, []string{tight, tight, tight}, 2},
		"those without one still find their room":     {[]string{"", tight}, []string{tight, "", ""}, 3},
		"what comes too late is not begun":            {[]string{""}, []string{impossible}, 1},
		"unless nobody is slowed by it":               {[]string{impossible}, nil, 1},
	} {
		t.Run(name, func(t *testing.T) { begins(t, ttft, append(c.there, c.come...), c.want) })
	}
}

// The wait for room counts: one that had time is refused when too little is left, and
// holds up nobody who came later and has more.
func TestAWaitLeavesLessTimeForTheFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const ttft = "x-llm-d-slo-ttft-ms"
		g := paced(t)
		for i := range 3 { // all that hold 40 ms per token; the last stays longest
			time.Sleep(time.Duration(i/2) * 300 * time.Millisecond)
			g.send(t.Context(), fmt.Sprint(i))
		}
		time.Sleep(200 * time.Millisecond)
		g.send(t.Context(), "early", ttft, "505")
		time.Sleep(100 * time.Millisecond)
		g.send(t.Context(), "late", ttft, "505")
		g.all.Wait()
		if a := g.answer("early"); a.status != http.StatusTooManyRequests || a.header.Get("X-Gearshift-Reason") != "deadline" {
			t.Errorf("5 ms before its time: status %d, header %v", a.status, a.header)
		}
		if a := g.answer("late"); a.status != http.StatusOK || a.took != 400*time.Millisecond+time.Second {
			t.Errorf("105 ms before its time: status %d after %v, want it begun after 400 ms", a.status, a.took)
		}
	})
}
