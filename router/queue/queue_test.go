package queue_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/queue"
)

type entry = queue.Entry[string]

var (
	one       = []queue.Class{{Name: "default"}}
	twoLevels = []queue.Class{{Name: "batch"}, {Name: "urgent", Priority: 10}}
)

const batch, urgent = 0, 1

// at is an entry of a class and tenant that is due after so many seconds.
func at(name string, class int, tenant string, until int) *entry {
	return &entry{Value: name, Class: class, Tenant: tenant, Until: time.Duration(until) * time.Second}
}

func push(t *testing.T, q *queue.Queue[string], list ...*entry) {
	t.Helper()
	for _, e := range list {
		if evicted, ok := q.Push(e); !ok || evicted != nil {
			t.Fatalf("push of %s: %v, evicted %v", e.Value, ok, evicted)
		}
	}
}

func all(*entry) bool { return true }

// order takes all entries that fit.
func order(q *queue.Queue[string], fits func(*entry) bool) string {
	var names []string
	for e := q.Take(fits); e != nil; e = q.Take(fits) {
		names = append(names, e.Value)
	}
	return strings.Join(names, " ")
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries []*entry
		want    string
	}{
		{"the earliest deadline first", []*entry{at("c", batch, "", 3), at("a", batch, "", 1), at("b", batch, "", 2)}, "a b c"},
		{"of equal deadlines the first that came", []*entry{at("a", batch, "", 1), at("b", batch, "", 1), at("c", batch, "", 1)}, "a b c"},
		{"priority before deadline", []*entry{at("c", batch, "", 1), at("b", urgent, "", 9), at("a", urgent, "", 8)}, "a b c"},
		{"tenants in turn", []*entry{at("a1", batch, "a", 1), at("a2", batch, "a", 2), at("a3", batch, "a", 3), at("b1", batch, "b", 8), at("b2", batch, "b", 9)}, "a1 b1 a2 b2 a3"},
		{"of tenants with equal service the one that is due", []*entry{at("b", batch, "b", 2), at("a", batch, "a", 1)}, "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New[string](twoLevels, 10)
			push(t, q, c.entries...)
			if got := order(q, all); got != c.want || q.Len() != 0 {
				t.Errorf("order %s, want %s; %d left", got, c.want, q.Len())
			}
		})
	}
}

// What does not fit now keeps its place and holds up nobody behind it.
func TestWhatDoesNotFitIsPassedOver(t *testing.T) {
	q := queue.New[string](twoLevels, 10)
	push(t, q, at("big1", urgent, "", 1), at("a", urgent, "", 2), at("big2", batch, "", 3), at("b", batch, "", 4))
	small := func(e *entry) bool { return !strings.HasPrefix(e.Value, "big") }
	if got := order(q, small); got != "a b" || q.Len() != 2 || q.Waiting(batch) != 1 || q.Waiting(urgent) != 1 {
		t.Errorf("took %s, %d left", got, q.Len())
	}
	if got := order(q, all); got != "big1 big2" {
		t.Errorf("then %s", got)
	}
}

// flood feeds a queue that serves one entry each tick: of each tenant so many arrive
// in a tick, in the mean. It returns the cost served, by class and tenant.
func flood(classes []queue.Class, limit int, demand map[[2]string]float64, cost func(tenant string) float64) map[[2]string]float64 {
	q := queue.New[[2]string](classes, limit)
	rng := rand.New(rand.NewPCG(7, 7))
	keys := make([][2]string, 0, len(demand))
	for k := range demand {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b [2]string) int { return strings.Compare(a[0]+a[1], b[0]+b[1]) })
	served := map[[2]string]float64{}
	const ticks = 4000
	for tick := range ticks {
		now := time.Duration(tick) * time.Second
		for _, k := range keys {
			n := int(demand[k])
			if rng.Float64() < demand[k]-float64(n) {
				n++
			}
			for range n {
				class := slices.IndexFunc(classes, func(c queue.Class) bool { return c.Name == k[0] })
				q.Push(&queue.Entry[[2]string]{Value: k, Class: class, Tenant: k[1], Until: now + 50*time.Second, Cost: cost(k[1])})
			}
		}
		q.Expire(now)
		if e := q.Take(func(*queue.Entry[[2]string]) bool { return true }); e != nil {
			served[e.Value] += e.Cost / ticks
		}
	}
	return served
}

func unit(string) float64 { return 1 }

func wantShares(t *testing.T, got, want map[[2]string]float64) {
	t.Helper()
	for k, share := range want {
		if math.Abs(got[k]-share) > 0.1*share {
			t.Errorf("%v was served %.3f, want %.3f within 10 %%", k, got[k], share)
		}
	}
}

