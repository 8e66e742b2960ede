package workloads

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Spec is a workload as the command line names it. The zero value is none; get
// one from [Parse] or fill the fields that belong to the form.
type Spec struct {
	// Form is the word before the colon: "stable", "u1", "u2", "u2-uniform",
	// "poisson", "gamma", "weibull", "mmpp", "schedule", "trace", or a burst's name.
	Form string
	// Rate per second. Of "stable" 0 is the sweep over all rates, of "trace" it
	// is the trace's own, of "mmpp" that between the bursts.
	Rate float64
	// High is the rate within the bursts of "mmpp"; Calm and Burst are the mean
	// seconds between them and of them.
	High, Calm, Burst float64
	// Phases are those of "schedule", as written.
	Phases string
	// CV is the coefficient of variation of the gaps, of "gamma" and "weibull".
	CV float64
	// File is the trace: a built-in one's name, or a path.
	File string
	// Lengths is whether the trace's own token counts are used.
	Lengths bool
	// Zero is whether requests of the trace without tokens are kept, with one token.
	Zero bool
	// Last, if not zero, is the share of the trace that is played, its end, in Blocks of as many
	// requests each: another for each seed.
	Last   float64
	Blocks int
	Perturbation
}

// Forms is what Parse accepts, for messages and help texts.
const Forms = "stable[:RATE] | u1 | u2 | u2-uniform | short-bursts | long-bursts | clusters | poisson:RATE | gamma:RATE,CV | weibull:RATE,CV | mmpp:LOW,HIGH,CALM_S,BURST_S | " +
	"schedule:RATExS,RATExS,… | trace:FILE[@RATE][+lengths][+zero][+last:SHARE/BLOCKS], FILE being azure-code, arena or a path; and at the end of any: " + perturbationForms

// Parse reads a workload as [Forms] lists them. Rates are per second. The error
// is one line that says what is wrong and what is accepted.
func Parse(text string) (Spec, error) {
	s, err := parse(text)
	if err != nil {
		return Spec{}, fmt.Errorf("workload %q: %w; accepted: %s", text, err, Forms)
	}
	return s, nil
}

func parse(text string) (Spec, error) {
	text, perturbation, err := parsePerturbation(text)
	if err != nil {
		return Spec{}, err
	}
	form, rest, given := strings.Cut(text, ":")
	s := Spec{Form: form, Perturbation: perturbation}
	switch form {
	case "u1", "u2", "u2-uniform", "short-bursts", "long-bursts", "clusters":
		if given {
			err = fmt.Errorf("%s takes nothing after it", form)
		}
	case "stable":
		if given {
			s.Rate, err = parseRate(rest)
		}
	case "poisson":
		s.Rate, err = parseRate(rest)
	case "gamma", "weibull":
		rate, cv, both := strings.Cut(rest, ",")
		if !both {
			return s, fmt.Errorf("%s needs a rate and a coefficient of variation, such as %s:2,3", form, form)
		}
		if s.Rate, err = parseRate(rate); err == nil {
			s.CV, err = parseCV(cv)
		}
	case "mmpp":
		err = s.parseMMPP(rest)
	case "schedule":
		var schedule Schedule
		schedule, err = parseSchedule(rest)
		s.Phases = schedule.String()
	case "trace":
		if err = s.parseTrace(rest); err == nil && s.Lengths && s.Outputs != (Outputs{}) {
			err = errors.New("+lengths and +outputs contradict each other")
		}
	default:
		err = unknownForm(form)
	}
	return s, err
}

// unknownForm is the error for a form that does not exist. What follows a
// workload that does exist is a suffix, so the suffix is named.
func unknownForm(form string) error {
	if name, suffix, more := strings.Cut(form, "+"); more && name != "" {
		if _, err := parse(name); err == nil {
			return fmt.Errorf("%q is no suffix", "+"+suffix)
		}
	}
	return errors.New("no workload is called that")
}

// parseMMPP reads the rates and mean lengths of calm and bursts.
func (s *Spec) parseMMPP(text string) error {
	words := strings.Split(text, ",")
	if len(words) != 4 {
		return errors.New("mmpp needs two rates and two mean lengths in seconds, such as mmpp:1,48,20,2")
	}
	for i, field := range []*float64{&s.Rate, &s.High, &s.Calm, &s.Burst} {
		var err error
		if *field, err = strconv.ParseFloat(words[i], 64); err != nil {
			return fmt.Errorf("%q is not a number", words[i])
		}
	}
	return checkBursts(s.Rate, s.High, s.Calm, s.Burst)
}

