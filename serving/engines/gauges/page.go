package gauges

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"time"

	"gearshift/router/signals"
)

// LoadsPath is where SGLang's servers say their load, and this program's.
const LoadsPath = "/v1/loads"

// LoadsPage is the answer at [LoadsPath].
type LoadsPage struct {
	// Timestamp is for readers. Programs that use the page have clocks of their own.
	Timestamp string `json:"timestamp,omitempty"`
	Ranks     int    `json:"dp_rank_count"`
	// All is the name that stands for all models together; empty if none does.
	All   string `json:"all_models,omitempty"`
	Loads []Rank `json:"loads"`
}

// Rank is what one of SGLang's schedulers says or, of a server with several models, one model. What
// is nil is not said.
type Rank struct {
	Rank    int      `json:"dp_rank"`
	Model   string   `json:"model,omitempty"`
	Running *float64 `json:"num_running_reqs,omitempty"`
	Waiting *float64 `json:"num_waiting_reqs,omitempty"`
	// Used is how many tokens the KV cache holds, and Most how many it can.
	Used        *float64 `json:"num_used_tokens,omitempty"`
	Most        *float64 `json:"max_total_num_tokens,omitempty"`
	KVUse       *float64 `json:"token_usage,omitempty"`
	Utilization *float64 `json:"utilization,omitempty"`

	// The rest is this program's own.
	Host     *float64 `json:"host_requests,omitempty"`
	Examples *float64 `json:"outstanding_examples,omitempty"`
	Work     *float64 `json:"outstanding_work_seconds,omitempty"`
	Cores    *float64 `json:"host_cores,omitempty"`
	CPU      *float64 `json:"cpu_utilization,omitempty"`
	Rate     *float64 `json:"requests_per_second,omitempty"`
	Errors   *float64 `json:"errors_per_second,omitempty"`
	Answered *float64 `json:"requests_answered,omitempty"`
	Instance uint32   `json:"instance_id,omitempty"`
}

// NewLoadsPage makes the page of a server's models, each with its name and load.
func NewLoadsPage(names []string, loads []signals.Load, now time.Time) LoadsPage {
	p := LoadsPage{Timestamp: now.UTC().Format(time.RFC3339Nano), Ranks: len(names), Loads: make([]Rank, len(names))}
	for i := range names {
		p.Loads[i] = rankOf(i, names[i], &loads[i])
	}
	return p
}

func rankOf(i int, model string, l *signals.Load) Rank {
	say := func(v float64) *float64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	r := Rank{
		Rank: i, Model: model, Waiting: say(l.Waiting), Used: say(l.KVTokens), KVUse: say(l.KVUse), Utilization: say(l.Utilization),
		Host: say(l.Host), Examples: say(l.Examples), Work: say(l.Work), Cores: say(l.Cores), CPU: say(l.CPU),
		Rate: say(l.Rate), Errors: say(l.Errors), Answered: say(l.Answered), Instance: l.Instance,
	}
	if l.Requests >= 0 {
		r.Running = say(max(0, l.Requests-max(0, l.Waiting)))
	}
	return r
}

// biggestLoads is the most of a page that is read.
const biggestLoads = 1 << 20

// ParseLoads reads the page for a model. Of ranks that name models only those of this one count, if
// there are any; requests of several add up, and of shares the mean counts.
func ParseLoads(text []byte, model string) (l signals.Load, ours bool, err error) {
	l = signals.NewLoad()
	if len(text) > biggestLoads {
		return l, false, fmt.Errorf("cannot read %s: it has %d bytes; want at most %d", LoadsPath, len(text), biggestLoads)
	}
	var p LoadsPage
	if err := json.Unmarshal(text, &p); err != nil {
		return l, false, fmt.Errorf("cannot read %s: %w", LoadsPath, err)
	}
	ranks := p.Loads
	if p.All != "" && model == p.All {
		ours = true
	} else if some := ranksOf(ranks, model); len(some) > 0 {
		ranks, ours = some, true
	} else {
		ranks = ranksOf(ranks, "")
	}
	ready := ranks[:0:0]
	for _, r := range ranks {
		if r.Most == nil || *r.Most > 0 { // SGLang's page is all zeros before the first request
			ready = append(ready, r)
		}
	}
	if len(ready) == 0 {
		return l, false, fmt.Errorf("cannot read %s: %w", LoadsPath, errNotReady)
	}
	add(&l, ready)
	if ours {
		l.Model = signals.ModelID(model)
	}
	return l, ours, nil
}

// errNotReady is the error of a page on which no scheduler that can answer says anything.
var errNotReady = errors.New("no scheduler of the model is ready")

func ranksOf(all []Rank, model string) (some []Rank) {
	for _, r := range all {
		if r.Model == model {
			some = append(some, r)
		}
	}
	return some
}

// add puts ranks together.
func add(l *signals.Load, ranks []Rank) {
	total := func(of func(r *Rank) *float64) float64 { return sumOfRanks(ranks, of, false) }
	share := func(of func(r *Rank) *float64) float64 { return sumOfRanks(ranks, of, true) }
	l.Waiting = total(func(r *Rank) *float64 { return r.Waiting })
	if running := total(func(r *Rank) *float64 { return r.Running }); running != signals.Unsaid {
		l.Requests = running
		if l.Waiting > 0 {
			l.Requests += l.Waiting
		}
	}
	l.KVTokens = total(func(r *Rank) *float64 { return r.Used })
	l.KVUse = share(func(r *Rank) *float64 { return r.KVUse })
	l.Utilization = share(func(r *Rank) *float64 { return r.Utilization })
	l.Examples = total(func(r *Rank) *float64 { return r.Examples })
	l.Rate, l.Errors = total(func(r *Rank) *float64 { return r.Rate }), total(func(r *Rank) *float64 { return r.Errors })
	l.Answered = total(func(r *Rank) *float64 { return r.Answered })
	// What is of the host is the same in each.
	l.Host, l.Work = share(func(r *Rank) *float64 { return r.Host }), share(func(r *Rank) *float64 { return r.Work })
	l.Cores, l.CPU = share(func(r *Rank) *float64 { return r.Cores }), share(func(r *Rank) *float64 { return r.CPU })
	l.Instance = ranks[0].Instance
}

// sumOfRanks adds up the values that are said, or takes their mean. One below zero makes the sum
// impossible.
func sumOfRanks(ranks []Rank, of func(r *Rank) *float64, mean bool) float64 {
	var all, n float64
	for i := range ranks {
		v := of(&ranks[i])
		switch {
		case v == nil:
			continue
		case *v < 0:
			return math.Inf(-1)
		}
		all, n = all+*v, n+1
	}
	switch {
	case n == 0:
		return signals.Unsaid
	case mean:
		return all / n
	}
	return all
}
