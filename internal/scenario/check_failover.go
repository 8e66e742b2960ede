package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gearshift/router/failover"
)

// applications checks what failover is told of tasks and hosts.
func (c *checker) applications(f *Failover) {
	before := len(c.faults)
	_, share := c.lines["failover.critical"]
	for i, t := range c.s.Tasks {
		at := item("tasks", i)
		_, given := c.lines[child(at, "rate")]
		c.judgeIf(given && !(t.Rate > 0 && t.Rate <= maxWorth), child(at, "rate"), "want requests per second above 0 and at most %d, not %v", int(maxWorth), t.Rate)
		c.judgeIf(t.Critical && !given, child(at, "critical"), "is of an application, which has a rate; want its rate, or no critical")
		c.judgeIf(t.Critical && share, child(at, "critical"), "stands next to failover.critical; want one of the two: a share of all applications, or tasks that say so")
		if t.Primary != "" {
			c.judgeIf(!given, child(at, "primary"), "is of an application, which has a rate; want its rate, or no primary")
			c.hostRef(child(at, "primary"), t.Primary)
		}
	}
	tasks := c.s.Applications()
	c.judgeIf(len(tasks) == 0, "failover", "no task is an application; want a rate at those that are to survive the loss of a host")
	c.spares()
	if len(c.faults) > before || !c.sound("tasks") || !c.sound("hosts") || !c.sound("variants") || !c.sound("models") || !c.sound("profiles") || !c.lengthsSound() {
		return
	}
	models := c.s.modelNames()
	if slices.ContainsFunc(c.s.Variants, func(v Variant) bool { return v.Model != "" && !slices.Contains(models, v.Model) }) {
		return // which is said of the variant
	}
	if len(c.s.Replicas) > 0 && !c.modelled() {
		return
	}
	homes := c.s.homes(tasks)
	c.housed(tasks, homes)
	if len(c.faults) == before && len(c.s.Replicas) > 0 {
		c.carried(tasks, homes)
	}
	if len(c.faults) == before {
		c.everywhere(tasks)
	}
}

// spares checks that there are other hosts, and other sites where backups need them, one for each backup.
func (c *checker) spares() {
	if !c.knownHosts() || len(c.s.Hosts) == 0 {
		return
	}
	f := Of[Failover](c.s)
	c.judgeIf(len(c.s.Hosts) == 1, "hosts", "%s is the only one; failover needs another that takes over when it dies", c.s.Hosts[0].Name)
	site := c.s.Hosts[0].Site
	if f.SiteIndependent && site != "" && !slices.ContainsFunc(c.s.Hosts, func(h Host) bool { return h.Site != site }) {
		c.judge(child(item("hosts", 0), "site"), "%s is the only site, and failover.site_independent keeps backups off their primary's; want hosts of another site, or no site_independent", site)
		return
	}
	others, of := len(c.s.Hosts)-1, "hosts"
	if f.SiteIndependent {
		others, of = c.s.sites()-1, "sites"
	}
	c.judgeIf(others > 0 && f.Backups > others, "failover.backups", "%d backups of an application are on as many %s, and there are %d besides its primary's; want at most %d", f.Backups, of, others, others)
}

// sites counts what hosts fail together with; a host without a site is one.
func (s *Scenario) sites() int {
	names, alone := map[string]bool{}, 0
	for _, h := range s.Hosts {
		if names[h.Site] = true; h.Site == "" {
			alone++
		}
	}
	delete(names, "")
	return len(names) + alone
}

