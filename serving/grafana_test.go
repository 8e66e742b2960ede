package serving_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/control"
	"gearshift/serving/discovery"
	"gearshift/serving/picker"
	"gearshift/serving/streams"
)

// panel is a panel of a Grafana dashboard, as far as the test looks.
type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ X, Y, W, H int }
	Datasource               struct{ UID string }
	Targets                  []struct{ RefID, Expr, LegendFormat string }
}

type grafana struct {
	Title, UID    string
	SchemaVersion int
	Panels        []panel
	Templating    struct {
		List []struct{ Name, Type, Definition string }
	}
	Annotations struct {
		List []struct{ Expr string }
	}
}

// exposed lists the labels of each metric of a server on which everything has
// happened that metrics tell of.
func exposed(t *testing.T) map[string][]string {
	t.Helper()
	var next transport
	recorded, _ := logging(t, nil)
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) { return next(r) }), withDrift(nil), recorded, learning(t))
	ok, failing := says(http.StatusOK, eventType, stream), says(http.StatusInternalServerError, jsonType, `{"error":{"message":"no"}}`)
	refused := func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	}
	next = says1by1(20)
	for range drift.Enough {
		g.do("POST", chat, strings.Replace(ask, "{", `{"stream":true,`, 1))
	}
	for _, next = range []transport{ok, failing, refused} { // the last takes all replicas down
		g.do("POST", chat, ask)
		g.do("POST", chat, "{")
	}
	g.do("POST", chat, ask)                                    // finds none
	_ = g.core.SetPolicy(nil)                                  // leaves it to the fallback
	g.core.Ledger().SetUp(largeA, true)                        // who finds one
	next = says(http.StatusOK, jsonType, fine)                 // that answers
	if w := g.do("POST", chat, ask); w.Code != http.StatusOK { // so that all is well
		t.Fatal(w.Code, w.Body)
	}
	if w := g.do("POST", "/v1/gearshift/feedback", `{"id":"x","score":1}`); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	metrics := map[string][]string{}
	sample := regexp.MustCompile(`^(\w+)(?:\{(.*)\})? `)
	label := regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
	file, _ := keysFile(t, map[string]access.Limits{"alice": {}})
	keyed := newRig(t, nil, withKeys(file)) // there are metrics of keys, where there are any
	driven := newRig(t, nil, drivenBy(t, newLoader("http://a", "READY"), "triton"))
	jobs := newRig(t, nil, withPair) // there are metrics of jobs
	var seen http.Header
	heard := newRig(t, loaded(jsonType, fine, "TEXT named_metrics.num_requests_running=1", &seen), withSignals(t, "sampled:2", nil))
	heard.do("POST", chat, ask)
	jobs.do("POST", classify, `{"model":"pair","inputs":[{"image":"x"}]}`)
	failovers, err := os.ReadFile("control/failover/testdata/metrics.txt") // of a module that is made of a server
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := os.ReadFile("control/testdata/metrics.txt") // of modules that are made of a server
	if err != nil {
		t.Fatal(err)
	}
	streaming := newRig(t, nil, func(o *serving.Options) { // there are metrics of streams, where there are any
		o.Modules = []serving.Module{streams.New(streams.Options{Config: streams.Config{Hosts: []streams.Host{{Name: "a", Sizes: []streams.Size{{Latency: []float64{1}}}}}}, Ledger: o.Router.Ledger()})}
	})
	many := newRig(t, nil, func(o *serving.Options) { // of modules for routers that share a fleet, and for a fleet that changes
		o.Modules = []serving.Module{
			picker.NewModule(picker.Config{}, 0, nil, o.Log), discovery.New(discovery.Options{Source: new(discovery.Memory), Groups: []discovery.Group{{Variant: "small"}}, Table: o.Router.Table(), Log: slog.New(slog.DiscardHandler)}), &control.Sharing{},
			control.Leading{Acts: func() bool { return true }, Term: func() uint64 { return 1 }},
		}
	})
	texts := many.do("GET", "/metrics", "").Body.String() + streaming.do("GET", "/metrics", "").Body.String() + string(failovers) + string(hosts) + heard.do("GET", "/metrics", "").Body.String() + jobs.do("GET", "/metrics", "").Body.String() + g.do("GET", "/metrics", "").Body.String() + keyed.do("GET", "/metrics", "").Body.String() + driven.do("GET", "/metrics", "").Body.String()
	for line := range strings.Lines(texts) {
		if m := sample.FindStringSubmatch(line); m != nil {
			metrics[m[1]] = append(metrics[m[1]], "instance", "job")
			for _, l := range label.FindAllStringSubmatch(m[2], -1) {
				metrics[m[1]] = append(metrics[m[1]], l[1])
			}
		}
	}
	return metrics
}

