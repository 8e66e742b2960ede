package access_test

import (
	"fmt"
	"testing"
	"time"

	"gearshift/serving/access"
)

// Someone who sends a hundred guesses at a time, as fast as they are answered, has few
// of them looked at.
func TestGuessingIsSlowed(t *testing.T) {
	var c access.Tries
	looked, next := 0, make([]time.Duration, 100)
	for now := time.Duration(0); now < 10*time.Minute; now += 50 * time.Millisecond {
		for i := range next {
			if next[i] > now || c.Wait("192.0.2.1", now) > 0 {
				continue
			}
			looked++
			_, wait := c.Failed("192.0.2.1", now)
			next[i] = now + wait
		}
	}
	if looked > 5000 {
		t.Errorf("%d guesses in ten minutes", looked)
	}
	if c.Wait("192.0.2.2", time.Hour) != 0 {
		t.Error("another client waits too")
	}
}

func TestAFewMistakesCostNothing(t *testing.T) {
	var c access.Tries
	for range 5 {
		if _, wait := c.Failed("192.0.2.1", 0); wait != 0 {
			t.Errorf("waits %v", wait)
		}
	}
	if n, wait := c.Failed("192.0.2.1", 0); n != 6 || wait != 10*time.Millisecond {
		t.Errorf("failure %d waits %v", n, wait)
	}
	for range 9 {
		c.Failed("192.0.2.3", 0)
	}
	if n, _ := c.Failed("192.0.2.3", time.Hour); n != 1 {
		t.Errorf("%d failures an hour later", n)
	}
}

// One customer's addresses are one client, and a flood of clients takes bounded memory.
func TestManyAddresses(t *testing.T) {
	var c access.Tries
	for i := range 300 {
		c.Failed(fmt.Sprintf("2001:db8::%x", i), 0)
	}
	if c.Wait("2001:db8::ffff", 0) == 0 || c.Wait("2001:db8:0:1::1", 0) != 0 {
		t.Error("a /64 is not one client")
	}
	for i := range 20_000 {
		c.Failed(fmt.Sprintf("10.%d.%d.1", i/250, i%250), time.Duration(i))
	}
	if n := c.Len(); n > 4096 {
		t.Errorf("%d clients are remembered", n)
	}
	for range 300 {
		c.Failed("no address", 0)
	}
	if c.Wait("none either", 0) == 0 {
		t.Error("clients without an address are not slowed")
	}
}
