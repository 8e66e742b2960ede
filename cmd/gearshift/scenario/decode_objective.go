package scenario

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/env/objective"
)

// objectiveKeys are those of an objective with numbers, which may be written as a mapping,
// {power: 8}, as well as in a word, power:8.
type objectiveKeys struct {
	Power   *float64    `yaml:"power,omitempty"`
	Windows *windowKeys `yaml:"windows,omitempty"`
}

type windowKeys struct {
	Share float64 `yaml:"share"`
	Of    int     `yaml:"of"`
}

// wantObjective is what the key of an objective takes.
const wantObjective = "an objective: " + objective.Forms + ", or {power: P} or {windows: {share: SHARE, of: N}}"

func (d *decoder) objective(key string, n *yaml.Node, o *objective.Objective) {
	if n.Kind == yaml.MappingNode {
		*o = d.mappedObjective(key, n)
		return
	}
	if n.Kind != yaml.ScalarNode || n.Value == "" || n.ShortTag() == "!!null" {
		d.want(key, wantObjective, n)
		return
	}
	var err error
	*o, err = readObjective(n.Value)
	d.refused(key, err)
}

// readObjective reads an objective in a word, and knows what a misspelt one stands for.
func readObjective(text string) (objective.Objective, error) {
	o, err := objective.Parse(text)
	if err == nil || strings.Contains(text, ":") {
		return o, err
	}
	if meant := closest(text, []string{objective.Utility.String(), objective.NearPeak.String()}); meant != "" {
		return o, fmt.Errorf("unknown objective %q; did you mean %q?", text, meant)
	}
	return o, err
}

// mappedObjective is that of a mapping; utility, if a fault is reported.
func (d *decoder) mappedObjective(key string, n *yaml.Node) objective.Objective {
	var keys objectiveKeys
	before := len(d.faults)
	d.structure(key, n, reflect.ValueOf(&keys).Elem())
	if len(d.faults) > before {
		d.breaks(key)
		return objective.Utility
	}
	power, windows := child(key, "power"), child(key, "windows")
	switch {
	case keys.Power != nil && keys.Windows != nil:
		d.unreadable(key, "has both power, on line %d, and windows, on line %d; an objective is one of them", d.line(power), d.line(windows))
	case keys.Power != nil:
		o, err := objective.Power(*keys.Power)
		d.refused(power, err)
		return o
	case keys.Windows != nil:
		_, share := objective.Windows(keys.Windows.Share, 2)
		d.refused(child(windows, "share"), share)
		o, of := objective.Windows(1, keys.Windows.Of)
		d.refused(child(windows, "of"), of)
		if share == nil && of == nil {
			o, _ = objective.Windows(keys.Windows.Share, keys.Windows.Of)
		}
		return o
	default:
		d.want(key, wantObjective, n)
	}
	return objective.Utility
}

// refused reports what is wrong with a value that was read, if anything is.
func (d *decoder) refused(key string, err error) {
	if err != nil {
		d.unreadable(key, "%v", err)
	}
}
