package measure

import (
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// clocked is a table of an engine whose time depends on what it is asked.
func clocked(t *testing.T, modalities []string, batches []int) (*classifierTable, *int) {
	t.Helper()
	now, asked := time.Duration(0), 0
	table := &classifierTable{
		modalities: modalities, batches: batches, random: rand.New(rand.NewPCG(1, 1)),
		inputs: map[string]string{"image": "I", "audio": "A"},
		since:  func() time.Duration { return now },
	}
	table.ask = func(_ context.Context, body []byte) error {
		asked++
		var order struct{ Inputs []map[string]string }
		if err := json.Unmarshal(body, &order); err != nil {
			t.Error(err)
		}
		each := time.Duration(0)
		for name, value := range order.Inputs[0] {
			each += map[string]time.Duration{"image=I": 2, "audio=A": 5}[name+"="+value]
		}
		now += (10 + each*time.Duration(len(order.Inputs))) * time.Millisecond
		return nil
	}
	return table, &asked
}

// Each subset has the times of its own inputs, in the order in which a scenario names
// them, and the first round does not count.
func TestClassifierTable(t *testing.T) {
	table, asked := clocked(t, []string{"image", "audio"}, []int{1, 4})
	times, err := table.measure(t.Context(), time.Nanosecond, func(int, int, int) {})
	if err != nil || *asked != 12 {
		t.Fatalf("%d requests, %v", *asked, err)
	}
	want := `profiles:
  - {variant: d-image, batch_ms: {1: 12, 4: 18}} # medians of 1 or more
  - {variant: d-audio, batch_ms: {1: 15, 4: 30}} # medians of 1 or more
  - {variant: d-image-audio, batch_ms: {1: 17, 4: 38}} # medians of 1 or more
`
	if got := table.text("d", times); got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if times, err = table.measure(t.Context(), time.Second, func(int, int, int) {}); err != nil || len(times[cell{1, 1}]) < 5 {
		t.Errorf("in a second %d times, %v", len(times[cell{1, 1}]), err)
	}
}

// A larger batch takes no less than a smaller one, and a fault names what was asked.
func TestClassifierTableFaults(t *testing.T) {
	table, _ := clocked(t, []string{"image"}, []int{1, 2, 4})
	times := map[cell][]float64{{1, 1}: {5, 9, 1}, {1, 2}: {4}, {1, 4}: {6.126}}
	if got := table.text("d", times); !strings.Contains(got, "{1: 5, 2: 5, 4: 6.126}") {
		t.Errorf("%s", got)
	}
	table.ask = func(context.Context, []byte) error { return errors.New("no") }
	if _, err := table.measure(t.Context(), time.Second, func(int, int, int) {}); err == nil || !strings.Contains(err.Error(), "image, a batch of ") {
		t.Errorf("%v", err)
	}
}
