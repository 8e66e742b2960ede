package workloads

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Departure is how a workload departs from what the scenario declares, and so
// from what policies were made for. The zero value does not.
type Departure struct {
	// Outputs are other output lengths.
	Outputs Outputs
	// GPU is how many times as long the GPU part of each step truly takes as the
	// profiles say. Zero is as long.
	GPU float64
	// Lost is a host that is lost on the way.
	Lost Loss
	// Timeline is what else happens to the fleet, as written: further losses, and loads,
	// unloads, sleeps, wakes, drains and their ends; see [Departure.Steps].
	Timeline string
	// Evidence is whether losses are known by what is seen of them, not at once.
	Evidence bool
}

// Disturbs reports whether it changes which replicas are up.
func (d Departure) Disturbs() bool { return d.Lost != (Loss{}) || d.Timeline != "" || d.Evidence }

// Loss is a host that is lost in the midst of a run. The zero value is none.
type Loss struct {
	Host string
	// From and To are times since the workload began; To of zero is never.
	From, To time.Duration
}

// departureForms is what the suffixes of a workload look like.
const departureForms = "+outputs:xFACTOR or +outputs:DISTRIBUTION,… | +gpu:xFACTOR | +lost:HOST@FROM-[TO] | " +
	"+load: or +unload: or +sleep: or +wake: or +drain: or +undrain:VARIANT@HOST@SECONDS | +evidence"

// suffixes of a workload, in the order in which they are written. They are read in any.
var suffixes = []struct {
	sign  string
	parse func(d *Departure, text string) error
}{
	{"+outputs:", func(d *Departure, text string) (err error) {
		if d.Outputs != (Outputs{}) {
			return errors.New("+outputs is there twice; want it once")
		}
		d.Outputs, err = parseOutputs(text)
		return err
	}},
	{"+gpu:", func(d *Departure, text string) (err error) {
		if d.GPU != 0 {
			return errors.New("+gpu is there twice; want it once")
		}
		d.GPU, err = parseFactor(text)
		return err
	}},
	{"+lost:", func(d *Departure, text string) error {
		l, err := parseLoss(text)
		if err == nil && d.Lost != (Loss{}) {
			d.Timeline += "+lost:" + l.String()
		} else {
			d.Lost = l
		}
		return err
	}},
	{"+load:", step("load")}, {"+unload:", step("unload")}, {"+sleep:", step("sleep")},
	{"+wake:", step("wake")}, {"+drain:", step("drain")}, {"+undrain:", step("undrain")},
	{"+evidence", func(d *Departure, text string) error {
		if text != "" {
			return fmt.Errorf("+evidence takes nothing after it, got %q", text)
		}
		d.Evidence = true
		return nil
	}},
}

// parseDeparture takes the suffixes off the end of a workload.
func parseDeparture(text string) (rest string, d Departure, err error) {
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
		if err := s.parse(&d, text[x.from+len(s.sign):x.to]); err != nil {
			return text, Departure{}, err
		}
	}
	return rest, d, nil
}

// String is the suffixes.
func (d Departure) String() string {
	var text string
	if d.Outputs != (Outputs{}) {
		text += "+outputs:" + d.Outputs.String()
	}
	if d.GPU != 0 {
		text += "+gpu:x" + number(d.GPU)
	}
	if d.Lost != (Loss{}) {
		text += "+lost:" + d.Lost.String()
	}
	text += d.Timeline
	if d.Evidence {
		text += "+evidence"
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

// parseMoment reads seconds since the beginning.
func parseMoment(text string) (time.Duration, bool) {
	x, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, false
	}
	return seconds(x)
}

// String is the loss as parseLoss reads it.
func (l Loss) String() string {
	text := l.Host + "@" + plainSeconds(l.From) + "-"
	if l.To > 0 {
		text += plainSeconds(l.To)
	}
	return text
}

func plainSeconds(t time.Duration) string { return strconv.FormatFloat(t.Seconds(), 'f', -1, 64) }
