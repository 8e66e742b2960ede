package workloads

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// ramp returns requests, each a second after the one before it.
func ramp(n int) Recorded {
	r := make(Recorded, n)
	for i := range r {
		r[i] = Arrival{At: time.Duration(i) * time.Second, Task: i % 2, PromptTokens: 1 + i, OutputTokens: 5}
	}
	return r
}

// The last share is of requests, or of whole days where there are several.
func TestRecordedSplits(t *testing.T) {
	first, last := ramp(100).Split(0.3)
	if len(first) != 70 || len(last) != 30 || last[0].At != 70*time.Second {
		t.Errorf("%d and %d requests, the last from %v", len(first), len(last), last[0].At)
	}
	week := make(Recorded, 7*24)
	for i := range week {
		week[i].At = time.Duration(i) * time.Hour
	}
	for share, days := range map[float64]int{0.5: 4, 0.01: 1, 0.99: 6, 0.29: 2} {
		if first, _ := week.Split(share); len(first) != 24*(7-days) {
			t.Errorf("of a week the last %v begin after %d hours, want %d days before its end", share, len(first), days)
		}
	}
}

// Blocks have as many requests, begin at once, and are all of the requests together.
func TestRecordedBlocks(t *testing.T) {
	r := ramp(103)
	var all []int
	for i := range 10 {
		b := r.Block(i, 10)
		if b[0].At != 0 || len(b) < 10 || len(b) > 11 {
			t.Errorf("block %d has %d requests, the first at %v", i, len(b), b[0].At)
		}
		for _, a := range b {
			all = append(all, a.PromptTokens)
		}
	}
	if len(all) != 103 || !slices.IsSorted(all) || r[50].At != 50*time.Second {
		t.Errorf("%d requests, in order: %v; the first record is as before: %v", len(all), slices.IsSorted(all), r[50].At)
	}
}

// A bootstrapped stream holds stretches of the record, each request with its task and lengths,
// at the record's rate times the stream's one factor; the seed alone decides which.
func TestBootstrap(t *testing.T) {
	r, b := ramp(2000), Bootstrap{Block: 100 * time.Second, ScaledShare: 0.5, Scale: 1.25}
	open := func(seed uint64) []Arrival {
		s, err := b.Open(r, twoTasks, tokens, seed)
		if err != nil {
			t.Fatal(err)
		}
		return collect(s, 4000)
	}
	scaled := 0
	for seed := range uint64(40) {
		list := open(seed)
		jumps := 0
		for i := 1; i < len(list); i++ {
			a, before := list[i], list[i-1]
			if a.At < before.At {
				t.Fatalf("seed %d: request %d comes at %v, after %v", seed, i, a.At, before.At)
			}
			if a.Task != (a.PromptTokens-1)%2 || a.OutputTokens != 5 {
				t.Fatalf("seed %d: request %d is %+v", seed, i, a)
			}
			if a.PromptTokens != before.PromptTokens%2000+1 {
				jumps++
			}
		}
		if jumps < 30 || jumps > 50 { // of 4,000 s in blocks of 100 s
			t.Errorf("seed %d: %d blocks", seed, jumps)
		}
		rate := float64(len(list)) / list[len(list)-1].At.Seconds()
		if rate < 0.79 || rate > 1.27 {
			t.Errorf("seed %d: %v requests/s", seed, rate)
		}
		if rate < 0.99 || rate > 1.01 {
			scaled++
		}
	}
	if scaled < 10 || scaled > 30 {
		t.Errorf("%d of 40 streams are scaled, want about half", scaled)
	}
	if !slices.Equal(open(3), open(3)) || slices.Equal(open(3), open(4)) {
		t.Error("the seed does not decide the stream alone")
	}
}

// Each seed plays another block of the end of a trace, and none what comes before.
func TestTheEndOfATrace(t *testing.T) {
	spec, err := Parse("trace:arena+lengths+last:0.5/10")
	if err != nil || spec.String() != "trace:arena+lengths+last:0.5/10" {
		t.Fatalf("%v, %v", spec, err)
	}
	set := Settings{Tasks: twoTasks, Shape: tokens, Requests: 50}
	open, err := spec.Prepare(set)
	if err != nil {
		t.Fatal(err)
	}
	records := loaded("arena").Records
	for i := range uint64(12) {
		stream, err := open(Seed(Evaluation, i))
		if err != nil {
			t.Fatal(err)
		}
		list := collect(stream, 1000)
		at := 750 + int(i%10)*75
		if len(list) != 50 || list[0].PromptTokens != records[at].PromptTokens || list[0].At != 0 {
			t.Errorf("seed %d: %d requests, the first %+v, want record %d", i, len(list), list[0], at)
		}
	}
	for text, want := range map[string]string{
		"trace:arena+last:1/3": "not the share", "trace:arena+last:0.5": "not a number of blocks", "trace:arena+last:x/3": "not the share",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	spec.Blocks = 751
	if _, err := spec.Prepare(set); err == nil || !strings.Contains(err.Error(), "750 requests are in the last 0.5 of the trace") {
		t.Errorf("%v", err)
	}
}
