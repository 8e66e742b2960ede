package access_test

import (
	"strings"
	"testing"
	"time"

	"gearshift/serving/access"
)

func holder(t *testing.T, l access.Limits) *access.Holder {
	t.Helper()
	k, secret := newKey(t, "a", l)
	return access.NewRing([]access.Key{k}, nil).Find(secret)
}

func TestBudgetsAreOfTheCalendar(t *testing.T) {
	h := holder(t, access.Limits{TokensPerDay: 100, TokensPerMonth: 250})
	at := func(day, hour int) time.Time { return time.Date(2026, 2, day, hour, 0, 0, 0, time.FixedZone("", 3600)) }
	use := func(now time.Time, tokens int64, want time.Duration) {
		t.Helper()
		s, wait, ok := h.Reserve(now, tokens)
		if ok != (want == 0) || wait != want {
			t.Errorf("%v: %d tokens: %v, wait %v, want %v", now, tokens, ok, wait, want)
		}
		s.End(now, tokens)
	}
	use(at(26, 13), 90, 0)
	use(at(26, 13), 11, 12*time.Hour) // UTC's midnight
	use(at(26, 13), 10, 0)
	use(at(27, 1), 100, 0)
	use(at(28, 1), 51, 24*time.Hour) // the month's, which ends with this day
	use(at(28, 1), 50, 0)
	use(at(29, 2), 100, 0) // March
	if tokens, refused := h.Used(); tokens != 350 || refused != 2 {
		t.Errorf("%d used, %d refused", tokens, refused)
	}
}

// What is under way counts as it was set aside, and then as it was.
func TestReservations(t *testing.T) {
	h, now := holder(t, access.Limits{TokensPerDay: 100}), time.Unix(1e9, 0)
	first, _, _ := h.Reserve(now, 60)
	if _, _, ok := h.Reserve(now, 60); ok {
		t.Error("reserved twice")
	}
	first.End(now, 20)
	second, _, ok := h.Reserve(now, 60)
	if !ok {
		t.Error("what was not used is not given back")
	}
	second.End(now, 500) // an answer that was longer than expected
	if _, _, ok := h.Reserve(now, 1); ok {
		t.Error("the budget is used up")
	}
	access.Spend{}.End(now, 5) // of a request without a key
}

// New limits hold for what has been used already, and a day's use outlives a reload.
func TestSpendingOutlivesAReload(t *testing.T) {
	k, secret := newKey(t, "a", access.Limits{TokensPerDay: 100})
	r, now := access.NewRing([]access.Key{k}, nil), time.Unix(1e9, 0)
	s, _, _ := r.Find(secret).Reserve(now, 80)
	k.TokensPerDay = 200
	next := access.NewRing([]access.Key{k}, r)
	s.End(now, 80)
	if _, _, ok := next.Find(secret).Reserve(now, 121); ok {
		t.Error("more than the new limit leaves")
	}
	if _, _, ok := next.Find(secret).Reserve(now, 120); !ok {
		t.Error("less than the new limit leaves")
	}
}

func TestGrantFaults(t *testing.T) {
	hash := strings.Repeat("ab", 32)
	for line, want := range map[string]string{
		`"classes":["a","a"]`:     `keys:1: classes: "a" is listed twice`,
		`"models":["a b"]`:        `keys:1: models: "a b" is not a name`,
		`"models":[""]`:           `keys:1: models: "" is not a name`,
		`"models":"small"`:        `keys:1: models: want []string, found string`,
		`"tokens_per_day":-1`:     `keys:1: tokens_per_day: -1; want a number of tokens`,
		`"tokens_per_month":1e30`: `keys:1: tokens_per_month: want int64`,
		`"tokens_per_month":2e15`: `keys:1: tokens_per_month: `,
		`"tokens_per_week":5`:     `keys:1: unknown field "tokens_per_week"`,
	} {
		_, err := access.ParseKeys("keys", []byte(`{"name":"a","sha256":"`+hash+`",`+line+`}`))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", line, err, want)
		}
	}
	list, err := access.ParseKeys("keys", []byte("\n# one\n"+`{"name":"a","sha256":"`+hash+`","classes":["x"],"models":["m/1"],"tokens_per_day":5}`))
	if err != nil || list[0].At() != 3 || list[0].Classes[0] != "x" || list[0].Models[0] != "m/1" || list[0].TokensPerDay != 5 {
		t.Errorf("%+v, %v", list, err)
	}
	again, err := access.ParseKeys("keys", list[0].Line())
	if err != nil || !access.SameKeys(list, again) || access.SameKeys(list, nil) {
		t.Errorf("%+v, %v", again, err)
	}
}

// What was used on another day counts for the month, and in another month for nothing.
func TestUsageOverARestart(t *testing.T) {
	k, secret := newKey(t, "a", access.Limits{TokensPerDay: 100, TokensPerMonth: 1000})
	at := func(month time.Month, day int) time.Time { return time.Date(2026, month, day, 12, 0, 0, 0, time.UTC) }
	r := access.NewRing([]access.Key{k}, nil)
	s, _, _ := r.Find(secret).Reserve(at(2, 3), 60)
	s.End(at(2, 3), 60)
	kept := r.Usage(at(2, 3))
	for _, c := range []struct {
		now        time.Time
		fits, more int64
	}{{at(2, 3), 40, 41}, {at(2, 4), 100, 101}, {at(3, 3), 100, 101}} {
		for tokens, want := range map[int64]bool{c.fits: true, c.more: false} {
			next := access.NewRing([]access.Key{k}, nil)
			next.Restore(kept, c.now)
			if _, _, ok := next.Find(secret).Reserve(c.now, tokens); ok != want {
				t.Errorf("%v: %d tokens fit: %v", c.now, tokens, ok)
			}
			used := next.Usage(c.now)["a"].MonthTokens
			if want := map[time.Month]int64{2: 60}[c.now.Month()]; used != want {
				t.Errorf("%v: %d used in the month, want %d", c.now, used, want)
			}
		}
	}
	access.NewRing(nil, nil).Restore(map[string]access.Usage{"gone": {Day: "x"}}, at(1, 1))
}

// TestAClockThatIsSetBack renews no budget, in a running server or over a restart; the day that comes next does.
func TestAClockThatIsSetBack(t *testing.T) {
	h := holder(t, access.Limits{TokensPerDay: 100, TokensPerMonth: 1000})
	at := func(month time.Month, day int) time.Time { return time.Date(2026, month, day, 12, 0, 0, 0, time.UTC) }
	spend := func(now time.Time) bool {
		s, _, ok := h.Reserve(now, 100)
		if ok {
			s.End(now, 100)
		}
		return ok
	}
	for _, x := range []struct {
		now  time.Time
		want bool
	}{
		{at(2, 28), true}, {at(2, 27), false}, {at(1, 1), false}, {at(2, 28), true}, {at(2, 27), false}, {at(3, 1), true}, {at(3, 1), false}, {at(2, 28), false},
	} {
		if got := spend(x.now); got != x.want {
			t.Errorf("%v: %v, want %v", x.now, got, x.want)
		}
	}
}
