package streaming

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"gearshift/serving/streams"
)

// Measured holds what a client has measured. A process of one client writes it as JSON.
type Measured struct {
	streams.Measured
	Failed string
	Ran    batchTimes
	Queued float64 // ms of all results
	// Of drawn scenes, see [scenes.Viewer].
	Drops        []float64
	Loss, Stride float64
}

// batchTimes sums the times of batches up, by their sizes, as results state them.
type batchTimes map[int]struct {
	N  int
	MS float64
}

func (t batchTimes) add(size, n int, ms float64) {
	x := t[size]
	x.N, x.MS = x.N+n, x.MS+ms
	t[size] = x
}

// Report is the report on streaming clients.
type Report struct {
	Clients int     `json:"clients"`
	Served  float64 `json:"served"` // in the mean
	Seconds float64 `json:"seconds"`
	Sent    int     `json:"frames_sent"`
	Results int     `json:"results"`
	Rate    float64 `json:"results_per_second"`
	// Late is the share of results from batches that began more than a frame interval later than planned, and Batch the
	// mean of the sizes of batches that results were in.
	Late       float64 `json:"late"`
	Batch      float64 `json:"mean_batch"`
	MeanStride float64 `json:"mean_stride"`
	P50        float64 `json:"end_to_end_p50_ms"`
	P99        float64 `json:"end_to_end_p99_ms"`
	Network    float64 `json:"network_ms"` // in the mean over clients
	// Queue and Inference are the means over all results, of those at the begin too.
	Queue     float64 `json:"queue_ms"`
	Inference float64 `json:"inference_ms"`
	// Gap is the longest time between two results of a client, and Away without a place. Moves counts changes of hosts.
	Gap     float64        `json:"longest_gap_ms"`
	Away    float64        `json:"longest_away_ms"`
	Moves   int            `json:"moves"`
	Hosts   map[string]int `json:"hosts"`   // clients that each serves at the end
	Waiting map[string]int `json:"waiting"` // clients by why they are not served at the end
	Errors  map[string]int `json:"errors"`  // by code, also of connections
	// Estimated is the mean drop rate that clients state, and EstimatedSpread the standard deviation.
	Estimated       float64     `json:"drop_rate_estimated"`
	EstimatedSpread float64     `json:"drop_rate_estimated_spread"`
	Drop            *trueDrop   `json:"drop,omitempty"` // of drawn scenes
	Ran             batchTimes  `json:"-"`
	Simulated       *prediction `json:"simulated,omitempty"`
}

// trueDrop is what clients lose in whole seconds beyond a server of their own, by the exact boxes.
type trueDrop struct {
	Seconds int     `json:"client_seconds"`
	Mean    float64 `json:"mean"`
	Worst   float64 `json:"worst"`
	// Above is the share of seconds in which a client loses more than its SLA, and Clients how many clients do in the mean over
	// all of theirs.
	Above   float64 `json:"above_sla"`
	Clients int     `json:"clients_above_sla"`
	Rate    float64 `json:"drop_rate"` // lost with each frame of stride
}

// sum sums up what clients have measured.
func (o *Options) sum(measured []*Measured) *Report {
	r := &Report{Clients: len(measured), Seconds: (o.Duration - o.Warmup).Seconds(), Hosts: map[string]int{}, Waiting: map[string]int{}, Errors: map[string]int{}, Ran: batchTimes{}}
	var times []time.Duration
	var rates []float64
	var strides, tracked, late int
	for _, m := range measured {
		r.Served += m.Served.Seconds() / r.Seconds
		r.Sent, r.Results, late = r.Sent+m.Sent, r.Results+m.Results, late+m.Late
		r.Gap, r.Away, r.Moves = max(r.Gap, m.Gap.Seconds()*1000), max(r.Away, m.Away.Seconds()*1000), r.Moves+m.Moves
		strides, tracked, times = strides+m.Strides, tracked+m.Tracked, append(times, m.EndToEnd...)
		if m.Host != "" {
			r.Hosts[m.Host]++
		} else if m.Why != "" {
			r.Waiting[m.Why]++
		}
		for code, n := range m.Errors {
			r.Errors[code] += n
		}
		if m.Failed != "" {
			r.Errors[m.Failed]++
		}
		for size, x := range m.Ran {
			r.Ran.add(size, x.N, x.MS)
		}
		r.Queue += m.Queued
		if m.Results > 0 {
			rates, r.Network = append(rates, m.DropRate), r.Network+m.Network
		}
	}
	r.Network /= float64(max(1, len(rates)))
	r.Rate, r.Late, r.MeanStride = float64(r.Results)/r.Seconds, float64(late)/float64(max(1, r.Results)), float64(strides)/float64(max(1, tracked))
	slices.Sort(times)
	if n := len(times); n > 0 {
		r.P50, r.P99 = times[n/2].Seconds()*1000, times[n*99/100].Seconds()*1000
	}
	r.Estimated, r.EstimatedSpread = meanAndSpread(rates)
	n := 0
	for size, x := range r.Ran {
		n, r.Batch, r.Inference = n+x.N, r.Batch+float64(size*x.N), r.Inference+x.MS
	}
	of := float64(max(1, n))
	r.Batch, r.Queue, r.Inference = r.Batch/of, r.Queue/of, r.Inference/of
	if o.Scenes {
		r.Drop = o.dropped(measured)
	}
	return r
}

