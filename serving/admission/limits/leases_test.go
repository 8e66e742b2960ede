package limits_test

import (
	"fmt"
	"strings"
	"testing"

	"gearshift/serving/admission/limits"
)

// fleet has 100 places on two replicas, of which one tells what its memory holds.
func fleet() *limits.LeaseSet[int] {
	return limits.NewSet[int]([]limits.Room{{Places: 20, Tokens: 10_000}, {Places: 80}})
}

// take takes leases for the key on the replica until there are no more.
func take(s *limits.LeaseSet[int], c limits.LeaseConfig, key string, replica, tokens int) (taken int, why limits.Refusal) {
	for why == limits.None {
		if why = s.Add(c, limits.Lease[int]{ID: fmt.Sprintf("%s%d-%d", key, replica, taken), Key: key, Replica: replica, Tokens: tokens}); why == limits.None {
			taken++
		}
	}
	return taken, why
}

func TestEachHasItsShare(t *testing.T) {
	c, s := limits.DefaultLeases(), fleet()
	for _, x := range []struct {
		key     string
		replica int
		want    int
		why     limits.Refusal
	}{
		{"", 0, 2, limits.Replica},   // a tenth of the replica
		{"", 1, 8, limits.Anonymous}, // and of the other: a tenth of the fleet
		{"", 1, 0, limits.Anonymous}, // whatever it is for
		{"alice", 1, 20, limits.Replica},
		{"alice", 0, 5, limits.OfKey},
		{"alice", 0, 0, limits.OfKey},
		{"bob", 1, 12, limits.Replica}, // half of the replica, with the others
		{"bob", 0, 3, limits.Total},    // half of the fleet, with the others
		{"carol", 0, 0, limits.Total},
	} {
		if n, why := take(s, c, x.key, x.replica, 0); n != x.want || why != x.why {
			t.Errorf("%q took %d on %d, then %q; want %d, then %q", x.key, n, x.replica, why, x.want, x.why)
		}
	}
	if why := s.Fits(c, ""); why != limits.Anonymous {
		t.Errorf("another without a key: %q", why)
	}
	if _, ok := s.End("alice0-0", "alice"); !ok {
		t.Error("alice cannot end her lease")
	}
	if why := s.Fits(c, "alice"); why != limits.None {
		t.Errorf("after the end of one: %q", why)
	}
}

// One long prompt takes a replica's memory as many short ones do.
func TestTokensHaveTheirShare(t *testing.T) {
	c := limits.DefaultLeases()
	for _, x := range []struct {
		key    string
		tokens int
		want   int
	}{{"", 1001, 0}, {"", 1000, 1}, {"", 600, 1}, {"alice", 2501, 0}, {"alice", 1250, 2}} {
		if n, why := take(fleet(), c, x.key, 0, x.tokens); n != x.want || why != limits.Replica {
			t.Errorf("%q took %d of %d tokens, then %q; want %d", x.key, n, x.tokens, why, x.want)
		}
	}
}

func TestASmallFleetHasOnePlaceForEach(t *testing.T) {
	s := limits.NewSet[int]([]limits.Room{{Places: 2}})
	if n, _ := take(s, limits.DefaultLeases(), "", 0, 0); n != 1 {
		t.Errorf("%d leases", n)
	}
	none := limits.DefaultLeases()
	none.AnonymousShare = 0
	if n, why := take(limits.NewSet[int]([]limits.Room{{Places: 2}}), none, "", 0, 0); n != 0 || why != limits.Anonymous {
		t.Errorf("%d leases, then %q", n, why)
	}
}

func TestOnlyWhoTookItEndsIt(t *testing.T) {
	s := fleet()
	for _, key := range []string{"alice", ""} {
		s.Add(limits.DefaultLeases(), limits.Lease[int]{ID: "x" + key, Key: key, Work: 7})
	}
	for _, x := range []struct{ id, key string }{{"xalice", "bob"}, {"xalice", ""}, {"x", "alice"}, {"none", "alice"}} {
		if _, ok := s.End(x.id, x.key); ok {
			t.Errorf("%q ended %q", x.key, x.id)
		}
	}
	if l, ok := s.End("xalice", "alice"); !ok || l.Work != 7 {
		t.Errorf("%+v, %v", l, ok)
	}
	if _, ok := s.Remove("x"); !ok || len(s.List()) != 0 {
		t.Errorf("left: %+v", s.List())
	}
}

func TestOffAndClosed(t *testing.T) {
	s, off := fleet(), limits.DefaultLeases()
	off.Enabled = false
	if why := s.Fits(off, "alice"); why != limits.Off {
		t.Errorf("off: %q", why)
	}
	s.Add(limits.DefaultLeases(), limits.Lease[int]{ID: "x", Key: "alice"})
	if left := s.Close(); len(left) != 1 {
		t.Errorf("left at the end: %v", left)
	}
	if why := s.Fits(limits.DefaultLeases(), "alice"); why != limits.Closed {
		t.Errorf("closed: %q", why)
	}
}

func TestConfigFaults(t *testing.T) {
	for want, c := range map[string]limits.LeaseConfig{
		"share: 0 must":              {KeyShare: 1},
		"key_share: 1.5 must":        {Share: 1, KeyShare: 1.5},
		"anonymous_share: -0.1 must": {Share: 1, KeyShare: 1, AnonymousShare: -0.1},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := limits.DefaultLeases().Validate(); err != nil {
		t.Error(err)
	}
}
