package workloads

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gearshift/workloads/traces"
)

// Perturbation is how a workload differs from what the scenario declares, and so
// from what policies were made for. The zero value does not.
type Perturbation struct {
	// Outputs are other output lengths.
	Outputs Outputs
	// GPU is how many times as long the GPU part of each step truly takes as the
	// profiles say. Zero is as long.
	GPU float64
	// Lost is a host that is lost on the way.
	Lost Loss
	// Timeline is what else happens to the fleet, as written: further losses, and loads,
	// unloads, sleeps, wakes, drains and their ends; see [Perturbation.Steps].
	Timeline string
	// Evidence is whether losses are known by what is seen of them, not at once.
	Evidence bool
	// Streams are clients that stream frames to the same fleet.
	Streams Streams
}

// Disturbs reports whether it changes which replicas are up.
func (p Perturbation) Disturbs() bool { return p.Lost != (Loss{}) || p.Timeline != "" || p.Evidence }

// Loss is a host that is lost in the midst of a run. The zero value is none.
type Loss struct {
	Host string
	// From and To are times since the workload began; To of zero is never.
	From, To time.Duration
}

// perturbationForms is what the suffixes of a workload look like.
const perturbationForms = "+outputs:xFACTOR or +outputs:DISTRIBUTION,… | +gpu:xFACTOR | +lost:HOST@FROM-[TO] | " +
	"+load: or +unload: or +sleep: or +wake: or +drain: or +undrain:VARIANT@HOST@SECONDS | +version:MODEL=VERSION@SECONDS | +evidence | +streams:CLIENTS[,SLA[,LINK[,SECONDS]]]"

// suffixes of a workload, in the order in which they are written. They are read in any.
var suffixes = []struct {
	sign  string
	parse func(p *Perturbation, text string) error
}{
	{"+outputs:", func(p *Perturbation, text string) (err error) {
		if p.Outputs != (Outputs{}) {
			return errors.New("+outputs is there twice; want it once")
		}
		p.Outputs, err = parseOutputs(text)
		return err
	}},
	{"+gpu:", func(p *Perturbation, text string) (err error) {
		if p.GPU != 0 {
			return errors.New("+gpu is there twice; want it once")
		}
		p.GPU, err = parseFactor(text)
		return err
	}},
	{"+lost:", func(p *Perturbation, text string) error {
		l, err := parseLoss(text)
		if err == nil && p.Lost != (Loss{}) {
			p.Timeline += "+lost:" + l.String()
		} else {
			p.Lost = l
		}
		return err
	}},
	{"+load:", step("load")}, {"+unload:", step("unload")}, {"+sleep:", step("sleep")},
	{"+wake:", step("wake")}, {"+drain:", step("drain")}, {"+undrain:", step("undrain")},
	{"+version:", func(p *Perturbation, text string) error {
		at := max(0, strings.LastIndexByte(text, '@'))
		model, version, _ := strings.Cut(text[:at], "=")
		moment, ok := parseMoment(strings.TrimPrefix(text[at:], "@"))
		if model == "" || version == "" || !ok {
			return fmt.Errorf("%q is not a model, its next version and a time such as +version:opt-6.7b=2@60, in seconds", text)
		}
		p.Timeline += "+" + Step{Verb: Version, Replica: text[:at], At: moment}.String()
		return nil
	}},
	{"+evidence", func(p *Perturbation, text string) error {
		if text != "" {
			return fmt.Errorf("+evidence takes nothing after it, got %q", text)
		}
		p.Evidence = true
		return nil
	}},
	{"+streams:", func(p *Perturbation, text string) (err error) {
		if p.Streams != (Streams{}) {
			return errors.New("+streams is there twice; want it once")
		}
		p.Streams, err = parseStreams(text)
		return err
	}},
}

