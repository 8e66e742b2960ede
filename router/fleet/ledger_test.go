package fleet

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// table is two variants on two hosts; the first variant has limits.
func table(t testing.TB) *Table {
	t.Helper()
	built, err := NewTable(
		[]Task{
			{Name: "task", Deadline: time.Millisecond, Weight: 1, Quality: []float64{0.5, 1}},
			{Name: "other", Deadline: time.Second, Weight: 2, Quality: []float64{0.7, 1}},
		},
		[]Variant{{Name: "small"}, {Name: "large"}},
		[]Host{{Name: "a"}, {Name: "b"}},
		[]Replica{
			{Name: "small@a", Variant: 0, Host: 0, Limit: 2},
			{Name: "small@b", Variant: 0, Host: 1, Limit: 3},
			{Name: "large@a", Variant: 1, Host: 0},
			{Name: "large@b", Variant: 1, Host: 1},
		})
	if err != nil {
		t.Fatal(err)
	}
	return built
}

// model is the ledger done naively: lists of leases, sums by recounting.
type model struct {
	table    *Table
	held     [][]int // by replica: identities of leases
	tokens   []int32
	down     []bool
	placed   []State
	arrivals []time.Duration
	declared float64
}

func (m *model) begin(replica, identity int) bool {
	limit := m.table.Replicas[replica].Limit
	if m.down[replica] || m.placed[replica] != Up || limit > 0 && len(m.held[replica]) == limit {
		return false
	}
	m.held[replica] = append(m.held[replica], identity)
	return true
}

func (m *model) end(identity int) bool {
	for r := range m.held {
		if i := slices.Index(m.held[r], identity); i >= 0 {
			m.held[r] = slices.Delete(m.held[r], i, i+1)
			return true
		}
	}
	return false
}

func (m *model) rate(now time.Duration) float64 {
	if m.declared > 0 {
		return m.declared
	}
	last := m.arrivals[max(0, len(m.arrivals)-RateWindow-1):]
	if len(last) < 3 {
		return 0
	}
	gaps := len(last) - 1
	return min(float64(gaps-1)/(last[gaps]-last[0]).Seconds(), float64(gaps)/(now-last[0]).Seconds())
}

// TestLedgerAgainstModel does random operations on both and compares them
// after each.
func TestLedgerAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		built := table(t)
		l := NewLedger(built)
		m := &model{table: built, held: make([][]int, 4), tokens: make([]int32, 4), down: make([]bool, 4), placed: make([]State, 4)}
		var leases []Lease // by identity, ended ones included
		now := time.Duration(0)
		for step := range 2000 {
			now += time.Duration(1 + rng.Int64N(int64(time.Second)))
			switch r := rng.IntN(4); rng.IntN(10) {
			case 0, 1:
				l.Arrive(now)
				m.arrivals = append(m.arrivals, now)
			case 2, 3:
				lease, ok := l.Begin(r, len(leases)%len(built.Tasks))
				if want := m.begin(r, len(leases)); ok != want {
					t.Fatalf("seed %d, step %d: Begin(%d) = %v, want %v", seed, step, r, ok, want)
				}
				if ok {
					leases = append(leases, lease)
				}
			case 4, 5:
				if len(leases) > 0 {
					// Recent leases mostly, and now and then one that ended long ago.
					i := len(leases) - 1 - min(rng.IntN(len(leases)), rng.IntN(len(leases)))
					if got, want := leases[i].End(), m.end(i); got != want {
						t.Fatalf("seed %d, step %d: End of lease %d = %v, want %v", seed, step, i, got, want)
					}
				}
			case 6:
				up := rng.IntN(3) > 0
				l.SetUp(r, up)
				m.down[r] = !up
			case 7:
				m.declared = float64(rng.IntN(2)) * 7
				l.DeclareRate(m.declared)
			case 8:
				m.tokens[r] = rng.Int32N(1000)
				l.HoldEach([]int{r}, alike(m.tokens[r]))
			case 9:
				m.placed[r] = []State{Up, Up, Cold, Loading, Warm}[rng.IntN(5)]
				l.Place(r, m.placed[r])
			}
			compare(t, l, m, now, seed, step)
		}
	}
}

