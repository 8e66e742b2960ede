package access_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/serving/access"
)

func newKey(t *testing.T, name string, l access.Limits) (access.Key, string) {
	t.Helper()
	k, secret, err := access.NewKey(name, l, time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC))
	if err != nil {
		t.Fatal(err)
	}
	return k, secret
}

func TestKeysAreKeptWithoutTheirSecrets(t *testing.T) {
	var file []byte
	var secrets []string
	for _, name := range []string{"alice", "batch-jobs"} {
		k, secret := newKey(t, name, access.Limits{Rate: 2.5, Burst: 5, Concurrency: 3})
		file, secrets = append(file, k.Line()...), append(secrets, secret)
		if !strings.HasPrefix(secret, "gs-") || len(secret) < 40 {
			t.Errorf("secret %q", secret)
		}
	}
	if secrets[0] == secrets[1] || strings.Contains(string(file), secrets[0]) {
		t.Errorf("secrets %q in a file that says %s", secrets, file)
	}
	list, err := access.ParseKeys("keys", append([]byte("# who may ask\n\n"), file...))
	if err != nil || len(list) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	r := access.NewRing(list, nil)
	if h := r.Find(secrets[1]); h == nil || h.Name != "batch-jobs" || h.Limits() != (access.Limits{Rate: 2.5, Burst: 5, Concurrency: 3}) {
		t.Errorf("found %+v", h)
	}
	for _, wrong := range []string{"", "gs-", secrets[0] + "x", secrets[0][1:]} {
		if h := r.Find(wrong); h != nil {
			t.Errorf("%q opens for %s", wrong, h.Name)
		}
	}
}

func TestParseNamesEveryFault(t *testing.T) {
	good, secret := newKey(t, "good", access.Limits{})
	hash, _ := good.Hash.MarshalText()
	lines := []struct{ line, want string }{
		{string(good.Line()), ""},
		{`{"name":"good","sha256":"` + strings.Repeat("ab", 32) + `"}`, `keys:2: name: "good" has a key already, on line 1`},
		{`{"name":"twin","sha256":"` + string(hash) + `"}`, `keys:3: sha256: the same key as on line 1`},
		{`{"name":"raw","sha256":"` + secret + `"}`, `keys:4: sha256: want the 64 hexadecimal digits`},
		{`{"name":"a b","sha256":"` + strings.Repeat("cd", 32) + `"}`, `keys:5: name: "a b" cannot name a key`},
		{`{"name":"typo","sha256":"` + strings.Repeat("ce", 32) + `","rat":1}`, `keys:6: unknown field "rat"`},
		{`{"name":"text","sha256":"` + strings.Repeat("cf", 32) + `","rate":"1"}`, `keys:7: rate: want float64, found string`},
		{`{"name":"below","sha256":"` + strings.Repeat("c0", 32) + `","rate":-1}`, `keys:8: rate: -1; want requests per second`},
		{`{"name":"burst","sha256":"` + strings.Repeat("c1", 32) + `","burst":1}`, `keys:9: burst: 1 has no meaning without a rate`},
		{`{"name":"many","sha256":"` + strings.Repeat("c2", 32) + `","concurrency":-3}`, `keys:10: concurrency: -3; want`},
		{`{"name":"none"}`, `keys:11: sha256: missing`},
		{`{"name":"two","sha256":"` + strings.Repeat("c3", 32) + `"} {}`, `keys:12: want one key on a line`},
		{secret, `keys:13: not JSON, at character 1`},
	}
	var file strings.Builder
	for _, l := range lines {
		file.WriteString(strings.TrimSpace(l.line) + "\n")
	}
	list, err := access.ParseKeys("keys", []byte(file.String()))
	if len(list) != 1 || err == nil {
		t.Fatalf("%d keys, %v", len(list), err)
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error tells a secret: %v", err)
	}
	found := strings.Split(err.Error(), "\n")
	for i, l := range lines[1:] {
		if i >= len(found) || !strings.HasPrefix(found[i], l.want) {
			t.Errorf("fault %d is %q, want %q", i, found[min(i, len(found)-1)], l.want)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	for name, l := range map[string]access.Limits{
		"": {}, "-a": {}, "a/b": {}, strings.Repeat("a", 65): {},
		"nan": {Rate: math.NaN()}, "inf": {Rate: math.Inf(1)}, "burst": {Rate: 1, Burst: -1},
	} {
		if _, _, err := access.NewKey(name, l, time.Time{}); err == nil {
			t.Errorf("a key %q with %+v is made", name, l)
		}
	}
}

// clock is a time that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *clock) read() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) forward(d time.Duration) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
	return c.now
}

// Eight clients at once, each as fast as it can: over a minute the key gets its
// burst and its rate, to within 1 %. Each call to the clock moves it, so that the
// clients' times interleave.
func TestRateHoldsUnderParallelClients(t *testing.T) {
	for _, c := range []struct {
		l    access.Limits
		step time.Duration
	}{
		{access.Limits{Rate: 100, Burst: 1}, time.Millisecond},
		{access.Limits{Rate: 7.5, Burst: 20}, time.Millisecond},
		{access.Limits{Rate: 2000}, 200 * time.Microsecond},
	} {
		t.Run(fmt.Sprint(c.l), func(t *testing.T) {
			k, secret := newKey(t, "eight", c.l)
			r := access.NewRing([]access.Key{k}, nil)
			now, over := new(clock), time.Minute
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					h := r.Find(secret)
					for now.read() < over {
						if v, wait := h.Begin(func() time.Duration { return now.forward(c.step) }); v == access.Accepted {
							h.End()
						} else if wait <= 0 || wait > time.Duration(float64(time.Second)/c.l.Rate)+1 {
							t.Errorf("asked to wait %v", wait)
						}
					}
				})
			}
			all.Wait()
			burst := float64(c.l.Burst)
			if burst == 0 {
				burst = c.l.Rate
			}
			got, want := float64(r.Find(secret).Count(access.Accepted)), burst+c.l.Rate*over.Seconds()
			if math.Abs(got/want-1) > 0.01 {
				t.Errorf("%v requests passed in a minute, want %v", got, want)
			}
		})
	}
}

