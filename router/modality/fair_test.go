package modality

import (
	"fmt"
	"testing"
)

// crowd plays tenants that keep so many jobs waiting for one worker, each of one request of 20 ms and
// with the same time of 100 ms, and returns how many of each were answered in time.
func crowd(t *testing.T, policy string, turns int, tenants ...int) map[string]int {
	t.Helper()
	p := pooled(t, 1, policy)
	p.Most = 0
	answered, waiting := map[string]int{}, map[string]int{}
	now := 0.0
	for range turns {
		for i, want := range tenants {
			for tenant := fmt.Sprint(i); waiting[tenant] < want; waiting[tenant]++ {
				x := entry(1, 0.85, now+100)
				x.Tenant = tenant
				if err := p.Add(x, now); err != nil {
					t.Fatal(err)
				}
			}
		}
		c, dropped := p.Next(0, now)
		for _, x := range dropped {
			waiting[x.Tenant]--
		}
		if c == nil {
			t.Fatalf("nothing runs at %v", now)
		}
		waiting[c.Tenant]--
		if now += c.Expect; now <= c.Deadline {
			answered[c.Tenant]++
		}
	}
	return answered
}

// TestTenantsShareAWorker: of tenants whose jobs have the same short time, one with five that wait gets
// as much as one with fifty, and one whose next job comes once the last is answered loses none. What one
// tenant leaves the others share.
func TestTenantsShareAWorker(t *testing.T) {
	for _, policy := range []string{"optimized", "foresight", "aggressive"} {
		for _, c := range []struct {
			tenants []int
			least   []int // of 100 places
		}{
			{[]int{50, 50}, []int{48, 48}},
			{[]int{50, 5}, []int{48, 48}},
			{[]int{5, 50}, []int{48, 48}},
			{[]int{50, 1}, []int{78, 20}}, // all of the second one's, which may each wait for four others
			{[]int{1, 50, 20}, []int{20, 38, 38}},
			{[]int{50}, []int{100}},
		} {
			got := crowd(t, policy, 100, c.tenants...)
			for i, least := range c.least {
				if got[fmt.Sprint(i)] < least {
					t.Errorf("%s, tenants with %v jobs: %v were answered; want at least %v", policy, c.tenants, got, c.least)
					break
				}
			}
		}
	}
}

// TestSharesLeaveJobsThatFit: a tenant with much work that is due later does not lose it to one with
// little, and a plan that drops nothing is as it was.
func TestSharesLeaveJobsThatFit(t *testing.T) {
	p := pooled(t, 1, "optimized")
	p.Most = 0
	add := func(tenant string, deadline float64) {
		x := entry(1, 0.85, deadline)
		if x.Tenant = tenant; p.Add(x, 0) != nil {
			t.Fatal(tenant)
		}
	}
	for i := range 6 {
		add("many", 40)
		add("many", float64(1000+100*i))
	}
	add("few", 40)
	order, lost := "", 0
	for now := 0.0; ; {
		c, dropped := p.Next(0, now)
		lost += len(dropped)
		for _, x := range dropped {
			if x.Deadline > 40 || x.Tenant == "few" {
				t.Errorf("%+v is dropped", x)
			}
		}
		if c == nil {
			break
		}
		order += c.Tenant + " "
		now += c.Expect
	}
	if lost != 5 || order != "many few many many many many many many " {
		t.Errorf("%d dropped; answered %s", lost, order)
	}
}