// parsePerturbation takes the suffixes off the end of a workload.
func parsePerturbation(text string) (rest string, p Perturbation, err error) {
	type suffix struct{ which, from, to int }
	var found []suffix // the last first
	for rest = text; ; {
		last := suffix{from: -1, to: len(rest)}
		for i := range suffixes {
			if at := strings.LastIndex(rest, suffixes[i].sign); at > last.from {
				last.which, last.from = i, at
			}
		}
		if last.from < 0 {
			break
		}
		found = append(found, last)
		rest = rest[:last.from]
	}
	for _, x := range slices.Backward(found) {
		s := suffixes[x.which]
		if err := s.parse(&p, text[x.from+len(s.sign):x.to]); err != nil {
			return text, Perturbation{}, err
		}
	}
	return rest, p, nil
}

// String returns the suffixes.
func (p Perturbation) String() string {
	var text string
	if p.Outputs != (Outputs{}) {
		text += "+outputs:" + p.Outputs.String()
	}
	if p.GPU != 0 {
		text += "+gpu:x" + number(p.GPU)
	}
	if p.Lost != (Loss{}) {
		text += "+lost:" + p.Lost.String()
	}
	text += p.Timeline
	if p.Evidence {
		text += "+evidence"
	}
	if p.Streams != (Streams{}) {
		text += "+streams:" + p.Streams.String()
	}
	return text
}

// parseFactor reads "x1.25".
func parseFactor(text string) (float64, error) {
	digits, ok := strings.CutPrefix(text, "x")
	factor, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(factor >= minScale && factor <= maxScale) {
		return 0, fmt.Errorf("%q is not a factor such as x1.25, from x%v to x%v", text, minScale, float64(maxScale))
	}
	return factor, nil
}

// parseLoss reads "gpu0@60-120" and "gpu0@60-".
func parseLoss(text string) (Loss, error) {
	wrong := func() (Loss, error) {
		return Loss{}, fmt.Errorf("%q is not a loss such as gpu0@60-120 or, for good, gpu0@60-, in seconds", text)
	}
	host, times, _ := strings.Cut(text, "@")
	from, to, ok := strings.Cut(times, "-")
	l := Loss{Host: host}
	var fromOK bool
	if l.From, fromOK = parseMoment(from); host == "" || !ok || !fromOK {
		return wrong()
	}
	if to != "" {
		var toOK bool
		if l.To, toOK = parseMoment(to); !toOK || l.To <= l.From {
			return wrong()
		}
	}
	return l, nil
}

// ParseLoss reads the loss of a host as a workload has it, gpu0@60-120 or, for good, gpu0@60-, in
// seconds, which may have their unit, as in gpu0@60s-120s.
func ParseLoss(text string) (Loss, error) {
	host, times, ok := strings.Cut(text, "@")
	if ok {
		from, to, _ := strings.Cut(times, "-")
		if strings.Contains(times, "-") {
			times = strings.TrimSuffix(from, "s") + "-" + strings.TrimSuffix(to, "s")
		}
	}
	l, err := parseLoss(host + "@" + times)
	if err != nil {
		return l, fmt.Errorf("%q is not a loss such as gpu0@60-120 or, for good, gpu0@60-, in seconds", text)
	}
	return l, nil
}

// parseMoment reads seconds since the beginning.
func parseMoment(text string) (time.Duration, bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	return traces.Seconds(x)
}

// String returns the loss as parseLoss reads it.
func (l Loss) String() string {
	text := l.Host + "@" + plainSeconds(l.From) + "-"
	if l.To > 0 {
		text += plainSeconds(l.To)
	}
	return text
}

func plainSeconds(t time.Duration) string { return strconv.FormatFloat(t.Seconds(), 'f', -1, 64) }

// Version is the verb of a step that orders another version of a model.
const Version = "version"

// Step is one change of a replica, or of a model's version, at a time.
type Step struct {
	// Verb is load, unload, sleep, wake, drain, undrain or [Version].
	Verb string
	// Replica is named VARIANT@HOST. Of a [Version] it is MODEL=VERSION.
	Replica string
	// At is the time since the workload began.
	At time.Duration
}