// A flood from one tenant takes only what the others leave (max-min fairness).
func TestAFloodFromOneTenantLeavesTheOthersTheirShare(t *testing.T) {
	for _, limit := range []int{1000, 20} { // roomy, and full all the time
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			got := flood(one, limit, map[[2]string]float64{{"default", "flood"}: 20, {"default", "small"}: 0.2, {"default", "greedy"}: 2}, unit)
			wantShares(t, got, map[[2]string]float64{{"default", "small"}: 0.2, {"default", "flood"}: 0.4, {"default", "greedy"}: 0.4})
		})
	}
}

func TestSharesAreOfWorkNotOfRequests(t *testing.T) {
	got := flood(one, 200, map[[2]string]float64{{"default", "long"}: 3, {"default", "short"}: 3}, func(tenant string) float64 {
		if tenant == "long" {
			return 4
		}
		return 1
	})
	long, short := got[[2]string{"default", "long"}], got[[2]string{"default", "short"}]
	if math.Abs(long/short-1) > 0.1 {
		t.Errorf("work of %.3f and %.3f, want the same within 10 %%", long, short)
	}
}

func TestClassesOfAPriorityGetTheirShares(t *testing.T) {
	classes := []queue.Class{{Name: "gold", Share: 3}, {Name: "plain"}, {Name: "top", Priority: 1}}
	got := flood(classes, 300, map[[2]string]float64{{"gold", "a"}: 3, {"gold", "b"}: 3, {"plain", "c"}: 5, {"top", "d"}: 0.2}, unit)
	wantShares(t, got, map[[2]string]float64{{"top", "d"}: 0.2, {"gold", "a"}: 0.3, {"gold", "b"}: 0.3, {"plain", "c"}: 0.2})
}

// A tenant that was away has no claim for that time.
func TestNobodySavesUpTurns(t *testing.T) {
	q := queue.New[string](one, 100)
	for i := range 20 {
		push(t, q, at(fmt.Sprintf("a%d", i), 0, "a", i))
	}
	for range 10 {
		q.Take(all)
	}
	for i := range 5 {
		push(t, q, at(fmt.Sprintf("b%d", i), 0, "b", i))
	}
	// It starts with the turn last given, so it is one ahead at most.
	if got := order(q, all); !strings.HasPrefix(got, "b0 b1 a10 b2 a11 b3") {
		t.Errorf("order %s, want turns", got)
	}
}

func TestAFullQueue(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting []*entry
		comes   *entry
		evicted string
		refused bool
	}{
		{"refuses one with no more claim", []*entry{at("a", batch, "", 1), at("b", batch, "", 2)}, at("c", batch, "", 1), "", true},
		{"lets the last of a lower priority go", []*entry{at("a", urgent, "", 1), at("b", batch, "", 2), at("c", batch, "", 1)}, at("d", urgent, "", 9), "b", false},
		{"keeps a higher priority", []*entry{at("a", urgent, "", 1), at("b", urgent, "", 1)}, at("c", batch, "", 0), "", true},
		{"lets the last of the tenant with most go", []*entry{at("a1", batch, "a", 1), at("a2", batch, "a", 2), at("a3", batch, "a", 3), at("b1", batch, "b", 9)}, at("b2", batch, "b", 9), "a3", false},
		{"is fair to equals", []*entry{at("a1", batch, "a", 1), at("b1", batch, "b", 1)}, at("a2", batch, "a", 1), "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := queue.New[string](twoLevels, len(c.waiting))
			push(t, q, c.waiting...)
			evicted, ok := q.Push(c.comes)
			if ok == c.refused || (evicted == nil) != (c.evicted == "") || evicted != nil && evicted.Value != c.evicted {
				t.Errorf("evicted %v, %v", evicted, ok)
			}
			if q.Len() != len(c.waiting) {
				t.Errorf("%d wait, want %d", q.Len(), len(c.waiting))
			}
			if evicted != nil && q.Remove(evicted) {
				t.Error("what was evicted still waits")
			}
		})
	}
}

func TestExpire(t *testing.T) {
	q := queue.New[string](twoLevels, 10)
	if _, ok := q.Next(); ok {
		t.Error("an empty queue has a next deadline")
	}
	push(t, q, at("c", batch, "x", 5), at("a", batch, "y", 3), at("b", urgent, "x", 4), at("d", batch, "x", 9))
	if until, ok := q.Next(); !ok || until != 3*time.Second {
		t.Errorf("next at %v, %v", until, ok)
	}
	if over := q.Expire(3*time.Second - 1); len(over) != 0 {
		t.Errorf("%d are over", len(over))
	}
	var names []string
	for _, e := range q.Expire(5 * time.Second) {
		names = append(names, e.Value)
	}
	if got := strings.Join(names, " "); got != "a b c" || q.Len() != 1 {
		t.Errorf("%s are over, %d left", got, q.Len())
	}
}

