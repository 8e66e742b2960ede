package draft

import (
	"math"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// entry is a key of a mapping with its value and what is said of it.
type entry struct {
	key   string
	value *yaml.Node
	// head stands above the key, line behind its value.
	head, line string
}

func mapping(entries ...entry) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for _, e := range entries {
		if e.value == nil {
			continue
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Value: e.key, HeadComment: comment(e.head)}
		value := *e.value
		if e.line != "" {
			value.LineComment = comment(e.line)
		}
		n.Content = append(n.Content, key, &value)
	}
	return n
}

// comment returns each line of a text behind its sign.
func comment(text string) string {
	if text == "" {
		return ""
	}
	return "# " + strings.ReplaceAll(text, "\n", "\n# ")
}

func flow(n *yaml.Node) *yaml.Node {
	n.Style = yaml.FlowStyle
	return n
}

func list(items ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.SequenceNode, Content: items}
}

func text(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	// A name that reads as something else has quotes.
	if plain := (&yaml.Node{Kind: yaml.ScalarNode, Value: s}); plain.ShortTag() != "!!str" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

func names(list []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	for _, s := range list {
		n.Content = append(n.Content, text(s))
	}
	return n
}

// number returns a number as people write it, with its thousands parted from 100,000 on.
func number(x float64) *yaml.Node {
	s := strconv.FormatFloat(x, 'f', -1, 64)
	if x == math.Trunc(x) && math.Abs(x) >= 100_000 {
		s = grouped(s, "_")
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: s}
}

// grouped parts the digits of a whole number.
func grouped(digits, by string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + by + digits[i:]
	}
	return digits
}

// raw returns a value as it is written, such as 24GiB.
func raw(s string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: s} }
