package experience

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/router/fleet"
)

// What is read back is what was written, to the last bit, of a whole fleet and of
// a sample.
func TestRowsAreReadAsWritten(t *testing.T) {
	for _, hosts := range []int{2, 20} {
		table := testTable(t, hosts)
		s := testStore(t, testConfig(t), table)
		var want []*Row
		for id := uint64(1); id <= 3; id++ {
			r := testRow(table, id)
			r.View.Sample(table, id) // of 20 hosts, not of 2
			set(t, reflect.ValueOf(*r), "Pinned")
			set(t, reflect.ValueOf(r.View), "Forecasts")
			set(t, reflect.ValueOf(r.View.Facts))
			set(t, reflect.ValueOf(r.Request), "Prompt", "Held", "First") // simulated requests alone have the first, the gate and the class read the others
			kept := *r
			kept.View = fleet.View{}
			kept.View.CopyFrom(&r.View)
			want = append(want, &kept)
			s.Add(r)
		}
		log := closed(t, s)
		if err := log.On(table); err != nil {
			t.Fatal(err)
		}
		if len(log.Runs) != 1 || log.Len() != 3 || log.Runs[0].Missing() != 0 || len(log.Notes) != 0 {
			t.Fatalf("%d hosts: %d runs of %d rows, %v", hosts, len(log.Runs), log.Len(), log.Notes)
		}
		for i, got := range log.Runs[0].Rows {
			sameView(t, &got.View, &want[i].View)
			got.View, got.hosts, got.line, want[i].View = fleet.View{}, nil, 0, fleet.View{}
			if !reflect.DeepEqual(got, *want[i]) {
				t.Errorf("%d hosts: read %+v, written %+v", hosts, got, *want[i])
			}
		}
	}
}

func sameView(t *testing.T, got, want *fleet.View) {
	t.Helper()
	if got.Sampled() != want.Sampled() || !slices.Equal(got.Hosts(), want.Hosts()) || !slices.Equal(got.Replicas(), want.Replicas()) {
		t.Errorf("read a view of hosts %v, written of %v", got.Hosts(), want.Hosts())
	}
	for m := range want.Table.Variants {
		if !slices.Equal(got.ReplicasOf(m), want.ReplicasOf(m)) || got.VariantAvailable(m) != want.VariantAvailable(m) {
			t.Errorf("variant %d: read %v, written %v", m, got.ReplicasOf(m), want.ReplicasOf(m))
		}
	}
	if got.Now != want.Now || got.Rate != want.Rate || got.Smoothed != want.Smoothed || got.Recent != want.Recent ||
		!reflect.DeepEqual(got.Facts, want.Facts) || !slices.Equal(got.InFlight, want.InFlight) || !slices.Equal(got.Elsewhere, want.Elsewhere) || !slices.Equal(got.Caps, want.Caps) || !slices.Equal(got.Excess, want.Excess) || !slices.Equal(got.Held, want.Held) || !slices.Equal(got.Down, want.Down) {
		t.Errorf("read %+v, written %+v", got, want)
	}
}

// Files are bounded in size and number, each begins with the header, and together
// they hold the latest rows.
func TestFilesRotate(t *testing.T) {
	table := testTable(t, 2)
	s := testStore(t, testConfig(t), table)
	s.files.most, s.files.keep = 5400, 3
	other := s.config.Path[:len(s.config.Path)-len(".jsonl")] + "-mine.jsonl"
	if err := os.WriteFile(other, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const n = 60
	for id := uint64(1); id <= n; id++ {
		line, err := s.encode(testRow(table, id))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.files.write(line); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(s.config.Path), "experience*.jsonl"))
	if err != nil || len(paths) != 3+1 || !slices.Contains(paths, other) {
		t.Fatalf("files %v, want three and %s", paths, other)
	}
	paths = slices.DeleteFunc(paths, func(p string) bool { return p == other })
	for _, p := range paths {
		if body := text(t, p); len(body) > 5400 || !strings.HasPrefix(body, `{"gearshift_experience":1,`) {
			t.Errorf("%s: %d bytes that begin with %.40s", p, len(body), body)
		}
	}
	log := closed(t, s, paths...)
	rows := log.Runs[0].Rows
	if len(log.Runs) != 1 || rows[len(rows)-1].Request.ID != n || log.Runs[0].Missing() != 0 || len(rows) < 10 {
		t.Errorf("%d runs; %d rows to %d", len(log.Runs), len(rows), rows[len(rows)-1].Request.ID)
	}
}

