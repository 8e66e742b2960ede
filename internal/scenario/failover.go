package scenario

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gearshift/env/applications"
	"gearshift/router/failover"
	"gearshift/router/placement"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// Failover is how applications stay answered when hosts die. An application is a task with a
// rate. docs/failover.md describes what the keys do.
type Failover struct {
	// Policy is one of [FailoverPolicies].
	Policy string `yaml:"policy"`
	// Critical is the share of the applications that are critical where no task says so itself.
	Critical Part `yaml:"critical"`
	// Alpha is the share of all free capacity that stays free for loads after a failure, and
	// Headroom that of each host's capacity that backups may use.
	Alpha    float64 `yaml:"alpha"`
	Headroom Share   `yaml:"headroom"`
	// Heartbeat is how often agents report, and Misses after how many missing reports in a row
	// a host is suspected. It is lost if it gives no other sign of life within Confirm. Sweep is
	// how often the controller looks; zero is when a report is due.
	Heartbeat time.Duration `yaml:"heartbeat"`
	Misses    int           `yaml:"misses"`
	Confirm   time.Duration `yaml:"confirm"`
	Sweep     time.Duration `yaml:"sweep,omitempty"`
	// SiteIndependent keeps backups off their primary's site.
	SiteIndependent bool `yaml:"site_independent,omitempty"`
	Backups         int  `yaml:"backups"` // of each application
	Loaders         int  `yaml:"loaders"` // loads at a time on a host
	// ReturnAfter is how long a host that is back must be well before it is used again.
	ReturnAfter time.Duration `yaml:"return_after"`
	// Ping sets how often a stream of events without any sends something.
	Ping time.Duration `yaml:"ping"`
	// Models is the folder of the files that agents may fetch.
	Models string `yaml:"models,omitempty"`
	// Drawn has applications and hosts drawn, in place of those of the file.
	Drawn *Drawn `yaml:"drawn,omitempty"`
}

// Folder reports what is wrong with the folder of models on this machine.
func (f *Failover) Folder() error {
	if f.Models == "" {
		return nil
	}
	if info, err := os.Stat(f.Models); err != nil || !info.IsDir() {
		return fmt.Errorf("there is no folder %q here; want that of the model files, or no models", f.Models)
	}
	return nil
}

// FailoverPolicies are those of [Failover.Policy]. The first is the default.
var FailoverPolicies = namesOf(failover.Policies, func(p failover.Policy) string { return string(p) })

// Drawn describes applications and hosts that are drawn. They are simulated, not served: a
// fleet holds neither so many variants nor so many replicas.
type Drawn struct {
	Applications int `yaml:"applications,omitempty"` // 0: as many as fill the hosts
	Hosts        int `yaml:"servers"`
	Sites        int `yaml:"sites"`
	// Utilisation is the share of each resource that the primaries take.
	Utilisation Part `yaml:"utilisation,omitempty"`
	// Families names the table of models, one of [DrawnFamilies].
	Families string `yaml:"families,omitempty"`
	// Classes keeps families of these classes alone, of [DrawnClasses]; empty is all.
	Classes []string `yaml:"classes,flow,omitempty"`
	Seed    int      `yaml:"seed,omitempty"`
}

// What a [Drawn] may name.
var (
	DrawnFamilies = []string{"torchvision", "timm"}
	DrawnClasses  = []string{workloads.SmallFamily, workloads.MediumFamily, workloads.LargeFamily}
)

// Part is a share in percent that may be nothing, written 20%.
type Part float64

// UnmarshalText reads a share from 0% to 100%.
func (p *Part) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	n, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(n >= 0 && n <= 100) {
		return fmt.Errorf("want a share such as 20%%, from 0%% to 100%%, found %q", text)
	}
	*p = Part(n)
	return nil
}

// MarshalText writes the share as it is read.
func (p Part) MarshalText() ([]byte, error) { return Share(p).MarshalText() }

// Share returns the part as a number from 0 to 1.
func (p Part) Share() float64 { return float64(p) / 100 }

func defaultFailover() Failover {
	return Failover{
		Policy: FailoverPolicies[0], Critical: 50, Alpha: 0.1, Headroom: 20,
		Heartbeat: 20 * time.Millisecond, Misses: 2, Confirm: 30 * time.Millisecond,
		Backups: 1, Loaders: 10, ReturnAfter: 2 * time.Second, Ping: 15 * time.Second,
	}
}

// failoverSection describes how a router replaces hosts that die. It is not of the world that
// policies of requests are trained in, where nothing is loaded by it.
func failoverSection() registered {
	return section[Failover]{key: "failover", initial: defaultFailover, check: (*checker).failover}
}

