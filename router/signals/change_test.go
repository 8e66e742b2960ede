package signals_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/signals"
)

// A change of the counter reaches a growing share of the requests.
func TestAChangeRollsOut(t *testing.T) {
	c := signals.Change{From: signals.ByHost, To: signals.ByWork, Began: 10 * time.Second, Over: 100 * time.Second}
	random := rand.New(rand.NewPCG(1, 2))
	for at, want := range map[time.Duration]float64{0: 0, 10 * time.Second: 0, 35 * time.Second: 0.25, 60 * time.Second: 0.5, 110 * time.Second: 1, time.Hour: 1} {
		var to float64
		const n = 20_000
		for range n {
			if c.Counter(random.Uint64(), at) == signals.ByWork {
				to++
			}
		}
		if math.Abs(to/n-want) > 0.02 || c.Share(at) != want {
			t.Errorf("after %v %.3f of the requests compare by the new counter, share %v; want %v", at, to/n, c.Share(at), want)
		}
	}
}

func TestARequestStaysWithTheNewCounter(t *testing.T) {
	c := signals.Change{From: signals.ByHost, To: signals.ByWork, Over: time.Minute}
	random := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		r := random.Uint64()
		if c.Counter(r, 20*time.Second) == signals.ByWork && c.Counter(r, 30*time.Second) != signals.ByWork {
			t.Fatal("a random number that chose the new counter chooses the old one later")
		}
	}
}

func TestAChangeThatIsTakenBack(t *testing.T) {
	var none signals.Change
	const over = 100 * time.Second
	c := none.Next(signals.ByWork, over, 0)
	back := c.Next(signals.ByModel, over, 30*time.Second)
	if share := back.Share(30 * time.Second); math.Abs(share-0.7) > 1e-9 || back.To != signals.ByModel {
		t.Errorf("at the moment of the order %.2f of the requests use the old counter, want .7", share)
	}
	if share := back.Share(60 * time.Second); math.Abs(share-1) > 1e-9 {
		t.Errorf("30 s later it is %.2f, want 1", share)
	}
	if c.Next(signals.ByWork, over, 30*time.Second) != c {
		t.Error("the same order again begins the change again")
	}
	third := c.Next(signals.ByHost, over, 80*time.Second)
	if third.From != signals.ByWork || third.Share(80*time.Second) != 0 {
		t.Errorf("a third counter replaces %v, of share %v", third.From, third.Share(80*time.Second))
	}
}
