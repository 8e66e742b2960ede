package labels

import (
	"fmt"
	"strings"

	"gearshift/workloads/prompts"
)

// builtIn begins the name of a packed set.
const builtIn = "builtin:"

// BuiltIn describes the names of packed sets: NAME is the half of its prompts that predictors
// are fitted to, and NAME:played the half that simulations play.
const BuiltIn = builtIn + prompts.NineModels + ", or " + builtIn + prompts.NineModels + ":played"

// packed takes a set that is packed into the program.
func (r *reader) packed(path string) error {
	name, half, _ := strings.Cut(strings.TrimPrefix(path, builtIn), ":")
	all, err := prompts.BuiltIn(name)
	if err != nil {
		return fmt.Errorf("cannot read labels: %w", err)
	}
	set, played := all.Halves()
	switch half {
	case "":
	case "played":
		set = played
	default:
		return fmt.Errorf("cannot read labels: %s: want %s", path, BuiltIn)
	}
	for i := range set.Prompts {
		r.at = position{path, i + 1}
		p := set.Prompts[i]
		var scores []score
		for c, y := range p.Scores {
			if y == y {
				scores = append(scores, score{set.Columns[c], float64(y)})
			}
		}
		p.Scores = nil
		if err := r.add(p, scores); err != nil {
			return err
		}
	}
	r.set.Sources = append(r.set.Sources, Source{Name: path})
	return nil
}
