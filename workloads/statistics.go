package workloads

import (
	"math"
	"time"
)

// Statistics describes a stream as it came out. What needs more data than there
// was is zero.
type Statistics struct {
	Requests int `json:"requests"`
	// Duration runs from time zero to the last arrival, in seconds.
	Duration float64 `json:"duration_s"`
	// MeanRate is gaps by the time from the first arrival to the last, per second.
	MeanRate float64 `json:"mean_rate"`
	// GapCV is the coefficient of variation of the gaps between arrivals.
	GapCV float64 `json:"gap_cv"`
	// IDC1 and IDC10 are the index of dispersion for counts: variance by mean of
	// the number of arrivals in whole windows of 1 s and 10 s from time zero on.
	IDC1  float64 `json:"idc_1s"`
	IDC10 float64 `json:"idc_10s"`
	// Peak is the most arrivals in one of the windows of 1 s.
	Peak int `json:"peak_1s"`
	// MeanPrompt and MeanOutput are in tokens.
	MeanPrompt float64 `json:"mean_prompt_tokens"`
	MeanOutput float64 `json:"mean_output_tokens"`
	// Tasks counts the requests of each task, up to the highest index seen.
	Tasks []int `json:"tasks"`
}

// Measure reads a stream to its end. An endless one has to be limited before,
// with [Take].
func Measure(s Stream) Statistics {
	var m Statistics
	var gaps moments
	second, ten := windows{width: time.Second}, windows{width: 10 * time.Second}
	var prompts, outputs float64
	var first, last time.Duration
	for a, ok := s.Next(); ok; a, ok = s.Next() {
		if m.Requests == 0 {
			first = a.At
		} else {
			gaps.add((a.At - last).Seconds(), 1)
		}
		last = a.At
		second.arrive(a.At)
		ten.arrive(a.At)
		prompts += float64(a.PromptTokens)
		outputs += float64(a.OutputTokens)
		for len(m.Tasks) <= a.Task {
			m.Tasks = append(m.Tasks, 0)
		}
		m.Tasks[a.Task]++
		m.Requests++
	}
	if m.Requests == 0 {
		return m
	}
	m.Duration = last.Seconds()
	if last > first {
		m.MeanRate = float64(m.Requests-1) / (last - first).Seconds()
		m.GapCV = math.Sqrt(gaps.variance()) / gaps.mean
	}
	m.IDC1, m.IDC10, m.Peak = second.idc(), ten.idc(), max(second.peak, second.count)
	m.MeanPrompt, m.MeanOutput = prompts/float64(m.Requests), outputs/float64(m.Requests)
	return m
}

// windows counts arrivals in consecutive windows. The last one, which the stream
// may have ended in the midst of, counts for the peak alone.
type windows struct {
	width  time.Duration
	index  int64
	count  int // in the current window
	peak   int
	counts moments
}

func (w *windows) arrive(at time.Duration) {
	if i := int64(at / w.width); i > w.index {
		w.peak = max(w.peak, w.count)
		w.counts.add(float64(w.count), 1)
		w.counts.add(0, float64(i-w.index-1))
		w.index, w.count = i, 0
	}
	w.count++
}

func (w *windows) idc() float64 {
	if w.counts.mean == 0 {
		return 0
	}
	return w.counts.variance() / w.counts.mean
}

// moments is a running mean and sum of squared deviations (Welford), with
// weights so that a long silence costs no loop.
type moments struct{ n, mean, squares float64 }

func (m *moments) add(x, weight float64) {
	if weight == 0 {
		return
	}
	m.n += weight
	delta := x - m.mean
	m.mean += delta * weight / m.n
	m.squares += weight * delta * (x - m.mean)
}

// variance returns the unbiased one.
func (m *moments) variance() float64 {
	if m.n < 2 {
		return 0
	}
	return m.squares / (m.n - 1)
}