func compare(t *testing.T, l *Ledger, m *model, now time.Duration, seed uint64, step int) {
	t.Helper()
	var v View
	l.View(now, &v)
	total := 0
	for r := range m.held {
		total += len(m.held[r])
		limit := m.table.Replicas[r].Limit
		down := m.down[r] || m.placed[r] != Up
		available := !down && (limit == 0 || len(m.held[r]) < limit)
		if int(v.InFlight[r]) != len(m.held[r]) || v.Held[r] != m.tokens[r] || v.Down[r] != down || v.Available(r) != available {
			t.Fatalf("seed %d, step %d: replica %d: %d in flight, down %v; the model has %v, %v",
				seed, step, r, v.InFlight[r], v.Down[r], m.held[r], down)
		}
		byTask := make([]int32, len(m.table.Tasks))
		for _, lease := range m.held[r] {
			byTask[lease%len(byTask)]++
		}
		if got := v.ByTask[r*len(byTask):][:len(byTask)]; !slices.Equal(got, byTask) {
			t.Fatalf("seed %d, step %d: replica %d: %v by task, want %v", seed, step, r, got, byTask)
		}
	}
	if l.InFlight() != total || v.VariantInFlight(0)+v.VariantInFlight(1) != total {
		t.Fatalf("seed %d, step %d: %d in flight, want %d", seed, step, l.InFlight(), total)
	}
	if m.declared > 0 && v.Smoothed != (SmoothedRates{m.declared, m.declared}) {
		t.Fatalf("seed %d, step %d: smoothed rates %v, declared %v", seed, step, v.Smoothed, m.declared)
	}
	if diff := v.Rate - m.rate(now); diff > 1e-9 || diff < -1e-9 || v.Now != now || v.Table != m.table {
		t.Fatalf("seed %d, step %d: rate %v at %v, want %v at %v", seed, step, v.Rate, v.Now, m.rate(now), now)
	}
}

func TestViewOfAVariant(t *testing.T) {
	v := View{Table: table(t), InFlight: []int32{2, 1, 7, 4}, Held: []int32{20, 10, 70, 40}, Down: make([]bool, 4)}
	check := func(available bool, inFlight, shortest, variant int) {
		t.Helper()
		if v.VariantAvailable(variant) != available || v.VariantInFlight(variant) != inFlight || v.Shortest(variant) != shortest {
			t.Errorf("variant %d: available %v, %d in flight, shortest %d", variant,
				v.VariantAvailable(variant), v.VariantInFlight(variant), v.Shortest(variant))
		}
	}
	check(true, 3, 1, 0) // replica 0 is full
	check(true, 11, 4, 1)
	v.Table.Replicas[1].KVTokens = 100
	if a, b := v.KVUse(1), v.KVUse(2); a != 0.1 || b != 0 {
		t.Errorf("the KV use is %v and, of a cache of unknown size, %v; want 0.1 and 0", a, b)
	}
	v.Down[1], v.Down[3] = true, true
	check(false, 3, -1, 0)
	check(true, 11, 7, 1) // what runs on a replica that is down still runs
}

func TestLeaseIsInertOnceEnded(t *testing.T) {
	if (Lease{}).End() {
		t.Error("the zero lease ended something")
	}
	l := NewLedger(table(t))
	old, _ := l.Begin(2, 0)
	old.End()
	renewed, _ := l.Begin(3, 0) // in the same slot
	if old.End() || l.InFlight() != 1 || !renewed.End() {
		t.Error("an old lease ended the one that came after it")
	}
}

// TestConcurrentLeases has goroutines compete for five places.
// alike is so many tokens on every replica.
type alike int

func (n alike) Held(int) int { return int(n) }

type tenfold struct{}

func (tenfold) Held(replica int) int { return 10 * replica }

