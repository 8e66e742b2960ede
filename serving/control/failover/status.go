package failover

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/openai/wire"
)

// Situation is the body of GET /admin/failover: how applications stand.
type Situation struct {
	Policy string `json:"policy"`
	// StandsBy means that this router does not act, so that it knows neither backups nor what answers applications.
	StandsBy bool `json:"stands_by,omitempty"`
	// Term is the number of this run of the controller, and StateFile where its state survives the
	// router; left out if nowhere.
	Term      uint64 `json:"term"`
	StateFile string `json:"state_file,omitempty"`
	// StateTrouble is what was wrong with the file when the router began.
	StateTrouble string  `json:"state_trouble,omitempty"`
	HeartbeatMS  float64 `json:"heartbeat_ms"`
	Misses       int     `json:"misses"`
	ConfirmMS    float64 `json:"confirm_ms"`
	// Unrecovered and Unprotected count the applications that nothing answers, and those that have
	// fewer living backups than they should.
	Unrecovered  int           `json:"unrecovered"`
	Unprotected  int           `json:"unprotected"`
	Counts       Counts        `json:"counts"`
	Hosts        []HostStatus  `json:"servers"`
	Applications []Application `json:"applications"`
	// Last is the last failover; nil if there was none.
	Last *Failover `json:"last_failover"`
}

// Counts are what has happened so far, in earlier runs that this one has continued too.
type Counts struct {
	Failovers int `json:"failovers"`
	// Affected are losses of what answered an application, Recovered those that something else has
	// taken over from.
	Affected  int `json:"affected"`
	Recovered int `json:"recovered"`
	// MeanMS is the mean time from the detection of a loss to the notice of its recovery.
	MeanMS      float64 `json:"mean_recovery_ms"`
	FailedBack  int     `json:"failed_back"`
	FalseAlarms int     `json:"false_alarms"`
	// Suspicions are of hosts whose heartbeats were overdue, most of which gave another sign of life.
	Suspicions  int `json:"suspicions"`
	Gaps        int `json:"gaps"`
	Loads       int `json:"loads"`
	LoadsFailed int `json:"loads_failed"`
}

// HostStatus is how one of the hosts stands that may be lost.
type HostStatus struct {
	Name string `json:"name"`
	Site string `json:"site,omitempty"`
	// State is up, lost or returned; Drill says that it is lost by an operator's order.
	State  string  `json:"state"`
	Drill  bool    `json:"drill,omitempty"`
	SinceS float64 `json:"since_s"`
	// Loaded counts models, of which a host that is lost has none, and Loading loads.
	Loaded  int `json:"loaded"`
	Loading int `json:"loading"`
	// Used is the share of each resource that they take.
	Used map[string]float64 `json:"used"`
	// Trouble is why the last order to its engine failed; empty if it did not.
	Trouble string `json:"trouble,omitempty"`
	Agent   *Agent `json:"agent"`
}

// Agent is that of a host's engine.
type Agent struct {
	Version     string  `json:"version"`
	URL         string  `json:"url"`
	Incarnation uint64  `json:"incarnation"`
	HeardMS     float64 `json:"heard_ms"`       // ago
	LongestMS   float64 `json:"longest_gap_ms"` // between two heartbeats
	Heartbeats  uint64  `json:"heartbeats"`
}

// Application is a task that survives the loss of its host.
type Application struct {
	Name     string `json:"name"`
	Critical bool   `json:"critical,omitempty"`
	Primary  string `json:"primary"`
	// Active is what answers it, such as tiny@h2; empty if nothing does. Target is what is to.
	Active string `json:"active"`
	Target string `json:"target,omitempty"`
	// Backups are loaded for the next loss.
	Backups []string `json:"backups"`
	// Quality is that of what answers, Full that of the full variant.
	Quality float64 `json:"quality"`
	Full    float64 `json:"full_quality"`
	// Unrecovered is why nothing answers it, Unprotected why it has fewer backups than it should.
	Unrecovered string `json:"unrecovered,omitempty"`
	Unprotected string `json:"unprotected,omitempty"`
}

// Failover is what has followed from a loss.
type Failover struct {
	Number int  `json:"number"`
	Open   bool `json:"open"` // it is not over
	// Host is the first that was lost, and TookMS how long all took so far.
	Host   string  `json:"server"`
	TookMS float64 `json:"took_ms"`
	// Unrecovered counts the applications that nothing answers now.
	Unrecovered int      `json:"unrecovered,omitempty"`
	Steps       []Notice `json:"steps"`
}

// Situation is how things are now.
func (m *Module) Situation() *Situation {
	var s failover.Status
	m.engines.Look(func() { s = m.controller.Status() })
	c := &m.options.Controller
	out := &Situation{
		Policy: string(s.Policy), Term: s.Term, HeartbeatMS: milliseconds(c.Heartbeat), Misses: c.Misses, ConfirmMS: milliseconds(c.Confirm),
		Unrecovered: s.Unrecovered, Unprotected: s.Unprotected, Counts: countsOf(&s.Counts), Last: m.last(&s),
	}
	if m.store != nil {
		out.StateFile, out.StateTrouble = m.store.Path(), m.store.Trouble()
	}
	now := m.clock()
	for i := range s.Hosts {
		out.Hosts = append(out.Hosts, m.hostStatus(&s.Hosts[i], i, now))
	}
	if out.StandsBy = m.engines.StandsBy() != nil; out.StandsBy {
		out.Unrecovered, out.Unprotected = 0, 0
	}
	for i := range s.Applications {
		a := m.applicationOf(&s.Applications[i])
		if out.StandsBy {
			a.Unrecovered, a.Unprotected = "", ""
		}
		out.Applications = append(out.Applications, a)
	}
	return out
}

