package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"gearshift/internal/app"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
)

// judgeLosses plays the loss of each host where the scenario has failover.
func judgeLosses(s *scenario.Scenario, refuse, warn func(key, format string, args ...any)) []app.Loss {
	f := s.Failover()
	if f == nil {
		return nil
	}
	if err := f.Folder(); err != nil {
		refuse("failover.models", "%v", err)
	}
	losses, err := app.Losses(s)
	if err != nil {
		refuse("failover", "%v", err)
		return nil
	}
	app.JudgeLosses(losses, refuse, warn)
	return losses
}

// Of more affected applications than mostDetailed hosts have a line each, and of more hosts than mostHosts the
// worst alone.
const (
	mostDetailed = 24
	mostHosts    = 10
)

// lossTable shows what the loss of each host does.
func lossTable(out io.Writer, s *scenario.Scenario, losses []app.Loss) error {
	f := s.Failover()
	if f == nil {
		unprotected(out, s)
		return nil
	}
	affected := 0
	for i := range losses {
		affected += len(losses[i].Affected)
	}
	fmt.Fprintf(out, "\nIf this host dies, which is noticed at once where connections are refused, and else after %v:\n", f.Heartbeat*time.Duration(f.Misses)+f.Confirm)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if affected <= mostDetailed {
		detailed(w, losses)
	} else {
		summarised(w, losses)
	}
	return w.Flush()
}

// detailed has a line for each application of each host.
func detailed(w io.Writer, losses []app.Loss) {
	fmt.Fprintln(w, "host\tloses\tanswers instead\tquality")
	for i := range losses {
		l := &losses[i]
		if len(l.Affected) == 0 {
			fmt.Fprintf(w, "%s\tno application\t\t\n", l.Host)
		}
		for k, a := range l.Affected {
			host := l.Host
			if k > 0 {
				host = ""
			}
			answers, qualities := []string{}, []string{fmt.Sprint(a.Quality)}
			for _, x := range a.Answers {
				after := "at once"
				if x.After > 0 {
					after = "after " + x.After.Round(time.Millisecond).String()
				}
				answers, qualities = append(answers, fmt.Sprintf("%s@%s %s", x.Variant, x.Host, after)), append(qualities, fmt.Sprint(x.Quality))
			}
			if len(answers) == 0 {
				answers, qualities = append(answers, "nothing: "+a.Why), append(qualities, "0")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", host, a.Application, strings.Join(answers, ", "), strings.Join(qualities, " → "))
		}
	}
}

// summarised has a line for each of the worst hosts, and one for the others.
func summarised(w io.Writer, losses []app.Loss) {
	fmt.Fprintln(w, "host\tloses\tanswered at once\tafter a load\tlongest\tquality kept\twithout an answer")
	shown, affected, ready := 0, 0, 0
	for i := range losses {
		l := &losses[i]
		if !l.Played || shown == mostHosts {
			affected, ready = affected+len(l.Affected), ready+l.Ready
			continue
		}
		shown++
		var at, loaded int
		var longest time.Duration
		var kept, whole float64
		for _, a := range l.Affected {
			whole += a.Quality
			if len(a.Answers) == 0 {
				continue
			}
			if longest = max(longest, a.Answers[0].After); a.Answers[0].After == 0 {
				at++
			} else {
				loaded++
			}
			kept += a.Answers[len(a.Answers)-1].Quality
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%v\t%.1f %%\t%s\n", l.Host, len(l.Affected), at, loaded, longest.Round(time.Millisecond), 100*kept/max(whole, 1e-9), nameless(l))
	}
	if n := len(losses) - shown; n > 0 {
		fmt.Fprintf(w, "%d others\t%d\t%d with a backup\t\t\t\t\n", n, affected, ready)
	}
}

// nameless names the applications that stay without an answer, the first few of them.
func nameless(l *app.Loss) string {
	var names []string
	for _, a := range l.Affected {
		if len(a.Answers) == 0 {
			names = append(names, a.Application)
		}
	}
	switch n := len(names); {
	case n == 0:
		return "none"
	case n > 3:
		return fmt.Sprintf("%d, such as %s", n, strings.Join(names[:3], ", "))
	}
	return strings.Join(names, ", ")
}

// unprotected says which tasks the loss of a host leaves without a replica, where nothing loads another.
func unprotected(out io.Writer, s *scenario.Scenario) {
	t := s.Table()
	var bad []string
	for h := range t.Hosts {
		var tasks []string
		for k := range t.Tasks {
			left := false
			for i := range t.Replicas {
				r := &t.Replicas[i]
				left = left || r.Host != h && r.Initial == fleet.Up && t.Tasks[k].Without>>r.Variant&1 == 0
			}
			if !left {
				tasks = append(tasks, t.Tasks[k].Name)
			}
		}
		if len(tasks) > 0 {
			bad = append(bad, t.Hosts[h].Name+": "+strings.Join(tasks, ", "))
		}
	}
	switch {
	case len(t.Hosts) == 1:
		fmt.Fprintf(out, "\nIf %s dies, nothing answers: it is the only host.\n", t.Hosts[0].Name)
	case len(bad) == 0:
		fmt.Fprintln(out, "\nIf one host dies, each task has a replica on another.")
	case len(bad) > mostHosts:
		fmt.Fprintf(out, "\nIf one of %d hosts dies, tasks have no replica left, such as %s.\n", len(bad), bad[0])
	default:
		fmt.Fprintf(out, "\nIf this host dies, these tasks have no replica left (failover has others loaded):\n  %s\n", strings.Join(bad, "\n  "))
	}
}