// parseTrace takes the suffixes off the end, for a file name may hold both
// signs. What follows an @ is part of the name unless it is a number.
func (s *Spec) parseTrace(text string) error {
	if at := strings.LastIndex(text, lastSuffix); at >= 0 {
		if err := s.parseLast(text[at+len(lastSuffix):]); err != nil {
			return err
		}
		text = text[:at]
	}
	text, s.Zero = strings.CutSuffix(text, "+zero")
	s.File, s.Lengths = strings.CutSuffix(text, "+lengths")
	if at := strings.LastIndexByte(s.File, '@'); at >= 0 {
		if _, err := strconv.ParseFloat(s.File[at+1:], 64); !errors.Is(err, strconv.ErrSyntax) {
			if s.Rate, err = parseRate(s.File[at+1:]); err != nil {
				return err
			}
			s.File = s.File[:at]
		}
	}
	if s.File == "" {
		return errors.New("trace needs a file")
	}
	return nil
}

// lastSuffix is before the share of a trace that is played.
const lastSuffix = "+last:"

// parseLast reads a share and a number of blocks.
func (s *Spec) parseLast(text string) error {
	share, blocks, _ := strings.Cut(text, "/")
	var err error
	if s.Last, err = strconv.ParseFloat(share, 64); err != nil || !(s.Last > 0 && s.Last < 1) {
		return fmt.Errorf("%q is not the share of a trace; above 0 and below 1, such as +last:0.5/10, would be right", share)
	}
	if s.Blocks, err = strconv.Atoi(blocks); err != nil || s.Blocks < 1 {
		return fmt.Errorf("%q is not a number of blocks; 1 or more, such as +last:0.5/10, would be right", blocks)
	}
	return nil
}

func parseRate(text string) (float64, error) {
	rate, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a rate", text)
	}
	return rate, checkRate(rate)
}

func parseCV(text string) (float64, error) {
	cv, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return 0, fmt.Errorf("%q is not a coefficient of variation", text)
	}
	return cv, checkCV(cv)
}

// String returns the workload in the form that [Parse] reads.
func (s Spec) String() string { return s.base() + s.Perturbation.String() }

func number(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// base returns the workload without its suffixes.
func (s Spec) base() string {
	switch {
	case s.Form == "mmpp":
		return s.Form + ":" + number(s.Rate) + "," + number(s.High) + "," + number(s.Calm) + "," + number(s.Burst)
	case s.Form == "schedule":
		return s.Form + ":" + s.Phases
	case s.Form == "trace":
		text := s.Form + ":" + s.File
		if s.Rate > 0 {
			text += "@" + number(s.Rate)
		}
		if s.Lengths {
			text += "+lengths"
		}
		if s.Zero {
			text += "+zero"
		}
		if s.Last > 0 {
			text += lastSuffix + number(s.Last) + "/" + strconv.Itoa(s.Blocks)
		}
		return text
	case s.CV > 0:
		return s.Form + ":" + number(s.Rate) + "," + number(s.CV)
	case s.Rate > 0:
		return s.Form + ":" + number(s.Rate)
	default:
		return s.Form
	}
}

// TrueRate is whether the router is told the true arrival rate instead of
// estimating it: with the stable workload alone (LBE-19).
func (s Spec) TrueRate() bool { return s.Form == "stable" }

// Sweep is whether the workload stands for one at each of many rates, and has
// to be expanded before it opens.
func (s Spec) Sweep() bool { return s.Form == "stable" && s.Rate == 0 }

// Expand returns the workloads that this one stands for: itself, or of a sweep one
// at each of the rates.
func (s Spec) Expand(rates []float64) []Spec {
	if !s.Sweep() {
		return []Spec{s}
	}
	all := make([]Spec, len(rates))
	for i, rate := range rates {
		all[i] = s
		all[i].Rate = rate
	}
	return all
}

// ParseStream is [Parse] of a workload that is one stream of requests, and no more than that.
func ParseStream(text string) (Spec, error) {
	spec, err := Parse(text)
	switch {
	case err != nil:
		return spec, err
	case spec.Sweep():
		return spec, fmt.Errorf("workload %q stands for one at each of several rates; name a rate, such as %s:5", text, text)
	case spec.GPU != 0 || spec.Lost != (Loss{}):
		return spec, fmt.Errorf("workload %q: +gpu and +lost change the fleet, not the requests; leave them out", text)
	}
	return spec, nil
}
