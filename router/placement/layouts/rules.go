package layouts

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Rules lists the forms of rules, for errors and help.
const Rules = "bands:HIGH,LOW,STAY_S,HORIZON_S or worth:MARGIN,HORIZON_S,STAY_S,HEADROOM,MISSED"

// Rule joins a [Chooser] with the settings of its controller.
type Rule struct {
	Chooser
	// Horizon is the time over which loads are expected, and Stay is the least time that a layout stays.
	Horizon, Stay time.Duration
	// Headroom is the factor of the forecast at which layouts are valued, since chance takes room; 0 is 1.
	Headroom float64
}

func (r *Rule) headroom() float64 {
	if r.Headroom > 0 {
		return r.Headroom
	}
	return 1
}

// Parse reads a rule, such as worth:0.003,10,10,1.2. Numbers that are left out are the defaults.
func Parse(text string) (Rule, error) {
	name, rest, _ := strings.Cut(text, ":")
	var numbers []float64
	if rest != "" {
		for _, word := range strings.Split(rest, ",") {
			x, err := strconv.ParseFloat(strings.TrimSpace(word), 64)
			if err != nil || !(x >= 0 && x <= 86400) {
				return Rule{}, fmt.Errorf("%q in %q is not a number from 0 to 86400; want %s", word, text, Rules)
			}
			numbers = append(numbers, x)
		}
	}
	with := func(defaults ...float64) ([]float64, error) {
		if len(numbers) > len(defaults) {
			return nil, fmt.Errorf("%q has %d numbers; want %s", text, len(numbers), Rules)
		}
		return append(numbers, defaults[len(numbers):]...), nil
	}
	switch name {
	case "bands":
		x, err := with(0.3, 0.27, 20, 10)
		if err != nil {
			return Rule{}, err
		}
		if x[1] >= x[0] {
			return Rule{}, fmt.Errorf("%q has a low of %v from its high of %v on; want less", text, x[1], x[0])
		}
		return Rule{&Bands{High: x[0], Low: x[1]}, max(time.Second, seconds(x[3])), seconds(x[2]), 1}, nil
	case "worth":
		x, err := with(margin, 10, 10, headroom, 0.02)
		if err != nil {
			return Rule{}, err
		}
		if x[3] == 0 {
			return Rule{}, fmt.Errorf("%q has a headroom of 0, with which no load is expected; want 1 or more", text)
		}
		return Rule{&Worth{Margin: x[0], Stay: seconds(x[2]), Missed: x[4]}, max(time.Second, seconds(x[1])), seconds(x[2]), x[3]}, nil
	}
	return Rule{}, fmt.Errorf("unknown rule %q; want %s", text, Rules)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// Stay returns a rule by which all layouts stay, for comparisons.
func Stay() Rule { return By(still{}) }

type still struct{}

// Choose implements [Chooser].
func (still) Choose(*Situation) Change { return None("") }

// Bands is a [Chooser] that keeps utilisation within a band. Utilisation is the forecast of all tasks as a share of
// what the hosts answer in time. Above High, a host takes the layout that answers most more; below Low, one takes the
// layout of the highest quality with which utilisation does not exceed High again.
type Bands struct{ High, Low float64 }

// Choose implements [Chooser].
func (b *Bands) Choose(s *Situation) Change {
	expected, capacity := s.Expected(), 0.0
	for i := range s.Hosts {
		if h := &s.Hosts[i]; h.Present >= 0 {
			capacity += h.Capacity[h.Present]
		}
	}
	used := expected / max(capacity, 1e-9)
	switch {
	case used > b.High:
		c := s.best(func(host, layout int) float64 {
			h := &s.Hosts[host]
			return h.Capacity[layout] - h.Capacity[h.Present]
		})
		c.Reason = fmt.Sprintf("%.1f requests/s are expected, %.0f%% of what is answered in time", expected, 100*used)
		return c
	case used < b.Low:
		c := s.best(func(host, layout int) float64 {
			h := &s.Hosts[host]
			if expected > b.High*(capacity-h.Capacity[h.Present]+h.Capacity[layout]) {
				return 0
			}
			return h.Quality[layout] - h.Quality[h.Present]
		})
		c.Reason = fmt.Sprintf("%.1f requests/s are expected, %.0f%% of what is answered in time", expected, 100*used)
		return c
	}
	return None(fmt.Sprintf("%.0f%% of what is answered in time is expected", 100*used))
}

// Worth is a [Chooser] that takes the layout with the highest estimated utility, if a request gains more than Margin
// after the cost of the change: a share of the host's utility until the change ends, spread over the time it stays.
//
// What a layout would have earned more is added up. Once that is Missed of what the host earns while it changes, the
// change is worth its time whatever the load does next: slow engines follow loads that last or come again.
type Worth struct {
	Margin float64
	Stay   time.Duration
	Missed float64 // 0 adds nothing up

	at     time.Duration
	missed []missed // by host
}

// missed is what the layouts of a host would have earned more since it is in the present one.
type missed struct {
	present int
	sums    []float64
}

// margin and headroom are the defaults of [Worth].
const margin, headroom = 0.003, 1.2

const (
	// stays is the time that a layout is assumed to stay, as a multiple of its least time.
	stays = 10
	// lost is the share of a host's utility that is lost during a change: its other sizes answer meanwhile.
	lost = 0.1
)

// Choose implements [Chooser].
func (w *Worth) Choose(s *Situation) Change {
	expected := s.Expected()
	if expected <= 0 {
		return None("no request is expected")
	}
	w.add(s)
	c := s.best(func(host, layout int) float64 {
		h, each := &s.Hosts[host], s.Worth/float64(len(s.Hosts))
		more, takes := h.Worth[layout]-s.Worth-w.Margin*s.Valued, h.Takes[layout].Seconds()
		if w.Missed > 0 && w.missed[host].sums[layout] >= w.Missed*takes*each {
			return more
		}
		return more - cost(h.Takes[layout], w.Stay)*each
	})
	if c.Host < 0 {
		return None(fmt.Sprintf("%.1f requests/s are expected, and no layout earns %.3f more a request", expected, w.Margin))
	}
	h := &s.Hosts[c.Host]
	c.Reason = fmt.Sprintf("%.1f requests/s are expected, of which each gains %.3f", expected, (h.Worth[c.Layout]-s.Worth)/s.Valued)
	return c
}

// cost returns what a change costs, as a share of what the host earns in the time for which layouts stay.
func cost(takes, stay time.Duration) float64 {
	return lost * takes.Seconds() / (stays * max(1, stay.Seconds()))
}

// longest bounds the time between two looks that counts.
const longest = 5 * time.Second

// add adds up what layouts would have earned more since the last look.
func (w *Worth) add(s *Situation) {
	passed := min(s.Now-w.at, longest).Seconds()
	w.at = s.Now
	for len(w.missed) < len(s.Hosts) {
		w.missed = append(w.missed, missed{present: -1})
	}
	for i := range s.Hosts {
		h, m := &s.Hosts[i], &w.missed[i]
		if m.present != h.Present {
			m.present, m.sums = h.Present, make([]float64, len(h.Layouts))
			continue
		}
		for layout := range m.sums {
			m.sums[layout] = max(0, m.sums[layout]+passed*(h.Worth[layout]-s.Worth-w.Margin*s.Valued))
		}
	}
}

// Expected returns the requests per second that are expected of all tasks.
func (s *Situation) Expected() (sum float64) {
	for i := range s.Loads {
		sum += s.Loads[i].Forecast
	}
	return sum
}

// best returns the change that gains most, of those that are not barred; none if none gains anything.
func (s *Situation) best(gain func(host, layout int) float64) Change {
	c, most := None(""), 1e-9
	for i := range s.Hosts {
		h := &s.Hosts[i]
		if h.Present < 0 {
			continue
		}
		for layout := range h.Layouts {
			if layout == h.Present || h.Barred[layout] != "" {
				continue
			}
			if g := gain(i, layout); g > most {
				c.Host, c.Layout, most = i, layout, g
			}
		}
	}
	return c
}
