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

	"gearshift/router/signals"
)

// ErrNone is what a page without any gauge that is known is refused with.
var ErrNone = errors.New("no gauge of a known engine")

// Reading is what a page says of a model.
type Reading struct {
	signals.Reading
	// Load is all that it says.
	Load  signals.Load
	named bool // of the model that was asked for, by name
	one   bool // all series that name a model name the same
	// shared says that it is of all replicas of the server.
	shared bool
	// unloaded says that there is none, since the model is not loaded.
	unloaded bool
}

// longest line of a page that is read. A line above that ends the reading.
const longest = 64 << 10

// The most of a page that is read, and of the lines in it that are kept.
const (
	biggest = 8 << 20
	kept    = 1 << 20
)

// Parse reads a page of Prometheus text. Of series that name models, only those
// of the given model count, if there are any; the requests of several schedulers add
// up (as of data parallel ranks), and of the cache's shares the mean counts. Lines of other
// metrics are passed over, so that nothing wrong with them matters. A line of a gauge that
// makes no sense, such as NaN, is left out; it is the error where no other makes any.
func Parse(page io.Reader, modelName string) (Reading, error) {
	lines, err := pick(page)
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
	families, fault := parsed(lines)
	named, models := false, map[string]bool{}
	for name, series := range families {
		namesOf(series, models)
		at := known[plain(name)]
		if f := &found[at.quantity]; at.rank < f.rank {
			value, ours, ok := sum(series, modelName, at.quantity == kvUse)
			if !ok {
				continue
			}
			named = named || ours
			f.rank, f.value = at.rank, value
		}
	}
	l := signals.NewLoad()
	l.Waiting, l.KVUse = found[waiting].value, found[kvUse].value
	if l.Requests = found[running].value; l.Requests >= 0 {
		l.Requests += max(0, l.Waiting)
	}
	r := Reading{Reading: signals.Reading{Running: found[running].value, Waiting: l.Waiting, KVUse: l.KVUse}, named: named, one: len(models) == 1}
	nothing := l == signals.NewLoad()
	l.Host, l.Work, l.Cores = found[hostRequests].value, found[hostWork].value, found[hostCores].value
	r.Load = l
	switch {
	case named || !nothing:
		return r, nil
	case fault != nil:
		return Reading{}, fmt.Errorf("cannot read metrics: %w", fault)
	}
	return Reading{}, ErrNone
}

// parsed are the series that make sense, by the name of their gauge. The fault is that of the
// first that does not.
func parsed(lines []byte) (families map[string][]*dto.Metric, fault error) {
	families = map[string][]*dto.Metric{}
	parser := expfmt.NewTextParser(model.UTF8Validation)
	for line := range bytes.Lines(lines) {
		of, err := parser.TextToMetricFamilies(bytes.NewReader(line))
		if err != nil {
			of = nil // what it has read of it
		}
		for name, family := range of {
			for _, m := range family.GetMetric() {
				if value := m.GetUntyped().GetValue(); !(value >= 0 && value < most) { // NaN fails too
					err = fmt.Errorf("%s: the value %v makes no sense", name, value)
					continue
				}
				families[name] = append(families[name], m)
			}
		}
		if fault == nil {
			fault = err
		}
	}
	return families, fault
}

// pick keeps the lines of the gauges that are known, and no other part of the page.
func pick(page io.Reader) ([]byte, error) {
	var lines bytes.Buffer
	limited := &io.LimitedReader{R: page, N: biggest + 1}
	scanner := bufio.NewScanner(limited)
	scanner.Buffer(nil, longest)
	for scanner.Scan() {
		line := scanner.Bytes()
		name := line
		if end := bytes.IndexAny(line, "{ \t"); end >= 0 {
			name = line[:end]
		}
		if _, ok := known[plain(string(name))]; ok {
			if lines.Len()+len(line) >= kept {
				return nil, fmt.Errorf("it has more than %d bytes of gauges", kept)
			}
			lines.Write(line)
			lines.WriteByte('\n')
		}
	}
	if limited.N == 0 {
		return nil, fmt.Errorf("it has more than %d bytes", biggest)
	}
	return lines.Bytes(), scanner.Err()
}

// namesOf adds the models that the series name.
func namesOf(series []*dto.Metric, models map[string]bool) {
	for _, m := range series {
		for _, label := range m.GetLabel() {
			if label.GetName() == "model_name" {
				models[label.GetValue()] = true
			}
		}
	}
}

// sum adds up the series of the model, or takes their mean; ours says that there are any of
// its name, and ok that there are any at all.
func sum(series []*dto.Metric, modelName string, mean bool) (value float64, ours, ok bool) {
	all, named := tally{at: map[string]int{}}, tally{at: map[string]int{}}
	for _, m := range series {
		scheduler, whole := origin(m)
		if !whole {
			continue
		}
		value := m.GetUntyped().GetValue()
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
	return counted.total(mean), named.n() > 0, all.n() > 0
}

// origin distinguishes a series from those of other schedulers. SGLang's ranks of
// one tensor have the same requests, and may each report them; and whole is false
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
