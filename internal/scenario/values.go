package scenario

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/env/evaluation"
)

// Bytes is a size: a plain number of bytes, or one with a unit, as in 24GiB
// (powers of 1024) or 500MB (powers of 1000).
type Bytes int64

// byteUnits are tried in order: a suffix of another comes after it.
var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), 1.0
	for _, u := range byteUnits {
		if n, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = n, u.bytes
			break
		}
	}
	n, err := positive(number)
	// Above 2⁵³ a float no longer counts single bytes, and no host has that many.
	if size := n * unit; err == nil && size >= 1 && size <= 1<<53 {
		*b = Bytes(size)
		return nil
	}
	return fmt.Errorf("want a size such as 24GiB, 500MB or a number of bytes, found %q", text)
}

// MarshalText writes the number of bytes.
func (b Bytes) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(b), 10), nil }

// String returns the size for people: gibibytes, and the bytes next to them since
// two sizes that differ may round to the same.
func (b Bytes) String() string {
	return fmt.Sprintf("%.2f GiB (%d bytes)", float64(b)/(1<<30), int64(b))
}

// Share is a part of a host's memory in percent, written 90%.
type Share float64

// UnmarshalText reads a share above 0% and up to 100%.
func (s *Share) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	n, err := positive(number)
	if !ok || err != nil || n > 100 {
		return fmt.Errorf("want a share such as 90%%, above 0%% and at most 100%%, found %q", text)
	}
	*s = Share(n)
	return nil
}

// MarshalText writes the share as it is read.
func (s Share) MarshalText() ([]byte, error) {
	return append(strconv.AppendFloat(nil, float64(s), 'g', -1, 64), '%'), nil
}

// Of returns the share's part of so many bytes, rounded down.
func (s Share) Of(host Bytes) Bytes { return Bytes(float64(host) * float64(s) / 100) }

// Memory is what a replica takes: a size, or a share of its host's memory.
type Memory struct {
	Size  Bytes
	Share Share // where Size is zero
}

// UnmarshalText reads a [Bytes] or a [Share].
func (m *Memory) UnmarshalText(text []byte) error {
	if strings.HasSuffix(string(text), "%") {
		*m = Memory{}
		return m.Share.UnmarshalText(text)
	}
	if m.Size.UnmarshalText(text) != nil {
		return fmt.Errorf("want a size such as 5GiB or a share of the host such as 20%%, found %q", text)
	}
	return nil
}

// MarshalText writes what was read.
func (m Memory) MarshalText() ([]byte, error) {
	if m.Size > 0 {
		return m.Size.MarshalText()
	}
	return m.Share.MarshalText()
}

// On returns the number of bytes on a host with so much memory.
func (m Memory) On(host Bytes) Bytes {
	if m.Size > 0 {
		return m.Size
	}
	return m.Share.Of(host)
}

// positive reads a decimal number above zero; underscores may part its digits.
func positive(s string) (float64, error) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(s), "_", ""), 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is not a positive number", s)
	}
	return n, nil
}

// Scale is a factor whose default is 1. As a default it leaves no trace in the
// hash, so that scenarios from before it was known keep theirs.
type Scale float64

// IsZero reports whether the factor is the default, for omitempty.
func (s Scale) IsZero() bool { return s == 1 }

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
const wantObjective = "an objective: " + evaluation.ObjectiveForms + ", or {power: P} or {windows: {share: SHARE, of: N}}"

func (d *decoder) objective(key string, n *yaml.Node, o *evaluation.Objective) {
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
func readObjective(text string) (evaluation.Objective, error) {
	o, err := evaluation.ParseObjective(text)
	if err == nil || strings.Contains(text, ":") {
		return o, err
	}
	if meant := closest(text, []string{evaluation.MeanUtility.String(), evaluation.NearPeak.String()}); meant != "" {
		return o, fmt.Errorf("unknown objective %q; did you mean %q?", text, meant)
	}
	return o, err
}

// mappedObjective returns that of a mapping; utility, if a fault is reported.
func (d *decoder) mappedObjective(key string, n *yaml.Node) evaluation.Objective {
	var keys objectiveKeys
	before := len(d.faults)
	d.structure(key, n, reflect.ValueOf(&keys).Elem())
	if len(d.faults) > before {
		d.breaks(key)
		return evaluation.MeanUtility
	}
	power, windows := child(key, "power"), child(key, "windows")
	switch {
	case keys.Power != nil && keys.Windows != nil:
		d.unreadable(key, "has both power, on line %d, and windows, on line %d; an objective is one of them", d.line(power), d.line(windows))
	case keys.Power != nil:
		o, err := evaluation.PowerObjective(*keys.Power)
		d.refused(power, err)
		return o
	case keys.Windows != nil:
		_, share := evaluation.WindowsObjective(keys.Windows.Share, 2)
		d.refused(child(windows, "share"), share)
		o, of := evaluation.WindowsObjective(1, keys.Windows.Of)
		d.refused(child(windows, "of"), of)
		if share == nil && of == nil {
			o, _ = evaluation.WindowsObjective(keys.Windows.Share, keys.Windows.Of)
		}
		return o
	default:
		d.want(key, wantObjective, n)
	}
	return evaluation.MeanUtility
}

// refused reports what is wrong with a value that was read, if anything is.
func (d *decoder) refused(key string, err error) {
	if err != nil {
		d.unreadable(key, "%v", err)
	}
}