// How many go before one that comes is known about, whatever waits.
func TestAhead(t *testing.T) {
	q := queue.New[string](twoLevels, 100)
	for i := range 10 {
		push(t, q, at(fmt.Sprint("flood", i), batch, "flood", i))
	}
	push(t, q, at("other", batch, "other", 3), at("urgent", urgent, "x", 7))
	for _, c := range []struct {
		class  int
		tenant string
		until  int
		want   int
	}{
		{batch, "new", 99, 1 + 1 + 1}, // the urgent one, and a turn of each tenant
		{batch, "flood", 99, 1 + 10 + 1},
		{batch, "flood", 4, 1 + 5 + 1},
		{urgent, "new", 99, 1},
		{urgent, "x", 3, 0},
	} {
		if got := q.Ahead(c.class, c.tenant, time.Duration(c.until)*time.Second); got != c.want {
			t.Errorf("class %d, tenant %s, until %d: %d ahead, want %d", c.class, c.tenant, c.until, got, c.want)
		}
	}
}

// Random pushes, takes, removals, expiries and changes of classes and limit against a
// plain list: nothing is lost, nothing comes twice, and no bound is broken.
func TestNothingIsLost(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 1))
		classes := []queue.Class{{Name: "a", Share: 2}, {Name: "b"}, {Name: "c", Priority: 1}}
		limit := 1 + rng.IntN(20)
		q := queue.New[int](classes, limit)
		waiting := map[*queue.Entry[int]]bool{}
		gone := func(e *queue.Entry[int], how string) {
			if !waiting[e] {
				t.Fatalf("seed %d: %s of an entry that does not wait", seed, how)
			}
			delete(waiting, e)
		}
		for step := range 2000 {
			now, before := time.Duration(step), q.Len()
			switch rng.IntN(7) {
			case 0, 1, 2:
				e := &queue.Entry[int]{Value: step, Class: rng.IntN(3), Tenant: string(rune('a' + rng.IntN(4))), Until: now + time.Duration(rng.IntN(40)), Cost: rng.Float64()}
				evicted, ok := q.Push(e)
				if evicted != nil {
					gone(evicted, "eviction")
				}
				if ok {
					waiting[e] = true
				}
			case 3:
				if e := q.Take(func(e *queue.Entry[int]) bool { return e.Value%3 > 0 }); e != nil {
					gone(e, "taking")
				} else {
					for e := range waiting {
						if e.Value%3 > 0 {
							t.Fatalf("seed %d: one that fits was not taken", seed)
						}
					}
				}
			case 4:
				for e := range waiting {
					if !q.Remove(e) || q.Remove(e) {
						t.Fatalf("seed %d: removed other than once", seed)
					}
					gone(e, "removal")
					break
				}
			case 5:
				for _, e := range q.Expire(now) {
					gone(e, "expiry")
				}
				if until, ok := q.Next(); ok && until < now || ok != (len(waiting) > 0) {
					t.Fatalf("seed %d: next at %v, %v, with %d waiting at %v", seed, until, ok, len(waiting), now)
				}
			case 6:
				limit = rng.IntN(20)
				c := &classes[rng.IntN(3)]
				c.Priority, c.Share = rng.IntN(3), rng.Float64()
				q.Set(classes, limit)
			}
			if n := q.Waiting(0) + q.Waiting(1) + q.Waiting(2); q.Len() != len(waiting) || n != q.Len() || q.Len() > max(limit, before) {
				t.Fatalf("seed %d: %d wait, %d by class, of a list of %d and a limit of %d", seed, q.Len(), n, len(waiting), limit)
			}
		}
	}
}

// Tenants by the thousand, each with one request, are forgotten though something
// always waits; and nobody waits longer for it.
func TestManyTenantsAreForgotten(t *testing.T) {
	const limit = 8
	q := queue.New[string](one, limit)
	for i := range limit - 1 {
		push(t, q, at("early", batch, fmt.Sprint("early", i), 1000+i))
	}
	taken := 0
	for i := range 1000 {
		push(t, q, at("one", batch, fmt.Sprint("tenant", i), i))
		if e := q.Take(all); e.Value == "early" {
			taken++
		}
		if n := q.Tenants(batch); n > 3*limit {
			t.Fatalf("%d tenants are remembered after %d requests, %d of which wait", n, i+1, q.Len())
		}
	}
	if taken != limit-1 {
		t.Errorf("%d of %d early ones had their turn", taken, limit-1)
	}
}