func meanAndSpread(list []float64) (mean, spread float64) {
	for _, x := range list {
		mean += x / float64(len(list))
	}
	for _, x := range list {
		spread += (x - mean) * (x - mean) / float64(len(list))
	}
	return mean, math.Sqrt(spread)
}

// dropped sums up what was lost.
func (o *Options) dropped(measured []*Measured) *trueDrop {
	d := &trueDrop{}
	above := 0
	var loss, stride float64
	for _, m := range measured {
		own := 0.0
		for _, x := range m.Drops {
			d.Seconds, d.Worst, own = d.Seconds+1, max(d.Worst, x), own+x
			if x > o.SLA {
				above++
			}
		}
		d.Mean += own
		if own > o.SLA*float64(len(m.Drops)) {
			d.Clients++
		}
		loss, stride = loss+m.Loss, stride+m.Stride
	}
	d.Mean, d.Above = d.Mean/float64(max(1, d.Seconds)), float64(above)/float64(max(1, d.Seconds))
	if stride > 0 {
		d.Rate = loss / stride
	}
	return d
}

// Print writes the report for people.
func (r *Report) Print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "clients %d, served %.1f in the mean of %.0f s\nresults %d of %d frames", r.Clients, r.Served, r.Seconds, r.Results, r.Sent)
	if r.Results > 0 { // figures of none would look perfect
		fmt.Fprintf(&b, ", %.1f/s in batches of %.1f, %.1f%% of batches begun later than planned\nmean stride %.1f frames, end to end p50 %.1f ms, p99 %.1f ms; network %.1f ms, queue %.1f ms, batch %.1f ms\nlongest time between two results of a client %.0f ms, without a place %.0f ms; %d moves to another host",
			r.Rate, r.Batch, 100*r.Late, r.MeanStride, r.P50, r.P99, r.Network, r.Queue, r.Inference, r.Gap, r.Away, r.Moves)
	}
	b.WriteByte('\n')
	if d := r.Drop; d != nil && d.Seconds > 0 {
		fmt.Fprintf(&b, "true drop %.4f in the mean, %.4f in the worst of %d client-seconds, %.1f%% of which are above the SLA; %d clients are in the mean\ndrop rate %.4f per frame, estimated %.4f ± %.4f\n",
			d.Mean, d.Worst, d.Seconds, 100*d.Above, d.Clients, d.Rate, r.Estimated, r.EstimatedSpread)
	}
	if s := r.Simulated; s != nil {
		fmt.Fprintf(&b, "simulated: served %.1f (%+.0f%%), %.1f results/s in batches of %.1f, %.1f%% late, drop %.4f in the mean, %.1f%% of seconds above the SLA\n",
			s.Served, 100*(s.Served/max(r.Served, 1e-9)-1), s.Rate, s.Batch, 100*s.Late, s.Drop, 100*s.Above)
	}
	fmt.Fprintf(&b, "served at the end: %s\nwaiting: %s\nerrors: %s\n", listed(r.Hosts), listed(r.Waiting), listed(r.Errors))
	_, err := io.WriteString(w, b.String())
	return err
}

// listed writes counts on one line.
func listed(counts ...map[string]int) string {
	var list []string
	for _, m := range counts {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			list = append(list, fmt.Sprintf("%s: %d", name, m[name]))
		}
	}
	return cmp.Or(strings.Join(list, "; "), "none")
}
