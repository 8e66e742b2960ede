package scenario_test

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// cameras is a fleet of three hosts on two sites with two applications and one task that is none.
const cameras = `
tasks:
  - {name: door, total_ms: 100, rate: 4, primary: h1, quality: {small: 0.9, large: 1}}
  - {name: yard, total_ms: 100, rate: 2, quality: {small: 0.9, large: 1}}
  - {name: batch, total_ms: 1000, quality: {small: 0.9, large: 1}}
variants: [{name: small, model: small}, {name: large, model: large}]
models:
  - {name: small, memory: 300MB, load_ms: 200}
  - {name: large, memory: 900MB, load_ms: 2000}
hosts:
  - {name: h1, site: a, memory: 2GB}
  - {name: h2, site: a, memory: 2GB}
  - {name: h3, site: b, memory: 1GB}
profiles:
  - {variant: small, batch_ms: {1: 5, 4: 12}}
  - {variant: large, batch_ms: {1: 20, 4: 60}}
workload: {output_tokens: {distribution: none}}
failover: {}
`

func replace(t *testing.T, text string, edits ...string) string {
	t.Helper()
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("the text has no %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return text
}

// Without replicas each variant is on each host where it fits, and up where it is an application's own.
func TestFailoverPlacesReplicas(t *testing.T) {
	s := parse(t, cameras)
	var up, all []string
	for _, r := range s.Table().Replicas {
		all = append(all, r.Name)
		if r.Initial == fleet.Up {
			up = append(up, r.Name)
		}
	}
	slices.Sort(all)
	if want := []string{"large@h1", "large@h2", "large@h3", "small@h1", "small@h2", "small@h3"}; !slices.Equal(all, want) {
		t.Errorf("replicas %v, want %v", all, want)
	}
	// door is on h1 as it says; yard on h2, which is empty and larger than h3.
	if want := []string{"large@h1", "large@h2"}; !slices.Equal(up, want) {
		t.Errorf("up at the start: %v, want %v", up, want)
	}
	f := s.Failover()
	if f == nil || f.Policy != "gearshift" || f.Heartbeat != 20*time.Millisecond || f.Misses != 2 || f.Headroom != 20 || f.Critical.Share() != 0.5 || f.Backups != 1 || f.Loaders != 10 || f.ReturnAfter != 2*time.Second {
		t.Errorf("defaults: %+v", f)
	}
	if parse(t, minimal(t)).Failover() != nil {
		t.Error("a file without the section has one")
	}
}

// An upstream named *@HOST is that of all replicas on the host that have none of their own.
func TestUpstreamsOfAHost(t *testing.T) {
	s := parse(t, cameras+`
serving:
  backend: upstream
  upstreams:
    "*@h1": {url: "http://127.0.0.1:9001", lifecycle: gearshift}
    "*@h2": {url: "http://127.0.0.1:9002", lifecycle: gearshift}
    "*@h3": {url: "http://127.0.0.1:9003", lifecycle: ollama}
    small@h3: {url: "http://127.0.0.1:9004", lifecycle: triton}
`)
	for replica, want := range map[string]string{"small@h1": "http://127.0.0.1:9001", "large@h1": "http://127.0.0.1:9001", "large@h3": "http://127.0.0.1:9003", "small@h3": "http://127.0.0.1:9004"} {
		if got := s.Serving.Upstreams[replica].URL; got != want {
			t.Errorf("%s: %q, want %q", replica, got, want)
		}
	}
	if n := len(s.Serving.Upstreams); n != 6 || s.Serving.Upstreams["large@h1"].Lifecycle != "gearshift" {
		t.Errorf("%d upstreams: %v", n, s.Serving.Upstreams)
	}
}

// Each fault of applications has its line and key.
func TestFailoverFaults(t *testing.T) {
	for name, c := range map[string]struct {
		edits []string
		want  string
	}{
		"an unknown primary":         {[]string{"primary: h1", "primary: h9"}, `f.yaml:3: tasks[0].primary: unknown host "h9"; `},
		"an unknown policy":          {[]string{"failover: {}", "failover: {policy: failite}"}, `f.yaml:18: failover.policy: unknown policy "failite"; did you mean "faillite"?`},
		"alpha of all":               {[]string{"failover: {}", "failover: {alpha: 1}"}, "f.yaml:18: failover.alpha: want a share from 0 to below 1, not 1"},
		"no heartbeat":               {[]string{"failover: {}", "failover: {heartbeat: 0s}"}, "f.yaml:18: failover.heartbeat: want a time from 1ms to 1h0m0s, not 0s"},
		"confirmed before it begins": {[]string{"failover: {}", "failover: {confirm: -1ms}"}, "f.yaml:18: failover.confirm: want a time from 0s to 1h0m0s, not -1ms"},
		"no misses":                  {[]string{"failover: {}", "failover: {misses: 0}"}, "f.yaml:18: failover.misses: want a number from 1 to 1000, not 0"},
		"a share that is none":       {[]string{"failover: {}", "failover: {critical: 0.2}"}, `f.yaml:18: failover.critical: want a share such as 20%, from 0% to 100%, found "0.2"`},
		"no headroom":                {[]string{"failover: {}", "failover: {headroom: 0%}"}, "f.yaml:18: failover.headroom: want a share such as 90%, above 0%"},
		"replicas not everywhere":    {[]string{"failover: {}", "failover: {}\nreplicas: [{variant: small, hosts: [h1, h2, h3], memory: 300MB}, {variant: large, hosts: [h1, h2], memory: 900MB}]"}, "f.yaml:19: replicas: there is none of large on h3, where failover may need it for door"},
		"no application":             {[]string{"rate: 4, primary: h1, ", "", "rate: 2, ", ""}, "f.yaml:18: failover: no task is an application"},
		"no failover":                {[]string{"failover: {}", "replicas: [{variant: small, hosts: [h1], memory: 300MB}, {variant: large, hosts: [h2], memory: 900MB}]"}, "f.yaml:3: tasks[0].rate: is of an application"},
		"critical and no rate":       {[]string{"name: batch, ", "name: batch, critical: true, "}, "f.yaml:5: tasks[2].critical: is of an application, which has a rate"},
		"critical twice":             {[]string{"failover: {}", "failover: {critical: 20%}", "rate: 2", "rate: 2, critical: true"}, "f.yaml:4: tasks[1].critical: stands next to failover.critical"},
		"a rate below 0":             {[]string{"rate: 2", "rate: -2"}, "f.yaml:4: tasks[1].rate: want requests per second above 0"},
		"too large for any host":     {[]string{"quality: {small: 0.9, large: 1}", "quality: {large: 1}", "memory: 900MB", "memory: 9GB"}, "f.yaml:6: variants[1].model: large takes 8.38 GiB (9000000000 bytes), more than any host has"},
		"too slow":                   {[]string{"total_ms: 100", "total_ms: 4"}, "f.yaml:3: tasks[0].quality: no variant of door is both in time (4 ms) and within the memory of a host"},
		"too large for others":       {[]string{"quality: {small: 0.9, large: 1}", "quality: {large: 1}", "site: a, memory: 2GB}\n  - {name: h3, site: b, memory: 1GB", "site: a, memory: 500MB}\n  - {name: h3, site: b, memory: 500MB"}, "f.yaml:3: tasks[0].quality: no variant of door fits another host than h1"},
		"one host":                   {[]string{"  - {name: h2, site: a, memory: 2GB}\n", "", "  - {name: h3, site: b, memory: 1GB}\n", ""}, "f.yaml:10: hosts: h1 is the only one"},
		"one site":                   {[]string{"failover: {}", "failover: {site_independent: true}", "site: b", "site: a"}, "f.yaml:11: hosts[0].site: a is the only site"},
		"no room for its load":       {[]string{"rate: 2", "rate: 200"}, "f.yaml:4: tasks[1].rate: no host has room for large of yard"},
		"no model":                   {[]string{"{name: large, model: large}", "{name: large}"}, "f.yaml:6: variants[1].model: missing; the application door"},
		"no profile":                 {[]string{"  - {variant: large, batch_ms: {1: 20, 4: 60}}\n", ""}, `f.yaml:6: variants[1].name: no profile of "large"`},
		"an upstream of no host":     {[]string{"failover: {}", "failover: {}\nserving: {backend: upstream, upstreams: {\"*@h1\": {url: \"http://a:1\"}, \"*@h2\": {url: \"http://b:1\"}, \"*@h3\": {url: \"http://c:1\"}, \"*@h4\": {url: \"http://d:1\"}}}"}, `f.yaml:19: serving.upstreams.*@h4: unknown host "h4"`},
		"a host without an upstream": {[]string{"failover: {}", "failover: {}\nserving: {backend: upstream, upstreams: {\"*@h1\": {url: \"http://a:1\"}, \"*@h2\": {url: \"http://b:1\"}}}"}, "none for small@h3, large@h3"},
		"drawn next to tasks":        {[]string{"failover: {}", "failover: {drawn: {servers: 10, sites: 2}}"}, "f.yaml:2: tasks: has no meaning with failover.drawn"},
	} {
		_, err := scenario.Parse("f.yaml", []byte(replace(t, cameras, c.edits...)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v; want %s", name, err, c.want)
		}
	}
}

// The controller is told what the file says: memory in bytes, compute as the share of an engine that answers three
// at a time in time, which is as many as it can,
// criticality spread over the list, primaries as the replicas are.
func TestFailoverProblem(t *testing.T) {
	s := parse(t, cameras)
	x := s.FailoverProblem(true)
	if err := x.Validate(); err != nil {
		t.Fatal(err)
	}
	if len(x.Hosts) != 3 || x.Hosts[2].Site != "b" || x.Capacity[2][0] != 1e9 || len(x.Applications) != 2 {
		t.Fatalf("%+v", x)
	}
	door, yard := x.Applications[0], x.Applications[1]
	if door.Primary != 0 || yard.Primary != 1 || door.Full != 1 || door.Rate != 4 || door.MaxLatency != 100*time.Millisecond || door.Critical || !yard.Critical {
		t.Errorf("door %+v, yard %+v", door, yard)
	}
	if v := door.Variants[1]; v.Name != "large" || v.Model != "large" || v.Quality != 1 || v.Demand[0] != 9e8 || math.Abs(v.Demand[1]-4*(140./3)/3/1000) > 1e-12 || v.Latency != 20*time.Millisecond || v.Load != 2*time.Second {
		t.Errorf("large: %+v", v)
	}
	if x := s.FailoverProblem(false); x.Applications[0].Primary != 0 || x.Applications[1].Primary != -1 {
		t.Errorf("alone, primaries %d and %d", x.Applications[0].Primary, x.Applications[1].Primary)
	}
	o := s.FailoverOptions()
	if o.Policy != failover.Gearshift || o.Headroom != 0.2 || o.Alpha != 0.1 || o.ReturnAfter != 2*time.Second {
		t.Errorf("%+v", o)
	}
}

// Applications that are drawn are for simulations of failures alone.
func TestDrawnApplications(t *testing.T) {
	text := "failover:\n  drawn: {applications: 640, servers: 100, sites: 10, families: timm}\n"
	if _, err := scenario.Parse("f.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), "f.yaml:2: failover.drawn: the applications are drawn, 640 on 100 hosts") {
		t.Errorf("parsed: %v", err)
	}
	if _, _, err := scenario.InspectText("f.yaml", []byte(text)); err == nil {
		t.Error("inspected as a fleet")
	}
	for edit, want := range map[string]string{
		"sites: 10":      "",
		"sites: 1000":    "failover.drawn.sites: 1000 sites of 100 hosts",
		"families: tim":  "failover.drawn.families: unknown families \"tim\"; did you mean \"timm\"?",
		"classes: [big]": "failover.drawn.classes[0]: unknown class \"big\"",
	} {
		key, _, _ := strings.Cut(edit, ":")
		changed := strings.NewReplacer("sites: 10,", map[bool]string{true: edit + ",", false: "sites: 10,"}[key == "sites"], "families: timm", map[bool]string{true: edit, false: "families: timm"}[key != "sites"]).Replace(text)
		if _, err := scenario.Parse("f.yaml", []byte(changed)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", edit, err)
		}
	}
}

// The testbed has FailLite's 46 applications of 27 models on 6 servers in 3 sites, with the numbers
// that follow from the table of models; its applications take half of the compute one by one, and .47 in batches.
func TestFailLiteTestbed(t *testing.T) {
	s := load(t, "faillite-testbed")
	x := s.FailoverProblem(false)
	known := map[string]workloads.ImageModel{}
	for _, f := range workloads.TorchvisionFamilies() {
		for _, m := range f.Models {
			known[m.Name] = m
		}
	}
	sites, taken := map[string]int{}, make([]float64, 2)
	for _, h := range x.Hosts {
		sites[h.Site]++
	}
	if len(x.Applications) != 46 || len(s.Variants) != 27 || len(x.Hosts) != 6 || len(sites) != 3 {
		t.Errorf("%d applications, %d models, %d servers, %d sites", len(x.Applications), len(s.Variants), len(x.Hosts), len(sites))
	}
	for _, a := range x.Applications {
		best := known[a.Variants[a.Full].Name].Top1
		for _, v := range a.Variants {
			m := known[v.Name]
			if math.Abs(v.Demand[0]/1e6-m.MemoryMB()) > 0.51 || math.Abs(v.Load.Seconds()*1000-m.LoadMS()) > 0.51 || math.Abs(fleet.Milliseconds(v.Latency)/m.ServiceMS()-1) > 0.001 || math.Abs(v.Quality-m.Top1/best) > 1e-5 {
				t.Errorf("%s: %+v, and the table has %+v", a.Name, v, m)
			}
		}
		for r, d := range a.Variants[a.Full].Demand {
			taken[r] += d / x.Capacity[0][r] / 6
		}
	}
	if math.Abs(taken[0]-0.163) > 0.001 || math.Abs(taken[1]-0.47) > 0.005 {
		t.Errorf("the applications take %.4f of the memory and %.3f of the compute, want a sixth and .47", taken[0], taken[1])
	}
}

// The large setting has FailLite's 640 applications of 69 models on 100 servers in 10 sites.
func TestFailLiteLarge(t *testing.T) {
	if _, err := scenario.Load("faillite-large"); err == nil || !strings.Contains(err.Error(), "faillite-large.yaml:14: failover.drawn: the applications are drawn, 640 on 100 hosts") {
		t.Errorf("loaded as a fleet: %v", err)
	}
	s, err := scenario.LoadFailover("faillite-large")
	if err != nil {
		t.Fatal(err)
	}
	x := s.FailoverProblem(false)
	sites, models, taken := map[string]int{}, map[string]bool{}, make([]float64, 2)
	for _, h := range x.Hosts {
		sites[h.Site]++
	}
	for _, a := range x.Applications {
		for _, v := range a.Variants {
			models[v.Name] = true
		}
		for r, d := range a.Variants[a.Full].Demand {
			taken[r] += d / x.Capacity[0][r] / 100
		}
	}
	if len(x.Applications) != 640 || len(x.Hosts) != 100 || len(sites) != 10 || sites["site3"] != 10 || len(models) != 69 || math.Abs(taken[0]-0.5) > 1e-9 || math.Abs(taken[1]-0.5) > 1e-9 {
		t.Errorf("%d applications, %d servers, sites %v, %d models, taken %v", len(x.Applications), len(x.Hosts), sites, len(models), taken)
	}
	if err := x.Validate(); err != nil {
		t.Error(err)
	}
	if n := x.PlacePrimaries(0.001); n > 0 {
		t.Errorf("%d applications find no primary", n)
	}
}

// Losses are confirmed by default, and in the paper's settings, which have heartbeats alone, they are not.
func TestLossesAreConfirmed(t *testing.T) {
	const ms = time.Millisecond
	for text, want := range map[string]time.Duration{"{}": 30 * ms, "{confirm: 0s}": 0, "{confirm: 80ms}": 80 * ms} {
		s, err := scenario.Parse("f.yaml", []byte(replace(t, cameras, "failover: {}", "failover: "+text)))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.FailoverOptions().Confirm; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
	for _, name := range []string{"faillite-testbed", "faillite-large"} {
		s, err := scenario.LoadFailover(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.FailoverOptions().Confirm; got != 0 {
			t.Errorf("%s: losses are confirmed for %v", name, got)
		}
	}
}