// A server that starts again keeps what the last one wrote, and rows of both are
// told apart.
func TestRunsAreApart(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	for range 2 {
		s := testStore(t, c, table)
		s.Add(testRow(table, 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	log, err := Load(paths...)
	if err != nil || len(log.Runs) != 2 || log.Len() != 2 {
		t.Fatalf("%v: %+v, %v", paths, log, err)
	}
	if _, err := Load(paths[0], paths[0]); err == nil || !strings.Contains(err.Error(), "give each file once") {
		t.Errorf("the same file twice: %v", err)
	}
}

// A server that nobody asks leaves a file of a header alone, which stands for no run.
func TestRunsWithoutRowsAreNone(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	for rows := range 3 { // none, one, and two
		s := testStore(t, c, table)
		for id := range rows {
			s.Add(testRow(table, uint64(id+1)))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	log, err := Load(paths...)
	if err != nil || len(log.Files) != 3 || len(log.Runs) != 2 || log.Len() != 3 {
		t.Errorf("%v: %+v, %v", paths, log, err)
	}
}

// Rows beyond the buffer are dropped, counted and told of once. Nobody waits.
func TestRowsAreDroppedRatherThanWaitedFor(t *testing.T) {
	var logged bytes.Buffer
	c := testConfig(t)
	c.Buffer = 2
	s, err := New(c, NewHeader(testTable(t, 2)), slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	for id := uint64(1); id <= 5; id++ { // nobody writes yet
		s.Add(testRow(testTable(t, 2), id))
	}
	if n := s.Stats(); n != (Stats{0, 3}) {
		t.Errorf("%+v", n)
	}
	if err := s.Begin(); err != nil {
		t.Fatal(err)
	}
	log := closed(t, s)
	s.Add(testRow(testTable(t, 2), 6))
	if n := s.Stats(); n != (Stats{2, 4}) || log.Len() != 2 {
		t.Errorf("%+v, %d rows read", n, log.Len())
	}
	if got := logged.String(); strings.Count(got, "experience is dropped") != 1 || !strings.Contains(got, "rows=2 dropped=3") {
		t.Errorf("logged %s", got)
	}
}

// A disk that fails costs rows, not requests; what follows is whole again.
func TestFailedWrites(t *testing.T) {
	var logged bytes.Buffer
	table, c := testTable(t, 2), testConfig(t)
	s, err := opened(c, NewHeader(table), slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	line, err := s.encode(testRow(table, 1))
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.files.file.Write(line[:20]) // all that a full disk took
	_ = s.files.file.Close()
	s.flush(line, 1)
	s.flush(line, 1)
	if n := s.Stats(); n != (Stats{1, 1}) {
		t.Errorf("%+v", n)
	}
	for _, want := range []string{"cannot write experience", "can be written again"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q is not logged: %s", want, &logged)
		}
	}
	if log := closed(t, s); log.Len() != 1 {
		t.Errorf("%d rows in the file that followed", log.Len())
	}
	s.failing = false
	r := testRow(table, 2)
	r.Utility = math.NaN()
	if _, err := s.encode(r); err == nil {
		t.Error("NaN is encoded")
	}
}

// A last line that breaks off, as after a kill, is left out and noted.
func TestTornLastLine(t *testing.T) {
	table := testTable(t, 2)
	s := testStore(t, testConfig(t), table)
	s.Add(testRow(table, 1))
	s.Add(testRow(table, 2))
	closed(t, s)
	whole := text(t, s.config.Path)
	second := strings.LastIndex(strings.TrimSuffix(whole, "\n"), "\n") + 1
	for _, at := range []int{second + 1, second + 50, len(whole) - 2} {
		f, err := read("torn.jsonl", strings.NewReader(whole[:at]))
		if err != nil || len(f.rows) != 1 || !strings.Contains(f.note, "torn.jsonl:3") {
			t.Errorf("cut at %d: %v, %+v", at, err, f)
		}
	}
	// Whole but for its newline, it counts.
	if f, err := read("x", strings.NewReader(whole[:len(whole)-1])); err != nil || len(f.rows) != 2 || f.note != "" {
		t.Errorf("%v, %+v", err, f)
	}
	// In the middle it is a fault.
	if _, err := read("x", strings.NewReader(whole[:second+50]+"\n"+whole[second:])); err == nil || !strings.Contains(err.Error(), "x:3: ") {
		t.Errorf("a broken row in the middle: %v", err)
	}
}

// What is wrong is named with file and line.
func TestReaderIsStrict(t *testing.T) {
	table := testTable(t, 2)
	s := testStore(t, testConfig(t), table)
	s.Add(testRow(table, 1))
	closed(t, s)
	whole := text(t, s.config.Path)
	header, row, _ := strings.Cut(whole, "\n")
	for _, c := range []struct{ from, to, want string }{
		{`"gearshift_experience":1`, `"gearshift_experience":2`, "x:1: the file is of version 2"},
		{`"gearshift_experience":1`, `"other":1`, "x:1: the first line is no header"},
		{`"run":"`, `"walk":"`, "x:1: the header lacks"},
		{`"variant":"small","host":"a"`, `"variant":"huge","host":"a"`, `x:1: the header's replica "small@a"`},
		{`"id":1,`, ``, "x:2: id, decision: missing"},
		{`"decision":1,`, ``, "x:2: id, decision: missing"},
		{`"id":1,`, `"id":"1",`, "x:2: "},
		{`"id":1,`, `"id":1,"prompt":"hi",`, `x:2: unknown field "prompt"`},
		{`"task":"copy"`, `"task":"sing"`, `x:2: task: "sing" is not one of the header's: chat, copy`},
		{`"replica":"large@a"`, `"replica":"small@b"`, `x:2: replica: "small@b" is not one of the header's of variant large`},
		{`"moved_to":"large@b"`, `"moved_to":"@"`, "x:2: moved_to"},
		{`"in_flight":[0,1,2,3]`, `"in_flight":[0,1,2]`, "x:2: in_flight, held_tokens: 3 and 4 numbers"},
		{`"in_flight":[0,1,2,3]`, `"in_flight":[0,1,2,-3]`, "x:2: in_flight, in_flight_by_task, held_tokens, of_others: a negative number"},
		{`"held_tokens"`, `"in_flight_by_task":[1,2],"held_tokens"`, "x:2: in_flight_by_task: 2 numbers; want none, or one for each of 2 tasks on each of 4 replicas"},
		{`"caps":[0,1,2,0]`, `"caps":[0,1,2]`, "x:2: of_others, caps: 4 and 3 numbers"},
		{`"excess_time":[0,0,0.5,0]`, `"excess_time":[0,0.5]`, "x:2: excess_time: 2 numbers"},
		{`"excess_time":[0,0,0.5,0]`, `"excess_time":[0,0,-0.5,0]`, "x:2: excess_time: -0.5 is negative"},
		{`"states":["up","loading","up","up"]`, `"states":["up"]`, "x:2: states: 1 entries; want none, or one for each of 4 replicas"},
		{`"states":["up","loading",`, `"states":["up","busy",`, `x:2: states: "busy"; want one of [up cold loading warm draining down absent]`},
		{`"ready_at_ns":[0,5000000001,`, `"ready_at_ns":[0,-1,`, "x:2: ready_at_ns: -1 is negative"},
		{`"newer":[false,false,`, `"newer":[`, "x:2: newer: 2 entries"},
		{`"busy_hosts":[0,0.3]`, `"busy_hosts":[0.3]`, "x:2: busy_hosts: 1 numbers; want none, or one for each of 2 hosts"},
		{`"busy_hosts":[0,0.3]`, `"busy_hosts":[0,1.3]`, "x:2: busy_hosts: 1.3 is not a share"},
		{`"down":[1]`, `"down":[4]`, "x:2: down: 4 is not in 0 … 3"},
		{`"sure":0.3`, `"sure":1.3`, "x:2: predicted: sure is 1.3; want 0 to 1"},
		{`"low":[0.1,0.8]`, `"low":[0.1]`, "x:2: predicted: 2 qualities and 1 lower bounds; want one of each for each of 2 variants"},
		{`"gains":[0,0.7]`, `"gains":[0]`, "x:2: predicted: 1 gains; want none, or one for each of 2 variants"},
		{`"min_quality":0.7`, `"min_quality":-0.7`, "x:2: min_quality: -0.7 is negative"},
		{`"propensity":0.1`, `"propensity":1.1`, "x:2: propensity"},
		{`"latency_ns":22`, `"latency_ns":-22`, "x:2: latency_ns: -22 is negative"},
		{`"outcome":"completed",`, ``, "x:2: outcome, policy"},
		{"}\n", "}{}\n", "x:2: more than one JSON object"},
	} {
		text := header + "\n" + row
		if c.from != "}\n" {
			text = strings.Replace(text, c.from, c.to, 1)
		} else {
			text = header + "\n" + strings.Replace(row, c.from, c.to, 1)
		}
		if _, err := read("x", strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s → %s: %v; want %q", c.from, c.to, err, c.want)
		}
	}
	for _, empty := range []string{"", "\n"} {
		if _, err := read("x", strings.NewReader(empty)); err == nil || !strings.HasPrefix(err.Error(), "x:") {
			t.Errorf("%q: %v", empty, err)
		}
	}
	if err := (&Log{Runs: []Run{{Header: NewHeader(table)}}}).On(testTable(t, 3)); err == nil || !strings.Contains(err.Error(), "a fleet with hosts [a b], not [a b c]") {
		t.Errorf("another fleet: %v", err)
	}
}

// About the share asked for is sampled, in whole stretches, another one each run.
func TestSampling(t *testing.T) {
	c := Config{Sample: 0.25}
	const stretches = 4000
	var taken [2]int
	for seed := range uint64(2) {
		for k := range uint64(stretches) {
			first := c.sampled(1+k*Stretch, seed)
			for i := range uint64(Stretch) {
				if c.sampled(1+k*Stretch+i, seed) != first {
					t.Fatalf("stretch %d is torn", k)
				}
			}
			if first {
				taken[seed]++
			}
		}
		if got := float64(taken[seed]) / stretches; math.Abs(got-0.25) > 0.03 {
			t.Errorf("seed %d: %v are sampled", seed, got)
		}
	}
	if all := (Config{Sample: 1}); !all.sampled(7, 3) {
		t.Error("not everything is sampled")
	}
}

func TestConfigFaults(t *testing.T) {
	c := Config{Sample: math.NaN(), MaxSizeMiB: 0, MaxFiles: -1, Buffer: 0}
	err := fmt.Sprint(c.Validate())
	for _, key := range []string{"sample: NaN", "max_size_mib: 0", "max_files: -1", "buffer: 0"} {
		if !strings.Contains(err, key) {
			t.Errorf("%q is not in %s", key, err)
		}
	}
	if err := DefaultConfig().Validate(); err != nil || DefaultConfig().On() {
		t.Errorf("the default: %v", err)
	}
	folder := DefaultConfig()
	folder.Path = t.TempDir()
	if _, err := opened(folder, NewHeader(testTable(t, 1)), nil); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a folder: %v", err)
	}
}

// FuzzRead: whatever the bytes, reading ends in rows or an error, and what is read is
// written anew as it was.
func FuzzRead(f *testing.F) {
	table := testTable(f, 2)
	h := NewHeader(table)
	h.Run = "1"
	s := &Store{header: h}
	row, err := s.encode(testRow(table, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"gearshift_experience":1,"run":"1","tasks":["chat","copy"],"variants":["small","large"],"hosts":["a","b"],"replicas":[{"name":"small@a","variant":"small","host":"a"},{"name":"large@a","variant":"large","host":"a"},{"name":"small@b","variant":"small","host":"b"},{"name":"large@b","variant":"large","host":"b"}]}` + "\n" + string(row)))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := read("x", bytes.NewReader(data))
		if err != nil {
			return
		}
		lines := bytes.Split(data, []byte("\n"))
		for i := range got.rows {
			var want writtenRow
			if err := decode(lines[got.rows[i].line-1], &want, true); err != nil {
				t.Fatal(err)
			}
			slices.Sort(want.Down)
			if want.Down = slices.Compact(want.Down); want.MovedTo == want.Replica {
				want.MovedTo = ""
			}
			l := got.header.written(&got.rows[i])
			l.Hosts = got.rows[i].hosts // the view has none without its table
			if was, is := encoded(t, want), encoded(t, l); was != is {
				t.Errorf("written anew\n%s is\n%s", was, is)
			}
		}
	})
}

func encoded(t *testing.T, l writtenRow) string {
	t.Helper()
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A request without a prediction leaves no trace of one, as in logs of earlier versions.
func TestARowWithoutAPrediction(t *testing.T) {
	table := testTable(t, 2)
	s := testStore(t, testConfig(t), table)
	r := testRow(table, 1)
	r.Request.Predicted = fleet.Prediction{}
	s.Add(r)
	log := closed(t, s)
	if strings.Contains(text(t, s.config.Path), "predicted") {
		t.Error("a prediction is written where there is none")
	}
	if p := log.Runs[0].Rows[0].Request.Predicted; p != (fleet.Prediction{}) {
		t.Errorf("read %+v", p)
	}
}
