package engineserver

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"gearshift/router/signals"
	"gearshift/serving/openai/wire"
)

// Faults are the ways in which a server misbehaves: of the first seven each is
// the share of completion requests that meet it, 0 to 1, together at most 1.
type Faults struct {
	Refuse  float64 // the connection is reset, and nothing answered
	Error   float64 // status 500
	Hang    float64 // nothing is ever answered
	Slow    float64 // the answer begins late, by Delay
	Stall   float64 // the answer stops in its middle, and the connection stays
	Cut     float64 // the answer breaks off in its middle
	Garbage float64 // what comes is no answer, with status 200
	// Delay is that of Slow.
	Delay time.Duration
	// Sick answers /health with 503.
	Sick bool
	// Lie reports an idle engine on /metrics, whatever it does.
	Lie bool
	// Loading is what befalls each load: DieLoading, HangLoading, FailLoading or nothing.
	Loading string
	// Misreport is how the load is misreported in headers and at /v1/loads: LoadZero and the others,
	// or nothing.
	Misreport string
	// NoSleep has no endpoints to sleep and wake.
	NoSleep bool
}

// What may befall a load.
const (
	DieLoading  = "die_loading"  // the process ends
	HangLoading = "hang_loading" // the load ends when it is cancelled
	FailLoading = "fail_loading" // the load fails
)

// noSleep is the word for [Faults.NoSleep].
const noSleep = "no_sleep"

// defaultDelay is a slow answer's where nothing else is said.
const defaultDelay = 2 * time.Second

// FaultForms describes the text that ParseFaults reads.
const FaultForms = "refuse, error, hang, slow, stall, cut and garbage with a share of the requests (hang=0.01), delay (of slow ones) with a time, sick, lie, die_loading, hang_loading or fail_loading, one of load_zero, load_frozen, load_jumps, load_back, load_overflow and load_another, no_sleep, or none"

// share is where a kind of fault has its share.
type share struct {
	name string
	at   *float64
}

func (f *Faults) shares() []share {
	return []share{
		{"refuse", &f.Refuse}, {"error", &f.Error}, {"hang", &f.Hang}, {"slow", &f.Slow},
		{"stall", &f.Stall}, {"cut", &f.Cut}, {"garbage", &f.Garbage},
	}
}

// ParseFaults reads a list such as "hang=0.01,cut=0.02,delay=3s,sick". What it
// does not name is off; an empty text, or "none", is no fault at all.
func ParseFaults(text string) (Faults, error) {
	f := Faults{Delay: defaultDelay}
	for entry := range strings.SplitSeq(text, ",") {
		if entry = strings.TrimSpace(entry); entry == "" || entry == "none" {
			continue
		}
		if err := f.set(entry); err != nil {
			return Faults{}, fmt.Errorf("fault %q: %w", entry, err)
		}
	}
	var sum float64
	for _, s := range f.shares() {
		sum += *s.at
	}
	if sum > 1+1e-9 {
		return Faults{}, fmt.Errorf("faults %q: the shares add up to %v; at most 1 would be right", text, sum)
	}
	return f, nil
}

func (f *Faults) set(entry string) error {
	name, value, valued := strings.Cut(entry, "=")
	switch {
	case name == "sick" && !valued:
		f.Sick = true
		return nil
	case name == "lie" && !valued:
		f.Lie = true
		return nil
	case name == noSleep && !valued:
		f.NoSleep = true
		return nil
	case (name == DieLoading || name == HangLoading || name == FailLoading) && !valued:
		if f.Loading != "" && f.Loading != name {
			return fmt.Errorf("loads already have %s; one of them would be right", f.Loading)
		}
		f.Loading = name
		return nil
	case isMisreport(name) && !valued:
		if f.Misreport != "" && f.Misreport != name {
			return fmt.Errorf("the load is already misreported by %s; one of them would be right", f.Misreport)
		}
		f.Misreport = name
		return nil
	case name == "delay":
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return errors.New("a time such as 2s would be right")
		}
		f.Delay = d
		return nil
	}
	for _, s := range f.shares() {
		if s.name != name {
			continue
		}
		x, err := strconv.ParseFloat(value, 64)
		if err != nil || !(x >= 0 && x <= 1) { // NaN fails too
			return errors.New("a share from 0 to 1 would be right")
		}
		*s.at = x
		return nil
	}
	return errors.New("there are " + FaultForms)
}

// String is the text that ParseFaults reads.
func (f Faults) String() string {
	var list []string
	for _, s := range f.shares() {
		if *s.at > 0 {
			list = append(list, s.name+"="+strconv.FormatFloat(*s.at, 'g', -1, 64))
		}
	}
	if f.Slow > 0 {
		list = append(list, "delay="+f.Delay.String())
	}
	if f.Sick {
		list = append(list, "sick")
	}
	if f.Lie {
		list = append(list, "lie")
	}
	if f.Loading != "" {
		list = append(list, f.Loading)
	}
	if f.Misreport != "" {
		list = append(list, f.Misreport)
	}
	if f.NoSleep {
		list = append(list, noSleep)
	}
	return strings.Join(list, ",")
}

func (s *Server) showFaults(w http.ResponseWriter, _ *http.Request) {
	_, _ = fmt.Fprintln(w, s.faults.current())
}

// setFaults replaces all faults with the body's.
func (s *Server) setFaults(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 4<<10))
	var f Faults
	if err == nil {
		f, err = ParseFaults(string(text))
	}
	if err != nil {
		fail(w, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_fault", Message: err.Error()})
		return
	}
	s.faults.set(f)
	s.log.Info("faults", "are", f.String())
	_, _ = fmt.Fprintln(w, f)
}

// injector draws what befalls each request.
type injector struct {
	mu     sync.Mutex // protects all below
	faults Faults
	random *rand.Rand
	// reports counts those of the load; frozen is the one that is repeated, nil before it.
	reports int
	frozen  *signals.Load
}

func newInjector(f Faults, seed uint64) *injector {
	return &injector{faults: f, random: rand.New(rand.NewPCG(seed, 0))}
}

func (i *injector) current() Faults {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.faults
}

func (i *injector) set(f Faults) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.faults, i.frozen = f, nil
}

// draw is one request's lot. Two numbers are drawn whatever it is, so that the
// lots of later requests do not depend on it.
func (i *injector) draw() trouble {
	i.mu.Lock()
	defer i.mu.Unlock()
	x, t := i.random.Float64(), trouble{delay: i.faults.Delay, variety: i.random.IntN(1 << 16)}
	for _, s := range i.faults.shares() {
		if x < *s.at {
			t.kind = s.name
			break
		}
		x -= *s.at
	}
	return t
}
