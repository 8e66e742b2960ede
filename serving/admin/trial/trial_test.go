package trial

import (
	"errors"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
)

// policy is one that has a name and no more.
type policy string

func (p policy) Name() string                                    { return string(p) }
func (policy) Scratch() int                                      { return 0 }
func (policy) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }
func (policy) Match(*fleet.Table) error                          { return nil }

// policies are a router's, and the store that they come from.
type policies struct {
	charge, earlier, trial string
	share                  float64
	restored               string
}

func (p *policies) SetPolicy(q router.Policy) error {
	p.earlier, p.charge = p.charge, q.Name()
	return nil
}

func (p *policies) Try(q router.Policy, share float64) error {
	p.trial, p.share = q.Name(), share
	return nil
}

func (p *policies) EndTrial() bool {
	was := p.trial
	p.trial = ""
	return was != ""
}

func (p *policies) Promote() error {
	p.earlier, p.charge, p.trial = p.charge, p.trial, ""
	return nil
}

func (p *policies) Rollback() error {
	if p.earlier == "" {
		return router.ErrNoEarlier
	}
	p.charge, p.earlier = p.earlier, ""
	return nil
}

func (p *policies) Earlier() (string, bool) { return p.earlier, p.earlier != "" }

func (p *policies) Trial() (router.Trial, bool) {
	return router.Trial{Policy: p.trial, Share: p.share}, p.trial != ""
}

func (*policies) Policy(ref string) (router.Policy, error) { return policy(ref), nil }

func (*policies) Admit(_, reason string) error {
	if reason == "" {
		return errors.New("it has no evaluation")
	}
	return nil
}

func (*policies) Record(string, string) error { return nil }

func (p *policies) Restore(name string) error {
	p.restored = name
	return nil
}

func newTrials(p *policies, c Config) *Trials {
	var now time.Duration
	o := Options{
		Table: &fleet.Table{}, InCharge: func() string { return p.charge }, Policies: p, Source: p,
		Objective: func(string) string { return "" }, Config: func() Config { return c },
		Clock: func() time.Duration { now++; return now }, Log: slog.New(slog.DiscardHandler),
	}
	return New(o)
}

// TestOrdersThatAreRefused: what cannot be done changes nothing, and has a status and a code.
func TestOrdersThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct {
		order, ref string
		share      float64
		status     int
		code       string
	}{
		"no such order":         {order: "undo", status: http.StatusNotFound, code: "unknown_order"},
		"a share of nothing":    {order: "canary", ref: "b@1", status: http.StatusBadRequest, code: "invalid_share"},
		"more than all":         {order: "canary", ref: "b@1", share: 1.5, status: http.StatusBadRequest, code: "invalid_share"},
		"no policy named":       {order: "promote", status: http.StatusConflict, code: "no_trial"},
		"no reason to promote":  {order: "promote", ref: "b@1", status: http.StatusConflict, code: "not_admitted"},
		"nothing to go back to": {order: "rollback", status: http.StatusConflict, code: "no_earlier_policy"},
		"another is in charge":  {order: "rollback", ref: "b", status: http.StatusConflict, code: "not_that_policy"},
	} {
		t.Run(name, func(t *testing.T) {
			p := &policies{charge: "a@1"}
			_, err := newTrials(p, Config{}).Order(c.order, c.ref, c.share, "")
			var refused OrderError
			if !errors.As(err, &refused) || refused.Status != c.status || refused.Code != c.code {
				t.Errorf("%v (%d %s); want %d %s", err, refused.Status, refused.Code, c.status, c.code)
			}
			if *p != (policies{charge: "a@1"}) {
				t.Errorf("the policies are %+v", *p)
			}
		})
	}
	var fixed OrderError
	if _, err := New(Options{}).Order("shadow", "a", 0, ""); !errors.As(err, &fixed) || fixed.Status != http.StatusNotImplemented {
		t.Errorf("without a store: %v", err)
	}
}

// TestRollbackEndsTheTrialFirst: the first rollback takes the trial away, the second the policy
// in charge, and only that is recorded in the store.
func TestRollbackEndsTheTrialFirst(t *testing.T) {
	p := &policies{charge: "b@2", earlier: "a@1", trial: "c@3", share: 0.5}
	trials := newTrials(p, Config{})
	if _, err := trials.Order("rollback", "c", 0, ""); err != nil || p.trial != "" || p.charge != "b@2" || p.restored != "" {
		t.Fatalf("%v, %+v", err, *p)
	}
	if _, err := trials.Order("rollback", "store:b", 0, ""); err != nil || p.charge != "a@1" || p.restored != "a@1" {
		t.Errorf("%v, %+v", err, *p)
	}
}

// TestWorseCanaryEnds: the trial of a canary ends without an order once it is worse beyond
// chance, and neither earlier requests nor reported outcomes count.
func TestWorseCanaryEnds(t *testing.T) {
	for name, c := range map[string]struct {
		rollback, reported bool
		ends               bool
	}{
		"worse":                {rollback: true, ends: true},
		"rollback is off":      {},
		"clients say it alone": {rollback: true, reported: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &policies{charge: "a@1"}
			trials := newTrials(p, Config{Rollback: c.rollback, MinRequests: 100})
			if _, err := trials.Order("canary", "b@1", 0.5, ""); err != nil {
				t.Fatal(err)
			}
			for i := range 200 {
				noise := float64(i%3) / 100
				trials.Ended(Ended{Arrival: time.Hour, Met: true, Utility: 1 + noise})
				trials.Ended(Ended{Arrival: time.Hour, Trial: true, Reported: c.reported, Utility: noise})
				trials.Ended(Ended{Trial: true, Utility: 9}) // it arrived before the trial
			}
			if ended := p.trial == ""; ended != c.ends {
				t.Errorf("it has ended: %v", ended)
			}
			if last := trials.Policies().Last; c.ends && (last == nil || last.By != "trial") {
				t.Errorf("the last order is %+v", last)
			}
		})
	}
}
