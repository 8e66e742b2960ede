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
// of the given model count, if there are any; the requests of several series add
// up (as of ranks), and of the cache's shares the mean counts. Lines of other
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
	all, named := tally{}, tally{}
	for _, m := range family.GetMetric() {
		value := m.GetUntyped().GetValue()
		if !(value >= 0 && value < most) { // NaN fails too
			return 0, false, fmt.Errorf("the value %v makes no sense", value)
		}
		all.add(value)
		for _, label := range m.GetLabel() {
			if label.GetName() == "model_name" && label.GetValue() == modelName {
				named.add(value)
			}
		}
	}
	if named.n > 0 {
		all = named
	}
	if mean {
		all.sum /= float64(max(1, all.n))
	}
	return all.sum, named.n > 0, nil
}

// most that any gauge can sensibly say.
const most = 1e9

type tally struct {
	sum float64
	n   int
}

func (t *tally) add(value float64) { t.sum, t.n = t.sum+value, t.n+1 }
