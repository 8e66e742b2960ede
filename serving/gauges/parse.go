package gauges

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// ErrNone is what a page without any gauge that is known is refused with.
var ErrNone = errors.New("no gauge of a known engine")

// Reading is what an engine says of itself. What it does not say is −1.
type Reading struct {
	Running, Waiting float64
	// KVUse is the share of its KV cache in use.
	KVUse float64

	named bool // of the model that was asked for, by name
}

// Requests that it has, as far as it says; false if it says nothing of them.
func (r Reading) Requests() (n float64, ok bool) {
	if r.Running < 0 && r.Waiting < 0 {
		return 0, false
	}
	return max(0, r.Running) + max(0, r.Waiting), true
}

// longest line of a page that is read. A line above that ends the reading.
const longest = 64 << 10

// Parse reads a page of Prometheus text. Of series that name models, only those
// of the given model count, if there are any; the requests of several schedulers add
// up (as of data parallel ranks), and of the cache's shares the mean counts. Lines of other
// metrics are passed over, so that nothing wrong with them matters.
func Parse(page io.Reader, modelName string) (Reading, error) {
	lines, err := pick(page)
	if err != nil {
		return Reading{}, fmt.Errorf("cannot read metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(lines))
	if err != nil {
		return Reading{}, fmt.Errorf("cannot read metrics: %w", err)
	}
	found := [quantities]struct {
		rank  int
		value float64
	}{}
	for q := range found {
		found[q].rank, found[q].value = math.MaxInt, -1
	}
	named := false
	for name, family := range families {
		at, ok := known[plain(name)]
		if f := &found[at.quantity]; ok && at.rank < f.rank {
			value, ours, err := sum(family, modelName, at.quantity == kvUse)
			named = named || ours
			if err != nil {
				return Reading{}, fmt.Errorf("cannot read metrics: %s: %w", name, err)
			}
			f.rank, f.value = at.rank, value
		}
	}
	r := Reading{found[running].value, found[waiting].value, found[kvUse].value, named}
	if r == (Reading{Running: -1, Waiting: -1, KVUse: -1}) {
		return Reading{}, ErrNone
	}
	return r, nil
}

// pick keeps the lines of the gauges that are known.
func pick(page io.Reader) ([]byte, error) {
	var lines bytes.Buffer
	scanner := bufio.NewScanner(page)
	scanner.Buffer(nil, longest)
	for scanner.Scan() {
		line := scanner.Bytes()
		name := line
		if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
			name = line[:end]
		}
		if _, ok := known[plain(string(name))]; ok {
			lines.Write(line)
			lines.WriteByte('\n')
		}
	}
	return lines.Bytes(), scanner.Err()
}

// sum adds up the family's series of the model, or takes their mean; ours says
// that there are any.
func sum(family *dto.MetricFamily, modelName string, mean bool) (value float64, ours bool, err error) {
	all, named := tally{at: map[string]int{}}, tally{at: map[string]int{}}
	for _, m := range family.GetMetric() {
		value := m.GetUntyped().GetValue()
		if !(value >= 0 && value < most) { // NaN fails too
			return 0, false, fmt.Errorf("the value %v makes no sense", value)
		}
		scheduler, whole := origin(m)
		if !whole {
			continue
		}
		all.add(scheduler, value)
		for _, label := range m.GetLabel() {
			if label.GetName() == "model_name" && label.GetValue() == modelName {
				named.add(scheduler, value)
			}
		}
	}
	counted := all
	if named.n() > 0 {
		counted = named
	}
	return counted.total(mean), named.n() > 0, nil
}

// origin is what tells a series from those of other schedulers. SGLang's ranks of
// one tensor have the same requests, and may each tell of them; and whole is false
// of the requests of one priority, which those of none hold too.
func origin(m *dto.Metric) (scheduler string, whole bool) {
	for _, label := range m.GetLabel() {
		switch label.GetName() {
		case "tp_rank", "moe_ep_rank":
		case "priority":
			if label.GetValue() != "" {
				return "", false
			}
		default:
			scheduler += label.GetName() + "=" + label.GetValue() + "\n"
		}
	}
	return scheduler, true
}

// most that any gauge can sensibly say.
const most = 1e9

// tally keeps the largest value of each scheduler.
type tally struct {
	at     map[string]int // in values, by scheduler
	values []float64
}

func (t *tally) n() int { return len(t.values) }

func (t *tally) add(scheduler string, value float64) {
	if i, ok := t.at[scheduler]; ok {
		t.values[i] = max(t.values[i], value)
		return
	}
	t.at[scheduler] = len(t.values)
	t.values = append(t.values, value)
}

// total of all schedulers, or their mean.
func (t *tally) total(mean bool) (sum float64) {
	for _, value := range t.values {
		sum += value
	}
	if mean {
		sum /= float64(max(1, t.n()))
	}
	return sum
}