func countsOf(c *failover.Counts) Counts {
	out := Counts{Failovers: c.Failovers, Affected: c.Affected, Recovered: c.Recovered, FailedBack: c.FailedBack, FalseAlarms: c.FalseAlarms, Suspicions: c.Suspicions, Gaps: c.Gaps, Loads: c.Loads, LoadsFailed: c.LoadsFailed}
	if c.Recovered > 0 {
		out.MeanMS = milliseconds(c.Outage / time.Duration(c.Recovered))
	}
	return out
}

func (m *Module) hostStatus(s *failover.HostStatus, host int, now time.Duration) HostStatus {
	out := HostStatus{Name: s.Name, Site: s.Site, State: s.Condition, Drill: s.Drill, SinceS: (now - s.Since).Seconds(), Loaded: s.Models, Loading: s.Loading, Used: map[string]float64{}}
	for r, name := range m.problem.Resources {
		if s.Capacity[r] > 0 {
			out.Used[name] = s.Taken[r] / s.Capacity[r]
		}
	}
	m.agents.mu.Lock()
	defer m.agents.mu.Unlock()
	out.Trouble = m.agents.troubles[host]
	if a := m.agents.of[host]; a != nil {
		out.Agent = &Agent{Version: a.Version, URL: a.URL, Incarnation: a.Incarnation, HeardMS: milliseconds(now - a.heard), LongestMS: milliseconds(a.gap), Heartbeats: a.sequence}
	}
	return out
}

func (m *Module) applicationOf(a *failover.ApplicationStatus) Application {
	name := func(x failover.Assignment) string {
		if x == failover.Nowhere {
			return ""
		}
		return m.problem.Name(x)
	}
	out := Application{
		Name: a.Name, Critical: a.Critical, Active: name(a.Active), Target: name(a.Target), Backups: []string{},
		Quality: a.Quality, Full: a.Full, Unrecovered: a.Unrecovered, Unprotected: a.Unprotected,
	}
	if a.Primary >= 0 {
		out.Primary = m.problem.Hosts[a.Primary].Name
	}
	for _, id := range a.Backups {
		out.Backups = append(out.Backups, name(id))
	}
	return out
}

// last is the last failover.
func (m *Module) last(s *failover.Status) *Failover {
	if s.Failover == 0 || len(s.Steps) == 0 {
		return nil
	}
	began := s.Steps[0].At
	out := &Failover{Number: s.Failover, Open: s.Open, Unrecovered: s.Unrecovered, TookMS: milliseconds(s.Steps[len(s.Steps)-1].At - began)}
	for _, step := range s.Steps {
		n := m.notice(step)
		n.AtMS = milliseconds(step.At - began)
		if out.Host == "" && step.Kind == failover.StepLost {
			out.Host = n.Host
		}
		out.Steps = append(out.Steps, n)
	}
	return out
}

// serveStatus answers GET /admin/failover.
func (m *Module) serveStatus(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.Situation())
}

// drill answers POST /admin/failover/drill, whose body names the host.
func (m *Module) drill(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Host string `json:"host"`
	}
	if err := read(w, r, &body); err != nil {
		serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_order", Message: "cannot read the order: " + err.Error() + `; want {"host": "NAME"}`})
		return
	}
	host := m.hostNamed(body.Host)
	if host < 0 {
		serving.Fail(w, r, http.StatusNotFound, m.unknownHost(body.Host))
		return
	}
	if m.standsBy(w, r) {
		return
	}
	var err error
	m.engines.Do(func() { err = m.controller.Drill(host) })
	if err != nil {
		serving.Fail(w, r, http.StatusConflict, wire.Error{Type: wire.InvalidRequest, Code: "conflict", Message: err.Error()})
		return
	}
	m.log.Info("failover order", "order", "drill", "host", body.Host)
	m.answerAfter(w)
}

// standsBy refuses an order or an agent of a router that stands by, and reports whether it did. It ends the connection,
// since behind an address of several routers the next one may lead to the acting router.
func (m *Module) standsBy(w http.ResponseWriter, r *http.Request) bool {
	err := m.engines.StandsBy()
	if err != nil {
		w.Header().Set("Connection", "close")
		serving.Fail(w, r, http.StatusConflict, wire.Error{Type: wire.InvalidRequest, Code: "stands_by", Message: err.Error()})
	}
	return err != nil
}

// failback answers POST /admin/failover/failback.
func (m *Module) failback(w http.ResponseWriter, r *http.Request) {
	if m.standsBy(w, r) {
		return
	}
	m.engines.Do(func() { m.controller.Failback(m.clock()) })
	m.log.Info("failover order", "order", "failback")
	m.answerAfter(w)
}

// answerAfter answers with the situation once the controller has seen the order.
func (m *Module) answerAfter(w http.ResponseWriter) {
	m.engines.Settle()
	_ = serving.Answer(w, http.StatusOK, m.Situation())
}

func (m *Module) hostNamed(name string) int {
	return slices.IndexFunc(m.problem.Hosts, func(h fleet.Host) bool { return h.Name == name })
}

// unknownHost refuses a name that no host has whose failures are watched.
func (m *Module) unknownHost(name string) wire.Error {
	var names []string
	for i := range m.problem.Hosts {
		names = append(names, m.problem.Hosts[i].Name)
	}
	return wire.Error{Type: wire.InvalidRequest, Param: "host", Code: "unknown_host", Message: fmt.Sprintf("the scenario has no host %q; it has %s", name, strings.Join(names, ", "))}
}
