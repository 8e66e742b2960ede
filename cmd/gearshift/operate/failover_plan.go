package operate

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/scenario"
	"gearshift/router/placement"
)

// PlannedFailover is the output of a plan.
type PlannedFailover struct {
	Objective   float64       `json:"objective"` // Σ quality × rate
	Placements  []Backup      `json:"placements"`
	Unprotected []Unprotected `json:"unprotected"`
	// Optimal says that no plan places more, or as many for a higher objective; only exact
	// plans know. Bound is the most that the objective can be, where it is false.
	Optimal *bool    `json:"optimal,omitempty"`
	Bound   *float64 `json:"bound,omitempty"`
	MS      float64  `json:"ms"` // that planning took
}

// Backup is where an application has one.
type Backup struct {
	Application string `json:"application"`
	Variant     string `json:"variant"`
	Server      string `json:"server"`
}

// Unprotected is an application without a backup.
type Unprotected struct {
	Application string `json:"application"`
	Why         string `json:"why"`
}

// The policies of a plan. The first is the default.
var failoverPolicies = []string{"gearshift", "exact", "alg1", "alg1-printed"}

// longestExact is the time that exact plans may take.
const longestExact = time.Minute

// NewFailoverCommand returns the command group `gearshift failover`.
func NewFailoverCommand() *cobra.Command {
	group := cli.Group("failover", "Plan backups for the loss of a host; show and drill those of a router",
		newFailoverPlan(), newFailoverSimulate(), newFailoverStatus(), newFailoverDrill(), newFailoverBack())
	group.Long = `An application whose host dies is answered again by its backup: a variant of the same
model, perhaps a smaller one, that is ready on another host. These commands plan which
variants, and where.`
	return group
}

func newFailoverPlan() *cobra.Command {
	command := &cobra.Command{
		Use:   "plan --in FILE.json",
		Short: "Print a placement of backups as JSON",
		Long: `Reads hosts with what is free on them, and applications with their primary hosts and
variants, and prints which backup each application gets: as many applications as can be,
then the highest sum of quality × rate. A backup is not on its primary's host, nor, with
"site_independent": true, on its site; it answers within max_latency_ms; and all backups
together leave the share alpha of the free capacity (0.1) for what is loaded after a failure.

policy is "gearshift", the default, which takes some tenths of a second; "exact", which proves its plan best, or
says after a minute how far off it may be; "alg1", the paper's Algorithm 1 with the rules
above; or "alg1-printed", without them. Resources have any names. An application that finds
no room is listed with the reason. A problem of one application:

  {"servers": [{"name": "S1", "free": {"memory": 400}}, {"name": "S2", "free": {"memory": 300}}],
   "applications": [{"name": "A", "primary": "S1", "rate": 1, "variants": [
      {"name": "tiny", "quality": 0.97, "demand": {"memory": 158}},
      {"name": "large", "quality": 1, "demand": {"memory": 806}}]}]}`,
	}
	cli.Plan(command, "problem", planFailover)
	return command
}

// planFailover plans the problem of a JSON file.
func planFailover(name string, text []byte) (any, error) {
	f := failoverFile{Alpha: defaultAlpha, Policy: failoverPolicies[0]}
	if err := scenario.Decode(name, text, &f); err != nil {
		return nil, err
	}
	planned, err := f.plan()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return planned, nil
}

// plan plans what is written.
func (f *failoverFile) plan() (*PlannedFailover, error) {
	p, err := f.problem()
	if err != nil {
		return nil, err
	}
	if !slices.Contains(failoverPolicies, f.Policy) {
		return nil, fmt.Errorf("policy: %q; want one of gearshift, exact, alg1, alg1-printed", f.Policy)
	}
	began := time.Now()
	var x *placement.Plan
	switch f.Policy {
	case "exact":
		x = p.Exact(p.Plan(p.Thorough()), func() bool { return time.Since(began) > longestExact })
	case "alg1", "alg1-printed":
		x = p.Algorithm1(f.Policy == "alg1-printed")
	default:
		x = p.Plan(p.Thorough())
	}
	took := time.Since(began)
	planned := &PlannedFailover{Objective: x.Objective, Placements: []Backup{}, Unprotected: []Unprotected{}, MS: float64(took.Microseconds()) / 1e3}
	for i, choice := range x.Choices {
		a := &p.Items[i]
		if choice.Bin < 0 {
			planned.Unprotected = append(planned.Unprotected, Unprotected{a.Name, p.Why(x, i)})
			continue
		}
		planned.Placements = append(planned.Placements, Backup{a.Name, a.Variants[choice.Variant].Name, p.Bins[choice.Bin].Name})
	}
	if f.Policy == "exact" {
		planned.Optimal = &x.Optimal
		if !x.Optimal {
			planned.Bound = &x.Bound
		}
	}
	return planned, nil
}
