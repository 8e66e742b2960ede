package rl_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"gearshift/rl"
)

var (
	firstReport = rl.Report{Decisions: 1000, Total: 3000, Epsilon: 0.75, LearningRate: 0.5, Utility: 0.25}
	laterReport = rl.Report{
		Decisions: 2000, Total: 3000, GradientSteps: 400, Epsilon: 0.5, LearningRate: 0.125,
		Utility: 0.875, Loss: 0.0625, TDError: 0.03125, Validations: 1, Score: 0.9375, BestScore: 0.9375,
	}
	lastReport = func() rl.Report {
		r := laterReport
		r.Decisions = 3000
		return r
	}()
	wall = time.Unix(1_700_000_000, 500_000_000)
)

func TestCSVWriter(t *testing.T) {
	var b strings.Builder
	w := rl.NewCSVWriter(&b, true)
	for i, r := range []rl.Report{firstReport, laterReport} {
		if err := w.Write(r, rl.Timing{Wall: wall, Elapsed: time.Duration(i+1) * 1500 * time.Millisecond, FPS: 2000}); err != nil {
			t.Fatal(err)
		}
	}
	want := `time/total_timesteps,time/time_elapsed,rollout/ep_rew_mean,rollout/exploration_rate,time/fps,train/loss,train/td_error,train/learning_rate,train/n_updates,eval/mean_reward
1000,1.5,0.25,0.75,2000,,,0.5,0,
2000,3,0.875,0.5,2000,0.0625,0.03125,0.125,400,0.9375
`
	if b.String() != want {
		t.Errorf("got\n%swant\n%s", b.String(), want)
	}
	b.Reset()
	if err := rl.NewCSVWriter(&b, false).Write(firstReport, rl.Timing{}); err != nil || strings.Contains(b.String(), "time") {
		t.Errorf("error %v, written %q", err, b.String())
	}
}

// event is what a TensorBoard record decodes to.
type event struct {
	wall    float64
	step    int64
	version string
	scalars map[string]float32
}

// records splits TFRecords and checks their checksums, which it computes by the
// definition: CRC-32C rotated right by 15, plus a constant.
func records(t *testing.T, data []byte) [][]byte {
	t.Helper()
	check := func(data []byte, want uint32) {
		c := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		if ((c>>15)|(c<<17))+0xa282ead8 != want {
			t.Fatal("bad checksum")
		}
	}
	var out [][]byte
	for len(data) > 0 {
		n := binary.LittleEndian.Uint64(data)
		check(data[:8], binary.LittleEndian.Uint32(data[8:]))
		record := data[12 : 12+n]
		check(record, binary.LittleEndian.Uint32(data[12+n:]))
		out = append(out, record)
		data = data[16+n:]
	}
	return out
}

// fields calls f for each field of a message, with its bytes or its bits.
func fields(t *testing.T, data []byte, f func(n protowire.Number, bytes []byte, bits uint64)) {
	t.Helper()
	for len(data) > 0 {
		n, kind, size := protowire.ConsumeTag(data)
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		data = data[size:]
		var bytes []byte
		var bits uint64
		var small uint32
		switch kind {
		case protowire.BytesType:
			bytes, size = protowire.ConsumeBytes(data)
		case protowire.VarintType:
			bits, size = protowire.ConsumeVarint(data)
		case protowire.Fixed64Type:
			bits, size = protowire.ConsumeFixed64(data)
		case protowire.Fixed32Type:
			small, size = protowire.ConsumeFixed32(data)
			bits = uint64(small)
		}
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		data = data[size:]
		f(n, bytes, bits)
	}
}

func decodeEvent(t *testing.T, data []byte) event {
	e := event{scalars: map[string]float32{}}
	fields(t, data, func(n protowire.Number, bytes []byte, bits uint64) {
		switch n {
		case 1:
			e.wall = math.Float64frombits(bits)
		case 2:
			e.step = int64(bits)
		case 3:
			e.version = string(bytes)
		case 5:
			fields(t, bytes, func(_ protowire.Number, bytes []byte, _ uint64) {
				var tag string
				fields(t, bytes, func(n protowire.Number, bytes []byte, bits uint64) {
					if n == 1 {
						tag = string(bytes)
					} else {
						e.scalars[tag] = math.Float32frombits(uint32(bits))
					}
				})
			})
		}
	})
	return e
}

func TestTensorBoardWriter(t *testing.T) {
	var b bytes.Buffer
	w := rl.NewTensorBoardWriter(&b)
	for _, r := range []rl.Report{firstReport, laterReport, lastReport} {
		if err := w.Write(r, rl.Timing{Wall: wall, FPS: 2000}); err != nil {
			t.Fatal(err)
		}
	}
	// What every event file begins with: a record of 24 bytes, and the checksum of that.
	if want := "\x18\x00\x00\x00\x00\x00\x00\x00\xa3\x7f\x4b\x22"; !strings.HasPrefix(b.String(), want) {
		t.Errorf("the file begins with %x, not %x", b.Bytes()[:12], want)
	}
	var events []event
	for _, r := range records(t, b.Bytes()) {
		events = append(events, decodeEvent(t, r))
	}
	if len(events) != 4 || events[0].version != "brain.Event:2" || events[0].wall != 1_700_000_000.5 {
		t.Fatalf("events %+v", events)
	}
	if e := events[1]; e.step != 1000 || e.wall != 1_700_000_000.5 || e.scalars["rollout/ep_rew_mean"] != 0.25 || len(e.scalars) != 5 {
		t.Errorf("first event %+v", e)
	}
	want := map[string]float32{
		"rollout/ep_rew_mean": 0.875, "rollout/exploration_rate": 0.5, "time/fps": 2000,
		"train/loss": 0.0625, "train/td_error": 0.03125, "train/learning_rate": 0.125,
		"train/n_updates": 400, "eval/mean_reward": 0.9375,
	}
	if len(events[2].scalars) != len(want) {
		t.Errorf("later event %+v", events[2])
	}
	for name, v := range want {
		if events[2].scalars[name] != v {
			t.Errorf("%s is %v, not %v", name, events[2].scalars[name], v)
		}
	}
	if _, again := events[3].scalars["eval/mean_reward"]; again {
		t.Error("a validation is written twice")
	}
	if got := rl.EventFileName(wall); got != "events.out.tfevents.1700000000.gearshift" {
		t.Errorf("file name %s", got)
	}
}

// full is a writer that has no room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

var errFull = errors.New("no space left")

func TestWritersReportErrors(t *testing.T) {
	if err := rl.NewCSVWriter(full{}, true).Write(firstReport, rl.Timing{}); !errors.Is(err, errFull) {
		t.Errorf("CSV: error %v", err)
	}
	if err := rl.NewTensorBoardWriter(full{}).Write(firstReport, rl.Timing{}); !errors.Is(err, errFull) {
		t.Errorf("TensorBoard: error %v", err)
	}
}
