package dashboard

import (
	"embed"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"

	"gearshift/serving/admin/overview"
	"gearshift/serving/admin/trial"
)

// data is what the page gets each second: the whole status, and of the rest what
// is new to it.
type data struct {
	// Boot distinguishes one run of the router from the next: with another, the page
	// begins again.
	Boot  int64 `json:"boot"`
	NowMS int64 `json:"now_ms"` // Unix time
	About About `json:"about"`
	// Kept is how many seconds can be had.
	Kept     int             `json:"kept_s"`
	Hosts    []string        `json:"hosts"`
	Variants []string        `json:"variants"`
	Tasks    []taskData      `json:"tasks"`
	Status   overview.Status `json:"status"`
	Policies trial.Policies  `json:"policies"`
	Seconds  []second        `json:"seconds"`
	Recent   []Decision      `json:"decisions"`
	Revision uint64          `json:"revision"`
	// Failover is how applications stand; left out where none survives its host.
	Failover any `json:"failover,omitempty"`
	// Tail is how busy the busiest hosts are.
	Tail any `json:"tail,omitempty"`
	// Quality predicts the quality of answers.
	Quality any `json:"quality,omitempty"`
	// Learned has the values that no file declares.
	Learned any `json:"learned,omitempty"`
	// Streams is how streaming clients are served; left out where none can be.
	Streams any              `json:"streams,omitempty"`
	Limits  map[string]int64 `json:"limits"`
}

type taskData struct {
	Name       string  `json:"name"`
	DeadlineMS float64 `json:"deadline_ms"`
}

// Data is what the page shows, to be encoded as JSON. The query has the last second ("second") and the
// last revision ("revision") that the page knows.
func (d *Dashboard) Data(status overview.Status, policies trial.Policies, query url.Values) any {
	now := d.now()
	from, _ := strconv.ParseInt(query.Get("second"), 10, 64)
	revision, _ := strconv.ParseUint(query.Get("revision"), 10, 64)
	out := data{
		Boot: d.boot, NowMS: now.UnixMilli(), About: d.about, Kept: kept, Status: status, Policies: policies,
		Limits: map[string]int64{"decisions": recent, "decisions_per_s": explainedPerSecond},
	}
	if d.Failover != nil {
		out.Failover = d.Failover()
	}
	if d.Tail != nil {
		out.Tail = d.Tail()
	}
	if d.Quality != nil {
		out.Quality = d.Quality()
	}
	if d.Learned != nil {
		out.Learned = d.Learned()
	}
	if d.Streams != nil {
		out.Streams = d.Streams()
	}
	for _, h := range d.table.Hosts {
		out.Hosts = append(out.Hosts, h.Name)
	}
	for _, v := range d.table.Variants {
		out.Variants = append(out.Variants, v.Name)
	}
	for i := range d.table.Tasks {
		out.Tasks = append(out.Tasks, taskData{d.table.Tasks[i].Name, ms(d.table.Tasks[i].Deadline)})
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	out.Seconds = d.seconds.since(from, now)
	out.Recent, out.Revision = d.decisions.since(revision), d.decisions.revision
	return out
}

//go:embed page
var page embed.FS

// Files serves what the page is made of, from "/" on. It holds no data.
func (d *Dashboard) Files() http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil { // the name is a constant
		panic(err)
	}
	return http.FileServerFS(files)
}