var (
	metricName   = regexp.MustCompile(`\b(?:gearshift|gen_ai_server|go|process)_\w+`)
	labelMatched = regexp.MustCompile(`(\w+)(?:=~|!=|!~|=)"`)
	labelsBy     = regexp.MustCompile(`\bby \(([^)]*)\)`)
	labelShown   = regexp.MustCompile(`\{\{(\w+)\}\}`)
	counted      = regexp.MustCompile(`\bcount\((\w+)`)
	notBegun     = regexp.MustCompile(`gearshift_(?:rejections|sheds)_total\{([^}]*)\}`)
)

// TestGrafanaDashboard holds the dashboard file to the metrics that there are, and
// to what Grafana wants of it.
func TestGrafanaDashboard(t *testing.T) {
	text, err := os.ReadFile("../deploy/grafana/gearshift.json")
	if err != nil {
		t.Fatal(err)
	}
	var d grafana
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID != "gearshift" || d.SchemaVersion < 39 || len(d.Panels) < 20 {
		t.Errorf("%q, schema %d, %d panels", d.UID, d.SchemaVersion, len(d.Panels))
	}
	metrics := exposed(t)
	check := func(where, expr, legend string) {
		t.Helper()
		names := metricName.FindAllString(expr, -1)
		if len(names) == 0 {
			t.Errorf("%s asks for no metric: %s", where, expr)
		}
		var labels []string
		for _, name := range names {
			if metrics[name] == nil && (runtime.GOOS == "linux" || !strings.HasPrefix(name, "process_")) {
				t.Errorf("%s: there is no metric %s", where, name)
			}
			labels = append(labels, metrics[name]...)
		}
		var used []string
		for _, m := range append(labelMatched.FindAllStringSubmatch(expr, -1), labelShown.FindAllStringSubmatch(legend, -1)...) {
			used = append(used, m[1])
		}
		for _, m := range labelsBy.FindAllStringSubmatch(expr, -1) {
			used = append(used, strings.Split(m[1], ", ")...)
		}
		for _, l := range used {
			if !slices.Contains(labels, l) {
				t.Errorf("%s: %v have no label %q", where, names, l)
			}
		}
		for _, m := range counted.FindAllStringSubmatch(expr, -1) {
			if slices.Contains(metrics[m[1]], "replica") {
				t.Errorf("%s: counts a replica once for each router: %s", where, expr)
			}
		}
		for _, m := range notBegun.FindAllStringSubmatch(expr, -1) {
			if !strings.Contains(m[1], `reason!="cancelled"`) {
				t.Errorf("%s: counts clients that left: %s", where, expr)
			}
		}
		for summand := range strings.SplitSeq(expr, " + ") {
			if summand != expr && !strings.HasSuffix(summand, " or vector(0))") {
				t.Errorf("%s: there is no sum where this is absent: %s", where, summand)
			}
		}
		if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") || strings.Count(expr, `"`)%2 != 0 {
			t.Errorf("%s: unbalanced: %s", where, expr)
		}
	}
	ids := map[int]string{}
	for i, p := range d.Panels {
		if other, twice := ids[p.ID]; twice || p.ID == 0 {
			t.Errorf("%q has the ID %d of %q", p.Title, p.ID, other)
		}
		ids[p.ID] = p.Title
		g := p.GridPos
		if g.X < 0 || g.W < 1 || g.X+g.W > 24 || g.H < 1 {
			t.Errorf("%q lies at %+v", p.Title, g)
		}
		for _, q := range d.Panels[:i] {
			if o := q.GridPos; g.X < o.X+o.W && o.X < g.X+g.W && g.Y < o.Y+o.H && o.Y < g.Y+g.H {
				t.Errorf("%q lies over %q", p.Title, q.Title)
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.Datasource.UID != "${datasource}" || len(p.Targets) == 0 {
			t.Errorf("%q wants a title, a description, a query and the chosen data source: %+v", p.Title, p)
		}
		for _, target := range p.Targets {
			check(p.Title, target.Expr, target.LegendFormat)
		}
	}
	for _, v := range d.Templating.List {
		if v.Type == "query" {
			check("variable "+v.Name, v.Definition, "")
		}
	}
	for _, a := range d.Annotations.List {
		check("annotation", a.Expr, "")
	}
}

// A metric that the documentation names is there to be asked for.
func TestDocumentedMetrics(t *testing.T) {
	metrics := exposed(t)
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	guides, err := filepath.Glob("../docs/guides/*.md")
	if err != nil || len(pages) == 0 || len(guides) == 0 {
		t.Fatalf("pages %v, guides %v, %v", pages, guides, err)
	}
	engine, err := os.ReadFile("engineserver/metrics.go") // which has metrics of its own
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\b(?:gearshift|gen_ai_server)_\w+`)
	for _, page := range append(pages, guides...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(text), -1) {
			if strings.HasPrefix(name, "gearshift_engine_") && strings.Contains(string(engine), `"`+name) {
				continue
			}
			if metrics[name] == nil && metrics[name+"_count"] == nil { // of a histogram there is no sample by its name
				t.Errorf("%s: there is no metric %s", page, name)
			}
		}
	}
}