// housed checks that each application has a variant that can be one, a primary with room for it,
// and, among the other hosts, one that a variant fits.
func (c *checker) housed(tasks []int, homes []home) {
	for i, task := range tasks {
		t, at := &c.s.Tasks[task], item("tasks", task)
		switch list := c.s.candidates(task); {
		case len(list) == 0:
			c.judge(child(at, "quality"), "no variant of %s is both in time (%v ms) and within the memory of a host; want a smaller or faster one: %s", t.Name, c.s.boundMS(task), c.s.sizes(task))
		case homes[i].host < 0 && t.Primary != "":
			c.judge(child(at, "primary"), "no variant of %s that answers in time fits %s; want a host with more memory, or a smaller variant: %s", t.Name, t.Primary, c.s.sizes(task))
		case homes[i].host < 0:
			c.judge(child(at, "rate"), "no host has room for %s of %s next to the applications before it; want more memory or hosts, or a lower rate", c.s.Variants[list[0]].Name, t.Name)
		case !c.elsewhere(list, homes[i].host):
			c.judge(child(at, "quality"), "no variant of %s fits another host than %s, its primary; want a smaller variant: %s", t.Name, c.s.Hosts[homes[i].host].Name, c.s.sizes(task))
		}
	}
}

// elsewhere reports whether one of the variants fits a host other than this one.
func (c *checker) elsewhere(variants []int, except int) bool {
	for h, host := range c.s.Hosts {
		if h != except && slices.ContainsFunc(variants, func(v int) bool { return c.s.weight(v) <= host.Memory }) {
			return true
		}
	}
	return false
}

// sizes says what the variants of a task take.
func (s *Scenario) sizes(task int) string {
	var list []string
	for v := range s.Variants {
		if s.Tasks[task].answers(s.Variants[v].Name) {
			list = append(list, fmt.Sprintf("%s takes %v and %s ms", s.Variants[v].Name, s.weight(v), plain(s.slowestMS(task, v))))
		}
	}
	return strings.Join(list, ", ")
}

// everywhere reports replicas that the file lists incompletely: failover may need any variant of
// an application on any host.
func (c *checker) everywhere(tasks []int) {
	placed := map[home]bool{}
	for _, p := range c.s.placedReplicas() {
		placed[home{p.variant, p.host}] = true
	}
	for v := range c.s.Variants {
		of := slices.IndexFunc(tasks, func(task int) bool { return c.s.Tasks[task].answers(c.s.Variants[v].Name) })
		for h, host := range c.s.Hosts {
			if of >= 0 && !placed[home{v, h}] && c.s.weight(v) <= host.Memory {
				c.judge("replicas", "there is none of %s on %s, where failover may need it for %s; want it with state: cold, or no replicas in the file, which failover places itself", c.s.Variants[v].Name, host.Name, c.s.Tasks[tasks[of]].Name)
			}
		}
	}
}

// carried checks that hosts have what the applications take whose primaries they are.
func (c *checker) carried(tasks []int, homes []home) {
	x := c.s.failoverProblem(true, tasks, homes)
	on := make([][]failover.Assignment, len(x.Hosts))
	for i := range x.Applications {
		a := &x.Applications[i]
		on[a.Primary] = append(on[a.Primary], failover.Assignment{App: i, Variant: a.Full, Host: a.Primary})
	}
	for host, list := range on {
		for r, taken := range x.Taken(host, list) {
			if all := x.Capacity[host][r]; taken > all*(1+1e-9) {
				c.overfull(x, tasks, list, r, taken, all)
			}
		}
	}
}

// overfull reports the application that takes most of what its primary has too little of.
func (c *checker) overfull(x *failover.Problem, tasks []int, on []failover.Assignment, resource int, taken, all float64) {
	most := slices.MaxFunc(on, func(a, b failover.Assignment) int {
		return cmp.Compare(x.Variant(a).Demand[resource], x.Variant(b).Demand[resource])
	})
	at, a, variant, host, others := item("tasks", tasks[most.App]), &x.Applications[most.App], x.Variant(most).Name, x.Hosts[most.Host].Name, ""
	if len(on) > 1 {
		others = " with the others whose primary it is"
	}
	if resource == 0 {
		c.judge(child(at, "primary"), "%s of %s takes%s %v of %s, its primary, which has %v; want another primary, or a host with more memory", variant, a.Name, others, Bytes(taken), host, Bytes(all))
		return
	}
	c.judge(child(at, "rate"), "%v requests/s of %s are%s %s times what %s answers in time; want a lower rate, or another primary", a.Rate, variant, others, plain(taken/all), host)
}
