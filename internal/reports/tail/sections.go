package tail

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gearshift/env/evaluation/report"
)

// section is a part of the report, which stands in a file of its own.
type section struct {
	id   string // which --only names
	make func(s *study, ctx context.Context, r *report.Report) error
}

// sections are those of the report, in their order.
var sections = []section{
	{"knowledge", (*study).knowledge},
	{"variations", (*study).variations},
	{"balancers", (*study).balancers},
	{"probes", (*study).probes},
	{"loads", (*study).loads},
	{"waterfall", (*study).waterfall},
	{"theory", (*study).closedForms},
	{"replicas", (*study).replicas},
	{"tiers", (*study).tiers},
	{"versions", (*study).versions},
}

// names lists the sections.
func names() string {
	var ids []string
	for _, x := range sections {
		ids = append(ids, x.id)
	}
	return strings.Join(ids, ", ")
}

// chosen returns the sections that are named, in the report's order; all if none is.
func chosen(wanted []string) (list []section, err error) {
	for _, x := range sections {
		if len(wanted) == 0 || slices.Contains(wanted, x.id) {
			list = append(list, x)
		}
	}
	for _, name := range wanted {
		if !slices.ContainsFunc(sections, func(x section) bool { return x.id == name }) {
			return nil, fmt.Errorf("--only: no section %q; the sections are %s", name, names())
		}
	}
	return list, nil
}

// report plays everything and lays it out.
func (s *study) report(ctx context.Context) (*report.Report, error) {
	d := drawn(0)
	r := &report.Report{
		Title: "Tail utilisation",
		Scenario: fmt.Sprintf("Simulated: %d hosts of 2 and 4 cores, %d models with %d replicas, whose requests take %v to %v of a core in the mean; %d tiers are drawn, %v of requests each; a question for a load takes %v, and %v of a core of the host that is asked",
			d.Hosts, d.Models, d.Replicas, d.Fastest, d.Slowest, len(s.seeds), s.length, pollTakes, pollWork),
		Repeat: s.repeat(),
	}
	list, err := chosen(s.options.only)
	if err != nil {
		return nil, err
	}
	for i, x := range list {
		fmt.Fprintf(s.stderr, "section %d of %d: %s\n", i+1, len(list), x.id)
		if err := x.make(s, ctx, r); err != nil {
			return nil, err
		}
	}
	if len(r.Verdict) == 0 {
		r.Verdict = []string{"These sections alone have tables and figures, and no verdict."}
	}
	return r, nil
}

// repeat is the command that makes the report again.
func (s *study) repeat() string {
	command := fmt.Sprintf("gearshift paper tail --seeds %d", len(s.seeds))
	if s.options.quick {
		command += " --quick"
	}
	if s.options.length > 0 {
		command += fmt.Sprintf(" --length %v", s.options.length)
	}
	if len(s.options.only) > 0 {
		command += " --only " + strings.Join(s.options.only, ",")
	}
	return command + " --out DIR; " + s.version
}