// Failover returns the section; nil where the file has none.
func (s *Scenario) Failover() *Failover {
	if !s.failing {
		return nil
	}
	return Of[Failover](s)
}

// drawn returns how applications are drawn; nil where the file lists them.
func (s *Scenario) drawn() *Drawn { return Of[Failover](s).Drawn }

// Fleets lists the built-in scenarios that describe a fleet, rather than draw one.
func Fleets() (names []string) {
	for _, name := range workloads.ScenarioNames() {
		if s, _, err := parse(name, must(workloads.Scenario(name))); err == nil && s.drawn() == nil {
			names = append(names, name)
		}
	}
	return names
}

func must(text []byte, err error) []byte {
	if err != nil {
		panic(err) // what is built in is there
	}
	return text
}

// Drawing returns how applications are drawn, and whether they are.
func (s *Scenario) Drawing() (d applications.Drawing, ok bool) {
	f := s.drawn()
	if f == nil {
		return d, false
	}
	d = applications.Drawing{
		Applications: f.Applications, Hosts: f.Hosts, Sites: f.Sites, Utilisation: f.Utilisation.Share(),
		Families: workloads.TorchvisionFamilies(), BoundMS: drawnBoundMS, PerHost: drawnPerHost,
		Critical: Of[Failover](s).Critical.Share(), Seed: uint64(f.Seed),
	}
	if f.Families == DrawnFamilies[1] {
		d.Families = workloads.ImageFamilies()
	}
	d.Reference = d.Families
	if len(f.Classes) > 0 {
		d.Families = slices.DeleteFunc(slices.Clone(d.Families), func(x workloads.Family) bool { return !slices.Contains(f.Classes, x.Class(drawnBoundMS)) })
	}
	return d, true
}

// The bound on the answers of applications that are drawn, and how many of all families a host is made
// for where applications fill the hosts, as FailLite's large simulation has.
const (
	drawnBoundMS = 100
	drawnPerHost = 6.4
)

func (c *checker) failover(f *Failover) {
	const key = "failover"
	if !c.s.failing {
		for i, t := range c.s.Tasks {
			c.judgeIf(t.Rate != 0, child(item("tasks", i), "rate"), "is of an application, which failover replaces when its host dies; want the section failover, or no rate")
		}
		return
	}
	c.judgeIf(!slices.Contains(FailoverPolicies, f.Policy), child(key, "policy"), "unknown policy %q; %s", f.Policy, hint(f.Policy, FailoverPolicies))
	c.judgeIf(!(f.Alpha >= 0 && f.Alpha < 1), child(key, "alpha"), "want a share from 0 to below 1, not %v", f.Alpha)
	for _, x := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{{"heartbeat", f.Heartbeat, time.Millisecond}, {"confirm", f.Confirm, 0}, {"sweep", f.Sweep, 0}, {"return_after", f.ReturnAfter, 0}, {"ping", f.Ping, 100 * time.Millisecond}} {
		c.judgeIf(x.value < x.least || x.value > time.Hour, child(key, x.name), "want a time from %v to %v, not %v", x.least, time.Hour, x.value)
	}
	for _, x := range []struct {
		name  string
		value int
	}{{"misses", f.Misses}, {"backups", f.Backups}, {"loaders", f.Loaders}} {
		c.judgeIf(x.value < 1 || x.value > 1000, child(key, x.name), "want a number from 1 to 1000, not %d", x.value)
	}
	if f.Drawn == nil {
		c.applications(f)
	}
}

// drawnFile checks a file whose applications are drawn, which lists none.
func (c *checker) drawnFile() {
	const key = "failover.drawn"
	for _, list := range []string{"tasks", "variants", "hosts", "replicas", "profiles", "models"} {
		if _, given := c.lines[list]; given {
			c.judge(list, "has no meaning with %s, which draws applications and hosts; want one of the two", key)
		}
	}
	c.failover(Of[Failover](c.s))
	d := c.s.drawn()
	for _, x := range []struct {
		name        string
		value, from int
	}{{"applications", d.Applications, 0}, {"servers", d.Hosts, 2}, {"sites", d.Sites, 1}, {"seed", d.Seed, 0}} {
		c.judgeIf(x.value < x.from || x.value > 100_000, child(key, x.name), "want a number from %d to 100000, not %d", x.from, x.value)
	}
	c.judgeIf(d.Sites > d.Hosts, child(key, "sites"), "%d sites of %d hosts; want at most one for each", d.Sites, d.Hosts)
	c.judgeIf(d.Sites == 1 && Of[Failover](c.s).SiteIndependent, child(key, "sites"), "1 is the only site, and failover.site_independent keeps backups off their primary's; want two sites at least")
	c.judgeIf(d.Utilisation == 0, child(key, "utilisation"), "want a share above 0%%")
	c.judgeIf(!slices.Contains(DrawnFamilies, d.Families), child(key, "families"), "unknown families %q; %s", d.Families, hint(d.Families, DrawnFamilies))
	for i, class := range d.Classes {
		c.judgeIf(!slices.Contains(DrawnClasses, class), item(child(key, "classes"), i), "unknown class %q; %s", class, hint(class, DrawnClasses))
	}
}

