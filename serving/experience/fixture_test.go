package experience

import (
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gearshift/router/fleet"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testTable is a fleet of so many hosts, each with two sizes.
func testTable(t testing.TB, hosts int) *fleet.Table {
	t.Helper()
	var list []fleet.Host
	var replicas []fleet.Replica
	for h := range hosts {
		name := string(rune('a' + h))
		list = append(list, fleet.Host{Name: name})
		for m, size := range []string{"small", "large"} {
			replicas = append(replicas, fleet.Replica{Name: size + "@" + name, Variant: m, Host: h, Limit: 4})
		}
	}
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.5, 1}}, {Name: "copy", Deadline: time.Second, Weight: 1, Quality: []float64{1, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, list, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// testRow is a row with a value in every field.
func testRow(table *fleet.Table, id uint64) *Row {
	r := &Row{
		Decision: id, Wall: time.Date(2026, 7, 8, 10, 11, 12, int(id), time.UTC),
		Request: fleet.Request{ID: id, Task: 1, PromptTokens: 90, Deadline: 123456789, FirstToken: 987654321, Total: 88_000_000_001, MinQuality: 0.7, Answers: 2, Variants: 3, Holding: 3, Without: []int{0}, Session: 1<<63 + 5, Only: 2, Arrival: time.Duration(id) * 1_000_000_007},
		Variant: 1, Replica: 1, Policy: "p@1", Fallback: "policy panicked", Propensity: 0.1,
		EndVariant: 1, EndReplica: 3, Outcome: Completed, OutputTokens: 7,
		FirstToken: 1, Latency: 22, PerToken: 3, Judged: true, Met: true, Utility: 1.0 / 3, Reported: true,
	}
	p := &r.Request.Predicted
	p.Known, p.Sure, p.Gains = true, 0.3, &[fleet.MostPredicted]float32{0, 0.7}
	p.Quality[0], p.Quality[1], p.Low[0], p.Low[1] = 1.0/3, 0.9, 0.1, 0.8
	r.View = fleet.View{
		Table: table, Now: r.Request.Arrival + 1, InFlight: make([]int32, len(table.Replicas)), Held: make([]int32, len(table.Replicas)),
		Elsewhere: make([]int32, len(table.Replicas)), Caps: make([]int32, len(table.Replicas)), Excess: make([]float32, len(table.Replicas)),
		Down: make([]bool, len(table.Replicas)), ByTask: make([]int32, len(table.Replicas)*len(table.Tasks)), Rate: 0.1 + 0.2, Smoothed: fleet.SmoothedRates{1.0 / 3, 2.0 / 7}, Recent: fleet.Shortfalls{0.05, 1, 0, 1.0 / 3},
	}
	for i := range r.View.InFlight {
		r.View.InFlight[i], r.View.Held[i], r.View.Elsewhere[i], r.View.Caps[i] = int32(i), int32(100*i), int32(i/2), int32(i%3)
	}
	r.View.Down[1], r.View.Excess[2], r.View.ByTask[3] = true, 0.5, 1
	r.View.Facts = fleet.Facts{
		States: make([]fleet.State, len(table.Replicas)), Ready: make([]time.Duration, len(table.Replicas)),
		Newer: make([]bool, len(table.Replicas)), Busy: make([]float32, len(table.Hosts)),
	}
	r.View.States[1], r.View.Ready[1], r.View.Newer[2], r.View.Facts.Busy[1] = fleet.Loading, 5_000_000_001, true, 0.3
	return r
}

func testConfig(t *testing.T) Config {
	t.Helper()
	c := DefaultConfig()
	c.Path = filepath.Join(t.TempDir(), "logs", "experience.jsonl")
	return c
}

// opened is a store that has begun.
func opened(c Config, h Header, log *slog.Logger) (*Store, error) {
	s, err := New(c, h, log)
	if err != nil {
		return nil, err
	}
	return s, s.Begin()
}

// testStore is a store of the table, closed with the test.
func testStore(t *testing.T, c Config, table *fleet.Table) *Store {
	t.Helper()
	s, err := opened(c, NewHeader(table), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// closed is what a store has written once it is closed.
func closed(t *testing.T, s *Store, paths ...string) *Log {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if len(paths) == 0 {
		paths = []string{s.config.Path}
	}
	log, err := Load(paths...)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

func text(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// set gives every exported field of a struct a value that is not zero, so that a
// field that nobody has thought of shows.
func set(t *testing.T, v reflect.Value, except ...string) {
	t.Helper()
	for i := range v.NumField() {
		f, field := v.Field(i), v.Type().Field(i)
		skip := !field.IsExported()
		for _, name := range except {
			skip = skip || field.Name == name
		}
		if skip || !f.IsZero() {
			continue
		}
		t.Fatalf("%s.%s is not kept in the log: write and read it, and set it in testRow", v.Type(), field.Name)
	}
}
