package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// tallied is what came of the losses of one kind under a policy.
type tallied struct {
	losses                int
	affected, unrecovered int       // applications
	detection             []float64 // ms from the loss until the router knew of it
	recovery              []float64 // ms from there until an application's clients were notified
	outage                []float64 // ms: of each loss, the longest that a client had to wait for an answer
	lost                  []float64 // shares of accuracy, by application, in the end
	asked, again          int       // requests for affected applications in the first two seconds, and those sent again
}

// tally goes through the losses of a kind.
func (p *phase) tally(kind string) (y tallied) {
	for i := range p.losses {
		x := &p.losses[i]
		if x.kind != kind {
			continue
		}
		y.losses++
		y.affected += len(x.affected)
		y.unrecovered += x.lostApplications()
		p.tallyNotices(x, &y)
		p.tallyRequests(x, &y)
		for _, was := range x.affected {
			for _, a := range x.after.Applications {
				if a.Name == was.Name && a.Active != "" {
					y.lost = append(y.lost, 1-a.Quality/a.Full)
				}
			}
		}
	}
	return y
}

// tallyNotices takes from what the router told when the loss was known, and when each application
// was recovered.
func (p *phase) tallyNotices(x *loss, y *tallied) {
	known := false
	for _, n := range p.notices {
		if n.Time.Before(x.at) || n.Time.After(x.back) {
			continue
		}
		switch {
		case n.Kind == "lost" && n.Host == hostName(x.host) && !known:
			known = true
			y.detection = append(y.detection, ms(n.Time.Sub(x.at)))
		case n.Kind == "notified":
			y.recovery = append(y.recovery, n.TookMS)
		}
	}
	if !known {
		p.t.Errorf("%s: the router did not notice the %s of %s", p.policy, x.kind, hostName(x.host))
	}
}

// tallyRequests finds how long clients of the affected applications waited: from the loss, or from
// when a request was due after it, until its answer.
func (p *phase) tallyRequests(x *loss, y *tallied) {
	affected := map[int]bool{}
	for i, a := range p.applications(p.policy) {
		for _, was := range x.affected {
			affected[i] = affected[i] || was.Name == a.name
		}
	}
	longest := 0.0
	for i := range p.asked {
		q := &p.asked[i]
		if !affected[q.app] || q.done.Before(x.at) || q.due.After(x.at.Add(2*time.Second)) {
			continue
		}
		y.asked++
		if q.attempts > 1 {
			y.again++
		}
		from := x.at
		if q.due.After(from) {
			from = q.due
		}
		longest = max(longest, ms(q.done.Sub(from)))
	}
	y.outage = append(y.outage, longest)
}

// report prints what came of the run, and holds it against what it must be.
func (f *failoverCheck) report(losses int) {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d hosts in 3 sites, links by %s\n", failoverHosts, f.net.name())
	for _, p := range f.phases {
		p.write(&b)
	}
	f.t.Log(b.String())
	for _, p := range f.phases {
		p.checkRequests()
		p.simulate(losses >= 30 && p.policy == "gearshift")
	}
	if !f.real {
		return
	}
	f.compareLoading()
	main := f.phases[0]
	for kind, most := range map[string]float64{killed: 120, stopped: 200} {
		if y := main.tally(kind); losses >= 30 && quantile(y.outage, 0.5) > most {
			f.t.Errorf("the outage that clients see of a %s is %.0f ms in the median, want at most %.0f", kind, quantile(y.outage, 0.5), most)
		}
	}
}

// compareLoading prints how much sooner applications are recovered where the smallest variant is
// loaded first than where the full one is.
func (f *failoverCheck) compareLoading() {
	progressive, full := f.phases[1].tally(killed), f.phases[2].tally(killed)
	a, b := meanOf(progressive.recovery), meanOf(full.recovery)
	f.t.Logf("recovery by progressive loading %.0f ms, by loading in full %.0f ms: %+.0f %%", a, b, 100*(a/b-1))
}

// write prints a phase.
func (p *phase) write(b *strings.Builder) {
	fmt.Fprintf(b, "\npolicy %s: %d applications, %d losses in %v, %d requests; without losses %.0f %% of %d processors in use\n", p.policy,
		len(p.applications(p.policy)), len(p.losses), p.took.Round(time.Second), len(p.asked), 100*p.busy/float64(runtime.NumCPU()), runtime.NumCPU())
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tlosses\tapplications\trecovered\tdetected ms\trecovery ms\toutage ms: median\tp90\tmost\trequests\tsent again\taccuracy lost\t")
	for _, kind := range lossKinds {
		y := p.tally(kind)
		if y.losses == 0 {
			continue
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%.1f %%\t%.1f\t%.1f\t%.0f\t%.0f\t%.0f\t%d\t%d\t%.2f %%\t\n", kind, y.losses, y.affected,
			100*(1-float64(y.unrecovered)/float64(max(1, y.affected))), meanOf(y.detection), meanOf(y.recovery),
			quantile(y.outage, 0.5), quantile(y.outage, 0.9), quantile(y.outage, 1), y.asked, y.again, 100*meanOf(y.lost))
	}
	_ = w.Flush()
	wrong, foreign := p.wrong()
	fmt.Fprintf(b, "requests lost: %d; answers that are not the one to their request: %d\n", len(wrong), foreign)
	calm, end := p.began.Add(p.calm), p.began.Add(p.took)
	fmt.Fprintf(b, "false alarms, hosts lost that nothing had befallen: without losses %s; with losses %s; %d more at the start\n",
		alarmRate(falseAlarms(p.notices, p.outages(), p.began, calm), p.calm), alarmRate(falseAlarms(p.notices, p.outages(), calm, end), p.took-p.calm),
		falseAlarms(p.notices, p.outages(), time.Time{}, p.began))
}

// wrong is why requests were not answered, and how many got what is not the answer to them.
func (p *phase) wrong() (reasons []string, foreign int) {
	for i := range p.asked {
		if q := &p.asked[i]; q.wrong != "" {
			reasons = append(reasons, q.wrong)
		} else if q.foreign {
			foreign++
		}
	}
	return reasons, foreign
}

// checkRequests fails the test for requests that were lost or doubled. Where nothing is held ready,
// applications wait for loads, and requests may run out of time.
func (p *phase) checkRequests() {
	if len(p.asked) == 0 {
		p.t.Errorf("%s: no request", p.policy)
	}
	wrong, foreign := p.wrong()
	if foreign > 0 {
		p.t.Errorf("%s: %d answers are not the one to their request", p.policy, foreign)
	}
	if p.policy != "gearshift" {
		return
	}
	counts := map[string]int{}
	for _, text := range wrong {
		text, _, _ = strings.Cut(text, `,"code"`) // the ID of the request follows
		counts[text]++
	}
	for text, n := range counts {
		p.t.Errorf("%s: %d requests lost: %s", p.policy, n, text)
	}
	for _, kind := range lossKinds {
		if y := p.tally(kind); y.unrecovered > 0 {
			p.t.Errorf("%s: %d applications are not recovered of a %s", p.policy, y.unrecovered, kind)
		}
	}
}

func meanOf(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(max(1, len(values)))
}

// quantile of values in any order; 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