// drawDefaults fills in what a [Drawn] leaves out.
func (d *Drawn) drawDefaults(given func(key string) bool) {
	if !given("utilisation") {
		d.Utilisation = 50
	}
	if d.Families == "" {
		d.Families = DrawnFamilies[0]
	}
	if !given("seed") {
		d.Seed = 1
	}
}

// refuseDrawn is the fault of a file that only simulations of failures take.
func (s *Scenario) refuseDrawn(r *report) error {
	d := s.drawn()
	if d == nil {
		return nil
	}
	r.add("failover.drawn", "the applications are drawn, %d on %d hosts, which no router serves and no policy is trained on; want gearshift failover simulate", d.Applications, d.Hosts)
	return r.err()
}

// Valid is the fault of a scenario of any kind, by its name or file.
func Valid(ref string) error {
	text, err := Text(ref)
	if err == nil {
		_, _, err = parse(fileName(ref), text)
	}
	return err
}

// LoadFailover is [Load] for simulations of failures, which also take a scenario whose applications are drawn.
func LoadFailover(ref string) (*Scenario, error) {
	text, err := Text(ref)
	if err != nil {
		return nil, err
	}
	s, r, err := parse(fileName(ref), text)
	if err == nil && !s.failing {
		r.add("", "there is no section failover; want it, and tasks with a rate")
		return nil, r.err()
	}
	return s, err
}

// FailoverProblem returns the applications and hosts as the controller of failover has them, with
// memory in bytes and compute in engines. Shared has applications on one host that run the same
// model share its memory, as they do when served, and gives each the primary on which its
// replica is up; otherwise the controller places those that name none.
func (s *Scenario) FailoverProblem(shared bool) *failover.Problem {
	if d, ok := s.Drawing(); ok {
		x, err := applications.Draw(d)
		if err != nil {
			panic(err) // the check of the file has found nothing
		}
		x.Shared = shared
		return x
	}
	tasks := s.Applications()
	return s.failoverProblem(shared, tasks, s.homes(tasks))
}

func (s *Scenario) failoverProblem(shared bool, tasks []int, homes []home) *failover.Problem {
	x := &failover.Problem{Resources: []string{"memory", "compute"}, Hosts: s.hosts(), Shared: shared}
	for _, h := range s.Hosts {
		x.Capacity = append(x.Capacity, []float64{float64(h.Memory), 1})
	}
	critical := s.criticals(tasks)
	for i, task := range tasks {
		a := s.application(task)
		a.Critical = critical[i]
		if a.Primary = s.hostIndex(s.Tasks[task].Primary); shared {
			a.Primary = homes[i].host
		}
		a.Full = slices.IndexFunc(a.Variants, func(v failover.Variant) bool { return v.Name == s.Variants[homes[i].variant].Name })
		x.Applications = append(x.Applications, a)
	}
	return x
}

// application returns the task as one, without its primary.
func (s *Scenario) application(task int) failover.Application {
	t := &s.Tasks[task]
	a := failover.Application{Name: t.Name, Rate: t.Rate, MaxLatency: profile.Duration(s.boundMS(task))}
	for v := range s.Variants {
		name := s.Variants[v].Name
		if !t.answers(name) {
			continue
		}
		ms, m := s.slowestMS(task, v), indexOf(s.modelNames(), s.Variants[v].Model)
		a.Variants = append(a.Variants, failover.Variant{
			Alternative: placement.Alternative{Name: name, Model: s.Variants[v].Model, Quality: t.Quality[name], Demand: []float64{float64(s.weight(v)), t.Rate * s.workMS(task, v) / 1000}, Latency: profile.Duration(ms)},
			Load:        profile.Duration(s.Weights[m].LoadMS),
		})
	}
	return a
}

// FailoverOptions returns the options of the controller of failover.
func (s *Scenario) FailoverOptions() failover.Options {
	f := Of[Failover](s)
	return failover.Options{
		Policy: failover.Policy(f.Policy), Alpha: f.Alpha, Headroom: float64(f.Headroom) / 100,
		Heartbeat: f.Heartbeat, Misses: f.Misses, Confirm: f.Confirm, Sweep: f.Sweep, SiteIndependent: f.SiteIndependent,
		Backups: f.Backups, Loaders: f.Loaders, ReturnAfter: f.ReturnAfter, Beside: s.Places(),
	}
}
