package router_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/queue"
)

// waiting is a backlog in which so many more requests have room as the test says, and
// a clock that the test moves.
type waiting struct {
	*router.Backlog[string]
	t     *testing.T
	now   time.Duration
	room  int
	tried []string
	err   error // of one without room
}

func newWaiting(t *testing.T, l router.Limits) *waiting {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 100 * time.Millisecond, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "model"}}, []fleet.Host{{Name: "host"}}, []fleet.Replica{{Name: "replica"}})
	if err != nil {
		t.Fatal(err)
	}
	x := &waiting{t: t, err: router.ErrLate}
	x.Backlog = router.NewBacklog(table, []queue.Class{{Name: "batch"}, {Name: "urgent", Priority: 1}}, l, func(w *router.Waiter[string]) error {
		x.tried = append(x.tried, w.Value)
		if x.room == 0 {
			return x.err
		}
		x.room--
		return nil
	})
	return x
}

func request(name string, prompt int) *router.Waiter[string] {
	return &router.Waiter[string]{Value: name, Variant: -1, Request: &fleet.Request{PromptTokens: prompt}}
}

// join is a newcomer's way in. It returns what is decided on it at once.
func (x *waiting) join(w *router.Waiter[string]) string {
	w.Request.Arrival = x.now
	x.Join(w)
	if begun := x.pass(); strings.Contains(begun, w.Value) {
		return "begun"
	}
	settled, evicted, refusal := x.Stay(w, x.now)
	var refused router.Refusal
	switch {
	case settled:
		return "begun"
	case errors.As(refusal, &refused):
		return refused.Reason
	case evicted != nil:
		return "evicts " + evicted.Value
	}
	return "waits"
}

// pass names those that are begun.
func (x *waiting) pass() string {
	var begun []string
	x.Pass()
	for w := x.Next(x.now); w != nil; w = x.Next(x.now) {
		begun = append(begun, w.Value)
	}
	return strings.Join(begun, " ")
}

func (x *waiting) want(got, want string) {
	x.t.Helper()
	if got != want {
		x.t.Errorf("%s, want %s", got, want)
	}
}

func TestBacklogBeginsInOrderAndSendsAway(t *testing.T) {
	x := newWaiting(t, router.Limits{MaxQueue: 10, MaxWait: time.Second})
	x.want(x.join(request("a", 9)), "waits")
	x.now += 100 * time.Millisecond
	x.want(x.join(request("b", 5)), "waits")
	urgent := request("c", 5)
	urgent.Class = 1
	x.want(x.join(urgent), "waits")
	if at, ok := x.Due(x.now); !ok || at != x.now+router.Recheck {
		t.Errorf("due at %v, %v", at, ok)
	}
	x.room = 2
	x.want(x.pass(), "c a")
	x.now += 950 * time.Millisecond
	if at, _ := x.Due(x.now); at != 1100*time.Millisecond {
		t.Errorf("due at %v, not at the end of b's time", at)
	}
	x.now += 50 * time.Millisecond
	over := x.Expire(x.now, nil)
	if len(over) != 1 || over[0].Value != "b" || router.Refused(over[0].Err) != router.RefusedLate {
		t.Errorf("%d leave, %v", len(over), over[0].Err)
	}
	if _, ok := x.Due(x.now); ok || x.Len() != 0 {
		t.Errorf("%d wait", x.Len())
	}
}

// Of those alike only one is tried in a pass; one that asks for less is.
func TestBacklogTriesNothingTwice(t *testing.T) {
	x := newWaiting(t, router.Limits{MaxQueue: 10, MaxWait: time.Second})
	for i, prompt := range []int{5, 9, 5, 4} {
		x.Join(request(fmt.Sprint(i), prompt))
	}
	x.want(x.pass(), "")
	x.want(fmt.Sprint(x.tried), "[0 3]")
	x.tried, x.err = nil, router.ErrSaturated
	x.want(x.pass(), "")
	x.want(fmt.Sprint(x.tried), "[0]")
	over := x.Expire(time.Minute, nil)
	if len(over) != 4 || router.Refused(over[3].Err) != router.RefusedSaturated {
		t.Errorf("%d leave", len(over))
	}
}

// Where it is known how fast requests are begun, one that would wait in vain is
// refused at once.
func TestBacklogRefusesWhatWouldWaitInVain(t *testing.T) {
	x := newWaiting(t, router.Limits{MaxQueue: 100, MaxWait: time.Second, RetryAfter: time.Second, MaxRetryAfter: time.Minute})
	for i := range 12 {
		x.want(x.join(request(fmt.Sprint("old", i), 5)), "waits")
	}
	for range 4 { // two a second
		x.room = 1
		x.pass()
		x.now += 500 * time.Millisecond
	}
	last := request("new", 5)
	x.want(x.join(last), router.RefusedLate)
	if refused := x.Refusal(last, x.now); refused.After < 4*time.Second {
		t.Errorf("come again after %v, with 8 ahead at two a second", refused.After)
	}
}

func TestAFullBacklogEvicts(t *testing.T) {
	x := newWaiting(t, router.Limits{MaxQueue: 2, MaxWait: time.Second})
	x.want(x.join(request("a", 5)), "waits")
	x.want(x.join(request("b", 5)), "waits")
	x.want(x.join(request("c", 5)), router.RefusedFull)
	urgent := request("d", 5)
	urgent.Class = 1
	x.want(x.join(urgent), "evicts b")
	x.room = 3
	x.want(x.join(request("e", 5)), "begun")
	if x.Len() != 0 {
		t.Errorf("%d wait", x.Len())
	}
}

// A share of the time that a mean answer may take bounds the wait, and so does the
// deadline of the first token.
func TestHowLongARequestWaits(t *testing.T) {
	for name, c := range map[string]struct {
		limits router.Limits
		first  time.Duration
		want   time.Duration
	}{
		"at most":     {router.Limits{MaxWait: time.Second}, 0, time.Second},
		"a share":     {router.Limits{MaxWait: time.Second, WaitShare: 0.1, Output: 50}, 0, 500 * time.Millisecond},
		"first token": {router.Limits{MaxWait: time.Second, WaitShare: 0.1, Output: 50}, 200 * time.Millisecond, 200 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			c.limits.MaxQueue = 1
			x := newWaiting(t, c.limits)
			w := request("a", 5)
			w.Request.FirstToken = c.first
			x.want(x.join(w), "waits")
			if over := x.Expire(c.want-1, nil); len(over) > 0 {
				t.Error("it leaves too early")
			}
			if over := x.Expire(c.want, nil); len(over) != 1 {
				t.Error("it waits for too long")
			}
		})
	}
}
