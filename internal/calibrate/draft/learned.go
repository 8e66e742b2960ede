package draft

import (
	"fmt"
	"math"
	"slices"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/router/profile"
)

// Learned lists the values that a router has fitted to traffic and scores while it served.
type Learned struct {
	Profiles []LearnedProfile
	// Prompt and Output are the mean lengths of requests in tokens; 0: not known. From names their source.
	Prompt, Output float64
	From           string
	Qualities      []LearnedQuality
}

// LearnedProfile is a latency model that was fitted to answers.
type LearnedProfile struct {
	Variant string
	Hosts   []string
	profile.Profile
	From string
}

// LearnedQuality is the mean score of a variant's answers to a task.
type LearnedQuality struct {
	Task, Variant string
	Quality       float64
	From          string
}

// WithLearned returns the text of a scenario with what a router has learned, each value with a comment that
// names its source.
func WithLearned(name string, text []byte, l Learned) ([]byte, error) {
	doc := new(yaml.Node)
	if err := yaml.Unmarshal(text, doc); err != nil {
		return nil, fmt.Errorf("cannot read scenario: %w", err)
	}
	root := doc.Content[0]
	l.placeProfiles(lookUp(root, "profiles"))
	l.placeQualities(lookUp(root, "tasks"))
	if l.Prompt > 0 {
		workload := valueAt(root, "workload", yaml.MappingNode)
		l.placeLength(workload, "prompt_tokens", l.Prompt)
		l.placeLength(workload, "output_tokens", l.Output)
	}
	out, err := output.YAML(doc)
	if err != nil {
		return nil, err
	}
	if _, err := scenario.Parse(name, out); err != nil {
		return nil, fmt.Errorf("cannot write what was learned: %w", err)
	}
	return out, nil
}

// placeProfiles puts fitted times in the place of a variant's entries.
func (l *Learned) placeProfiles(list *yaml.Node) {
	if list == nil {
		return
	}
	variantOf := func(n *yaml.Node) string {
		if v := lookUp(n, "variant"); v != nil {
			return v.Value
		}
		return ""
	}
	replaced := map[string]*yaml.Node{}
	for _, p := range l.Profiles {
		at := slices.IndexFunc(list.Content, func(n *yaml.Node) bool { return variantOf(n) == p.Variant })
		if replaced[p.Variant] == nil && at >= 0 {
			replaced[p.Variant] = list.Content[at]
			list.Content = slices.DeleteFunc(list.Content, func(n *yaml.Node) bool { return variantOf(n) == p.Variant })
		}
		if like := replaced[p.Variant]; like != nil {
			list.Content = append(list.Content, p.entry(like))
		}
	}
}

// entry returns an entry like the one that it replaces.
func (p *LearnedProfile) entry(like *yaml.Node) *yaml.Node {
	n := *like
	n.Content = nil
	for _, part := range like.Content {
		one := *part
		n.Content = append(n.Content, &one)
	}
	drop(&n, "hosts")
	if len(p.Hosts) > 0 {
		n.Content = append(n.Content, text("hosts"), names(p.Hosts))
	}
	for _, of := range []struct {
		key string
		ms  float64
	}{
		{"launch_floor_ms", p.LaunchFloor}, {"weights_ms", p.Weights}, {"growth_per_sequence", p.Growth}, {"token_ms", p.Token},
		{"context_token_ms", p.Context}, {"sequence_ms", p.Sequence}, {"prompt_ms", p.Prompt},
		{"contention", p.Contention},
	} {
		x := scenario.Round(of.ms, 4)
		if x < 1e-6 {
			x = 0
		}
		if x == 0 && lookUp(&n, of.key) == nil {
			continue
		}
		to := valueAt(&n, of.key, yaml.ScalarNode)
		*to = *number(x)
		if n.Style&yaml.FlowStyle == 0 { // a flow has no lines of its own
			to.LineComment = comment(p.From)
		}
	}
	if n.Style&yaml.FlowStyle != 0 {
		n.LineComment = comment(p.From)
	}
	return &n
}

// placeQualities puts mean scores in the place of qualities.
func (l *Learned) placeQualities(tasks *yaml.Node) {
	if tasks == nil {
		return
	}
	for _, task := range tasks.Content {
		name, row := lookUp(task, "name"), lookUp(task, "quality")
		if name == nil || row == nil {
			continue
		}
		from := ""
		for _, q := range l.Qualities {
			if v := lookUp(row, q.Variant); q.Task == name.Value && v != nil {
				*v = *number(math.Round(q.Quality*1000) / 1000)
				if from != "" {
					from += "; "
				}
				from += q.Variant + " " + q.From
			}
		}
		if from != "" {
			row.LineComment = comment(from)
		}
	}
}

// placeLength puts the mean of what was seen into a distribution, which keeps its bound.
func (l *Learned) placeLength(workload *yaml.Node, key string, mean float64) {
	n := valueAt(workload, key, yaml.MappingNode)
	most := lookUp(n, "max")
	if bound := new(float64); most != nil && most.Decode(bound) == nil {
		mean = min(mean, *bound)
	}
	entries := []entry{{key: "distribution", value: text("lognormal")}, {key: "mean", value: number(math.Round(mean))}, {key: "cv", value: number(1)}}
	if most != nil {
		entries = append(entries, entry{key: "max", value: most})
	}
	*n = *flow(mapping(entries...))
	n.LineComment = comment(l.From)
}