// String returns the step as it is written in a workload.
func (s Step) String() string { return s.Verb + ":" + s.Replica + "@" + plainSeconds(s.At) }

// step reads "opt-6.7b@gpu0@60", and writes it into the timeline.
func step(verb string) func(p *Perturbation, text string) error {
	return func(p *Perturbation, text string) error {
		at := max(0, strings.LastIndexByte(text, '@'))
		variant, host, _ := strings.Cut(text[:at], "@")
		moment, ok := parseMoment(strings.TrimPrefix(text[at:], "@"))
		if variant == "" || host == "" || !ok {
			return fmt.Errorf("%q is not a replica and a time such as +%s:opt-6.7b@gpu0@60, in seconds", text, verb)
		}
		p.Timeline += "+" + Step{Verb: verb, Replica: text[:at], At: moment}.String()
		return nil
	}
}

// Steps returns those of the timeline in order of their times.
func (p Perturbation) Steps() (steps []Step) {
	for _, text := range strings.Split(p.Timeline, "+") {
		verb, rest, _ := strings.Cut(text, ":")
		at := strings.LastIndexByte(rest, '@')
		if verb == "lost" || at < 0 {
			continue
		}
		moment, _ := parseMoment(rest[at+1:])
		steps = append(steps, Step{Verb: verb, Replica: rest[:at], At: moment})
	}
	slices.SortStableFunc(steps, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return steps
}

// Losses returns all hosts that are lost.
func (p Perturbation) Losses() (losses []Loss) {
	if p.Lost != (Loss{}) {
		losses = append(losses, p.Lost)
	}
	for _, text := range strings.Split(p.Timeline, "+") {
		if rest, ok := strings.CutPrefix(text, "lost:"); ok {
			if l, err := parseLoss(rest); err == nil { // as it was when it was written
				losses = append(losses, l)
			}
		}
	}
	return losses
}

// Streams are clients that stream frames beside the requests of a workload. The zero value is none.
type Streams struct {
	Clients int
	SLA     float64
	// Link is one of [StreamLinks].
	Link string
	// Session is how long each stays, and is followed by another; zero is to the end.
	Session time.Duration
}

// StreamLinks names the networks between streaming clients and the router; the first is the default.
var StreamLinks = []string{"5g", "lte"}

const (
	usualSLA    = 0.06
	mostStreams = 100_000
)

// parseStreams reads "24", "24,0.04", "24,0.04,lte" and "24,0.04,lte,30".
func parseStreams(text string) (Streams, error) {
	wrong := func() (Streams, error) {
		return Streams{}, fmt.Errorf("%q is not a number of clients, their SLA, their link (%s) and how many seconds each stays, as in +streams:24 or +streams:24,0.04,lte,30", text, strings.Join(StreamLinks, " or "))
	}
	parts := append(strings.Split(text, ","), "", "", "")
	x := Streams{SLA: usualSLA, Link: StreamLinks[0]}
	var err error
	if x.Clients, err = strconv.Atoi(parts[0]); err != nil || x.Clients < 1 || x.Clients > mostStreams || len(parts) > 7 {
		return wrong()
	}
	if parts[1] != "" {
		if x.SLA, err = strconv.ParseFloat(parts[1], 64); err != nil || !(x.SLA >= 0 && x.SLA <= 1) {
			return wrong()
		}
	}
	if parts[2] != "" {
		if x.Link = parts[2]; !slices.Contains(StreamLinks, x.Link) {
			return wrong()
		}
	}
	if parts[3] != "" {
		var ok bool
		if x.Session, ok = parseMoment(parts[3]); !ok || x.Session < time.Second {
			return wrong()
		}
	}
	return x, nil
}

// String returns the streams as parseStreams reads them.
func (x Streams) String() string {
	text := fmt.Sprintf("%d,%s,%s", x.Clients, number(x.SLA), x.Link)
	if x.Session > 0 {
		text += "," + plainSeconds(x.Session)
	}
	return text
}
