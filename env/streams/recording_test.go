package streams_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/env/streams"
)

// A link of one packet each millisecond carries 12.032 Mbit/s; one that pauses carries nothing meanwhile.
func TestMahimahi(t *testing.T) {
	var up, down strings.Builder
	for ms := 1; ms <= 400; ms++ {
		fmt.Fprintln(&up, ms)
		if ms <= 100 || ms > 300 {
			fmt.Fprintf(&down, "%d\n%d\n", ms, ms)
		}
	}
	l, err := streams.ReadMahimahi(strings.NewReader(up.String()), strings.NewReader(down.String()), 30*time.Millisecond)
	if err != nil || l.Length() != 400*time.Millisecond {
		t.Fatal(err, l)
	}
	for at, want := range map[time.Duration][2]float64{0: {12.032, 24.064}, 150 * time.Millisecond: {12.032, 0}, 399 * time.Millisecond: {12.032, 24.064}, 550 * time.Millisecond: {12.032, 0}} {
		if up, down, rtt := l.At(at); math.Abs(up-want[0]) > 1e-9 || math.Abs(down-want[1]) > 1e-9 || rtt != 30*time.Millisecond {
			t.Errorf("at %v: %v up, %v down, %v; want %v", at, up, down, rtt, want)
		}
	}
	for text, want := range map[string]string{"": "no lines", "5\n4\n": "line 2", "1.5\n": `line 1: want a time in milliseconds`, "99999999999\n": "line 1"} {
		if _, err := streams.ReadMahimahi(strings.NewReader(text), strings.NewReader("1\n"), 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}

func TestSpeedTests(t *testing.T) {
	l, err := streams.ReadSpeedTest(strings.NewReader("time_s,ping_ms,down_mbps,up_mbps,place\n0,14,1700,150,a\n0.5,16.5,1600,140,a\n1,20,1500,130,b\n"))
	if err != nil {
		t.Fatal(err)
	}
	if up, down, rtt := l.At(700 * time.Millisecond); l.Step != 500*time.Millisecond || up != 140 || down != 1600 || rtt != 16500*time.Microsecond {
		t.Errorf("%v: %v up, %v down, %v", l.Step, up, down, rtt)
	}
	const head = "time_s,up_mbps,down_mbps,ping_ms\n"
	for text, want := range map[string]string{
		"a,b\n1,2\n3,4\n":                    "there is no column time_s; want time_s, up_mbps, down_mbps, ping_ms",
		head + "0,1,1,1\n":                   "want a head and two rows",
		head + "0,1,1,1\n1,1,1,1\n3,1,1,1\n": "line 4: time_s: 2s after the row before",
		head + "0,1,1,1\n0,1,1,1\n":          "line 3: time_s: want a time after",
		head + "0,1,1,1\n1,-3,1,1\n":         `line 3: up_mbps: want a number from 0 on, found "-3"`,
		head + "0,1,1,1\n1,1,1,1,1\n":        "line 3",
	} {
		if _, err := streams.ReadSpeedTest(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %q", text, err, want)
		}
	}
}