// Whoever waits as long as asked is let in then, not a moment before.
func TestWaitIsExact(t *testing.T) {
	k, secret := newKey(t, "a", access.Limits{Rate: 3, Burst: 1})
	h, now := access.NewRing([]access.Key{k}, nil).Find(secret), new(clock)
	if v, _ := h.Begin(now.read); v != access.Accepted {
		t.Fatal("the first request is refused")
	}
	for range 1000 {
		v, wait := h.Begin(now.read)
		if v != access.TooFast {
			t.Fatalf("a second request at the same time is %v", v)
		}
		now.forward(wait - 10)
		if v, _ := h.Begin(now.read); v != access.TooFast {
			t.Fatalf("10 ns too soon it is %v", v)
		}
		now.forward(10)
		if v, _ := h.Begin(now.read); v != access.Accepted {
			t.Fatalf("after the wait it is %v", v)
		}
	}
}

func TestConcurrencyHoldsUnderParallelClients(t *testing.T) {
	k, secret := newKey(t, "a", access.Limits{Concurrency: 3, Rate: 1000, Burst: 1000})
	h, now := access.NewRing([]access.Key{k}, nil).Find(secret), new(clock)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 500 {
				v, _ := h.Begin(now.read)
				if v != access.Accepted {
					continue
				}
				if n := h.InFlight(); n > 3 {
					t.Errorf("%d in flight", n)
				}
				now.forward(time.Millisecond)
				h.End()
			}
		})
	}
	all.Wait()
	if h.InFlight() != 0 {
		t.Errorf("%d in flight at the end", h.InFlight())
	}
	for range 3 {
		h.Begin(now.read)
	}
	tokens := h.Count(access.Accepted)
	for range 10 { // refused for want of a place, they cost nothing of the rate
		if v, wait := h.Begin(now.read); v != access.TooMany || wait != 0 {
			t.Errorf("a fourth request is %v, %v", v, wait)
		}
	}
	h.End()
	if v, _ := h.Begin(now.read); v != access.Accepted || h.Count(access.Accepted) != tokens+1 {
		t.Errorf("a request in the place of an ended one is %v", v)
	}
}

// A new ring keeps what holders have spent, and gives them their new limits.
func TestReplacedRingRemembers(t *testing.T) {
	k, secret := newKey(t, "a", access.Limits{Rate: 1, Burst: 2, Concurrency: 2})
	first, now := access.NewRing([]access.Key{k}, nil), new(clock)
	first.Find(secret).Begin(now.read)
	first.Find(secret).Begin(now.read)

	k.Limits = access.Limits{Rate: 1, Burst: 2, Concurrency: 3}
	fresh, other := newKey(t, "b", access.Limits{})
	second := access.NewRing([]access.Key{k, fresh}, first)
	h := second.Find(secret)
	if v, wait := h.Begin(now.read); v != access.TooFast || wait != time.Second || h.InFlight() != 2 {
		t.Errorf("after the change %v, wait %v, %d in flight", v, wait, h.InFlight())
	}
	now.forward(time.Second)
	if v, _ := h.Begin(now.read); v != access.Accepted {
		t.Errorf("a second later %v", v)
	}
	if v, _ := second.Find(other).Begin(now.read); v != access.Accepted || first.Find(other) != nil {
		t.Errorf("a new key: %v", v)
	}
	if third := access.NewRing([]access.Key{fresh}, second); third.Find(secret) != nil {
		t.Error("a removed key still opens")
	}
}

func FuzzParse(f *testing.F) {
	k, _, err := access.NewKey("seed", access.Limits{Rate: 1}, time.Time{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(k.Line())
	f.Add([]byte("# none\n{}\n{\"name\":\"a\",\"rate\":1e999}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := access.ParseKeys("keys", data)
		if err != nil {
			return
		}
		for _, k := range list { // what is read can be written and read again
			again, err := access.ParseKeys("keys", k.Line())
			if err != nil || len(again) != 1 {
				t.Fatalf("%s: %v", k.Line(), err)
			}
			a, _ := json.Marshal(again[0])
			if b, _ := json.Marshal(k); string(a) != string(b) {
				t.Fatalf("%s became %s", b, a)
			}
		}
	})
}

func BenchmarkFind(b *testing.B) {
	k, secret, err := access.NewKey("a", access.Limits{Rate: 1e6, Concurrency: 10}, time.Time{})
	if err != nil {
		b.Fatal(err)
	}
	r, now := access.NewRing([]access.Key{k}, nil), new(clock)
	b.ReportAllocs()
	for b.Loop() {
		h := r.Find(secret)
		h.Begin(now.read)
		h.End()
	}
}
