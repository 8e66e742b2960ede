package evaluation

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Objective is what a policy is trained and judged for. The zero value is [MeanUtility]. Values
// can be compared.
type Objective struct {
	form form
	// power of the share of its peak that a request earns, for powers.
	power float64
	// share of its peak that a window of so many requests should earn, for windows.
	share float64
	of    int
}

type form uint8

const (
	utility form = iota
	nearPeak
	powers
	windows
)

// MeanUtility is the mean utility per request.
var MeanUtility = Objective{}

// NearPeak is the mean worth of windows of [Window] requests; see [Objective.Worth].
var NearPeak = Objective{form: nearPeak, of: Window}

// Window is the number of requests in a window of the paper's tables (LBE-22).
const Window = 20

// MaxWindow bounds the windows of an objective.
const MaxWindow = 64

// ObjectiveForms are how objectives are written.
const ObjectiveForms = "utility, near-peak, power:P or windows:SHARE,N"

// ParseObjective reads an objective as it is written on the command line, one of [ObjectiveForms].
func ParseObjective(text string) (Objective, error) {
	name, rest, given := strings.Cut(text, ":")
	switch {
	case name == "utility" && !given, text == "":
		return MeanUtility, nil
	case name == "near-peak" && !given:
		return NearPeak, nil
	case name == "near-peak" || name == "utility":
		return Objective{}, fmt.Errorf("%s: %s takes no numbers; want %[2]s alone, or power:P or windows:SHARE,N", text, name)
	case name == "power":
		p, err := strconv.ParseFloat(rest, 64)
		if err != nil {
			return Objective{}, fmt.Errorf("%s: want a number after power:, such as power:8, found %q", text, rest)
		}
		return PowerObjective(p)
	case name == "windows":
		share, of, _ := strings.Cut(rest, ",")
		x, err := strconv.ParseFloat(share, 64)
		n, err2 := strconv.Atoi(strings.TrimSpace(of))
		if err != nil || err2 != nil {
			return Objective{}, fmt.Errorf("%s: want a share and a number of requests, such as windows:0.98,20; several shares at once are near-peak", text)
		}
		return WindowsObjective(x, n)
	}
	return Objective{}, fmt.Errorf("unknown objective %q; want %s", text, ObjectiveForms)
}

// PowerObjective is the mean, per request, of the power p of the share of its peak that it earns.
func PowerObjective(p float64) (Objective, error) {
	if !(p > 0 && p <= 1000) {
		return Objective{}, fmt.Errorf("power %v; want above 0 and at most 1000, such as 8", p)
	}
	return Objective{form: powers, power: p}, nil
}

// WindowsObjective is the share of windows of so many requests that earn at least a share of their
// peak.
func WindowsObjective(share float64, of int) (Objective, error) {
	if !(share > 0 && share <= 1) {
		return Objective{}, fmt.Errorf("share %v of the peak; want above 0 and at most 1, such as 0.98", share)
	}
	if of < 2 || of > MaxWindow {
		return Objective{}, fmt.Errorf("windows of %d requests; want 2 to %d", of, MaxWindow)
	}
	return Objective{form: windows, share: share, of: of}, nil
}

// String is the objective as [ParseObjective] reads it.
func (o Objective) String() string {
	switch o.form {
	case nearPeak:
		return "near-peak"
	case powers:
		return "power:" + strconv.FormatFloat(o.power, 'g', -1, 64)
	case windows:
		return "windows:" + strconv.FormatFloat(o.share, 'g', -1, 64) + "," + strconv.Itoa(o.of)
	}
	return "utility"
}

// MarshalText implements [encoding.TextMarshaler].
func (o Objective) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]; see [ParseObjective].
func (o *Objective) UnmarshalText(text []byte) (err error) {
	*o, err = ParseObjective(string(text))
	return err
}

// IsZero says that it is [MeanUtility].
func (o Objective) IsZero() bool { return o == MeanUtility }

// Window is the number of requests that the objective looks at together; 1 where it looks
// at each alone.
func (o Objective) Window() int { return max(1, o.of) }

// tolerance forgives the rounding of a sum of rewards.
const tolerance = 1e-9

// levels are what [NearPeak] counts.
var levels = [...]float64{0.99, 0.98, 0.96, 0.94}

// Worth is what a window that earns a share of its peak is worth, from 0 to 1.
func (o Objective) Worth(share float64) float64 {
	if o.form == windows {
		if share >= o.share-tolerance {
			return 1
		}
		return 0
	}
	var worth float64
	for _, level := range levels {
		if share >= level-tolerance {
			worth += 1 / float64(len(levels))
		}
	}
	return worth
}

// earned is what a request is worth alone, for objectives that look at each.
func (o Objective) earned(utility, peak float64) float64 {
	if o.form != powers || peak <= 0 {
		return utility
	}
	return peak * math.Pow(max(0, utility/peak), o.power)
}

// Value is what a run was worth, by the utility and the peak of each request in the order of
// their decisions: the mean per request, or per window. It is 0 of a run that has no window,
// and NaN of one that has no request.
func (o Objective) Value(utility, peak []float64) float64 {
	if len(utility) == 0 {
		return math.NaN()
	}
	var sum float64
	if o.of == 0 {
		for i, u := range utility {
			sum += o.earned(u, peak[i])
		}
		return sum / float64(len(utility))
	}
	n := len(utility) - o.of + 1
	for i := range n {
		sum += o.Worth(share(utility[i:i+o.of], peak[i:i+o.of]))
	}
	return sum / float64(max(1, n))
}

// share is what a window earned of its peak; all of it where there was nothing to earn.
func share(utility, peak []float64) float64 {
	var earned, most float64
	for i, u := range utility {
		earned += u
		most += peak[i]
	}
	if most <= 0 {
		return 1
	}
	return earned / most
}
