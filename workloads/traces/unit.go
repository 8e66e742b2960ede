package traces

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// What the mean time between requests says of the unit of their times.
const (
	closest  = 10 * time.Millisecond // closer, and they are hardly milliseconds
	apart    = 100 * time.Second     // further, and whole numbers are hardly seconds
	furthest = 1000 * time.Second    // further, and nothing is hardly seconds
)

// marks are columns of Alibaba's traces, which have seconds under Mooncake's names.
var marks = []string{"chat_id", "parent_chat_id", "turn"}

// unit holds what a trace shows of the unit of its times.
type unit struct {
	column    string // of the times; empty if they are dates
	unclear   bool   // the form does not say the unit
	mooncake  bool   // it has Mooncake's names
	fractions bool   // some times are not whole
	marked    bool   // it has one of the marks
	sessions  bool   // it is aiperf's, of milliseconds
}

// see notes what a row shows.
func (u *unit) see(f form, at instant, has func(string) bool) {
	if at.absolute {
		return
	}
	u.column, u.unclear, u.mooncake = f.time, f.unclear, f.unclear && strings.EqualFold(f.time, mooncake.time) && strings.EqualFold(f.prompt, mooncake.prompt)
	u.fractions = u.fractions || at.Sub(time.Time{})%time.Second != 0
	u.marked = u.marked || u.mooncake && slices.ContainsFunc(marks, has)
	u.sessions = u.sessions || u.mooncake && has(sessionColumn)
}

// milliseconds reports whether times with such a mean gap, read as seconds, are milliseconds, and
// whether that is sure.
func (u *unit) milliseconds(gap time.Duration) (yes, sure bool) {
	switch {
	case !u.unclear:
		return false, gap <= furthest
	case u.marked:
		return false, true
	case u.sessions:
		return true, true
	case u.fractions:
		return gap > furthest, false
	case u.mooncake:
		return true, gap/1000 >= closest
	}
	return gap > apart, false
}

// settle puts turns of sessions in order, finds the unit of the times, which have been read as
// seconds, and says what is doubtful.
func (t *tracer) settle() {
	if len(t.turns) > 0 {
		slices.SortStableFunc(t.Records, func(a, b Record) int { return cmp.Compare(a.At, b.At) })
		if len(t.Records) > 0 && t.Records[0].At < 0 { // the first row of the file is not the first in time
			zero := t.Records[0].At
			for i := range t.Records {
				t.Records[i].At -= zero
			}
		}
	}
	if t.delayed {
		t.doubt("turns without a time come their delay after the turn before them, as if answers took no time")
	}
	if len(t.Records) == 0 || t.unit.column == "" {
		return
	}
	gap := (t.Records[len(t.Records)-1].At - t.Records[0].At) / time.Duration(max(1, len(t.Records)-1))
	ms, sure := t.unit.milliseconds(gap)
	name := "seconds"
	if ms {
		name, gap = "milliseconds", gap/1000
		for i := range t.Records {
			t.Records[i].At /= 1000
		}
	}
	if !sure && len(t.Records) > 1 {
		t.doubt("%s is read as %s, %.3g requests/s; if that is wrong, give the rate as @RATE", t.unit.column, name, 1/max(1e-9, gap.Seconds()))
	}
}

// doubt adds to what is said of the reading.
func (t *tracer) doubt(format string, args ...any) {
	t.Doubt = strings.TrimPrefix(t.Doubt+"; "+fmt.Sprintf(format, args...), "; ")
}

// The columns of aiperf's turns: which session they are of, and milliseconds since the turn before.
const sessionColumn, delayColumn = "session_id", "delay"

// when returns when a row's request came: at its time or, of a turn of a session that has none, its
// delay after the turn before.
func (t *tracer) when(f form, text, session, delay string) (at instant, ok bool) {
	if text != "" || session == "" {
		at, ok = f.clock(text)
	} else if at, ok = t.turns[session]; ok {
		var ms float64
		if delay != "" {
			var err error
			ms, err = strconv.ParseFloat(delay, 64)
			ok = err == nil
		}
		if at.absolute {
			ms /= 1000
		}
		after, fits := Seconds(ms) // as the times of the form are read
		at.Time, at.text, ok, t.delayed = at.Add(after), delay, ok && fits, true
	}
	if ok && session != "" {
		t.turns[session] = at
	}
	return at, ok
}