// The documentation names each reason for which a request is not begun.
func TestDocumentedReasons(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine))
	page, err := os.ReadFile("../docs/observability.md")
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`(?m)^gearshift_rejections_total\{reason="(\w+)",task="chat"\}`).FindAllStringSubmatch(g.do("GET", "/metrics", "").Body.String(), -1)
	if len(reasons) == 0 {
		t.Error("there are no reasons")
	}
	for _, m := range reasons {
		if !strings.Contains(string(page), "`"+m[1]+"`") {
			t.Errorf("observability.md does not name %s", m[1])
		}
	}
}

// What chose is told apart by its version, for a bounded number of them.
func TestChoicesByPolicy(t *testing.T) {
	g := newRig(t, says(http.StatusOK, eventType, stream))
	for version := range 40 {
		if err := g.core.SetPolicy(versioned(version)); err != nil {
			t.Fatal(err)
		}
		g.do("POST", chat, ask)
	}
	g.do("POST", chat, strings.Replace(ask, "auto", "large", 1))
	text := g.do("GET", "/metrics", "").Body.String()
	for _, want := range []string{
		`gearshift_choices_total{policy="wants",task="chat",variant="small",version="0"} 1`,
		`gearshift_choices_total{policy="wants",task="chat",variant="small",version="29"} 1`,
		`gearshift_choices_total{policy="other",task="chat",variant="small",version=""} 10`,
		`gearshift_choices_total{policy="pinned",task="chat",variant="large",version=""} 1`,
		`gen_ai_server_time_to_first_token_seconds_count{gen_ai_response_model="small"} 40`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, `version="30"`) {
		t.Error("a version too many")
	}
}

// versioned is a policy of that version, which wants the small variant.
type versioned int

func (v versioned) Name() string { return fmt.Sprintf("wants@%d", int(v)) }
func (versioned) Scratch() int   { return 0 }
func (versioned) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	return chooses(small).Decide(v, r, scratch)
}