func TestHoldEach(t *testing.T) {
	l := NewLedger(table(t))
	l.HoldEach([]int{3, 1}, tenfold{})
	var v View
	l.View(0, &v)
	if !slices.Equal(v.Held, []int32{0, 10, 0, 30}) {
		t.Errorf("held %v", v.Held)
	}
}

func TestBeginOnAView(t *testing.T) {
	l := NewLedger(table(t))
	var v View
	l.View(0, &v)
	first, ok := l.BeginOn(&v, 2, 0)
	if !ok {
		t.Fatal("nothing came between, and no place is given")
	}
	if _, ok := l.BeginOn(&v, 0, 0); ok {
		t.Error("a place is given on a view from before the last choice on its host")
	}
	if _, ok := l.BeginOn(&v, 3, 0); !ok {
		t.Error("no place is given, though the last choice was on another host")
	}
	l.View(0, &v)
	l.HoldEach([]int{2}, alike(100))
	first.End()
	if _, ok := l.BeginOn(&v, 3, 0); !ok {
		t.Error("no place is given, but nobody has taken one since the view")
	}
	l.View(0, &v)
	l.SetUp(0, false)
	if _, ok := l.BeginOn(&v, 3, 0); ok {
		t.Error("a place is given on a view from before a replica went down")
	}
}

func TestConcurrentLeases(t *testing.T) {
	l := NewLedger(table(t))
	var group sync.WaitGroup
	for seed := range uint64(8) {
		group.Go(func() {
			rng := rand.New(rand.NewPCG(seed, 1))
			var v View
			var mine []Lease
			for i := range 2000 {
				l.Arrive(time.Duration(i))
				if lease, ok := l.Begin(rng.IntN(2), 0); ok {
					mine = append(mine, lease)
				}
				l.View(0, &v)
				if v.InFlight[0] > 2 || v.InFlight[1] > 3 {
					t.Errorf("in flight %v, past the limits 2 and 3", v.InFlight)
				}
				if n := len(mine); n > 0 && rng.IntN(2) == 0 {
					k := rng.IntN(n)
					if !mine[k].End() {
						t.Error("a live lease did not end")
					}
					mine = slices.Delete(mine, k, k+1)
				}
			}
			for _, lease := range mine {
				lease.End()
			}
		})
	}
	group.Wait()
	if n := l.InFlight(); n != 0 {
		t.Errorf("%d in flight at the end", n)
	}
}

func TestLedgerAllocatesNothing(t *testing.T) {
	l := NewLedger(table(t))
	var v View
	l.View(0, &v)
	if n := testing.AllocsPerRun(100, func() {
		l.Arrive(0)
		l.View(0, &v)
		lease, _ := l.Begin(3, 0)
		lease.End()
		l.PlaceSince(3, l.EpochOf(3), Warm)
		l.Place(3, Up)
	}); n != 0 {
		t.Errorf("a request's way through the ledger allocates %v times", n)
	}
}

// Callbacks of room are called under no lock when there may be some.
func TestLedgerNotifiesOfRoom(t *testing.T) {
	l := NewLedger(table(t))
	var calls, inFlight int
	l.OnRoom(func() { calls, inFlight = calls+1, l.InFlight() })
	lease, _ := l.Begin(0, 0)
	if calls != 0 {
		t.Error("called for a place taken")
	}
	lease.End()
	lease.End()
	if calls != 1 || inFlight != 0 {
		t.Errorf("called %d times at one end, when %d were in flight", calls, inFlight)
	}
	for name, f := range map[string]func(){
		"a replica up or down":  func() { l.SetUp(0, false) },
		"one drained or not":    func() { l.SetDrained(0, false) },
		"one that is unloaded":  func() { l.Place(0, Cold) },
		"a cap":                 func() { l.SetCap(0, 3) },
		"other routers' counts": func() { l.Correct(0, 1, 10) },
	} {
		before := calls
		if f(); calls != before+1 {
			t.Errorf("called %d times for %s", calls-before, name)
		}
	}
}
