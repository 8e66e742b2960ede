package draft

import (
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/output"
	"gearshift/internal/scenario"
)

// document returns a scenario to edit: the whole, and the mapping that it is.
func document(ref string) (doc, root *yaml.Node, err error) {
	text, err := scenario.Text(ref)
	if err != nil {
		return nil, nil, err
	}
	doc = new(yaml.Node)
	if err := yaml.Unmarshal(text, doc); err != nil {
		return nil, nil, fmt.Errorf("cannot read scenario: %w", err)
	}
	return doc, doc.Content[0], nil
}

// valid returns the text of a scenario that was put together, once it is valid.
func valid(doc *yaml.Node, name string) ([]byte, error) {
	text, err := output.YAML(doc)
	if err != nil {
		return nil, err
	}
	if _, err := scenario.Parse(name, text); err != nil {
		return nil, err
	}
	return text, nil
}

// valueAt returns the value of the key in a mapping, made if there is none.
func valueAt(mapping *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	if value := lookUp(mapping, key); value != nil {
		return value
	}
	value := &yaml.Node{Kind: kind}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	return value
}

// lookUp returns the value of the key in a mapping, or nil if there is none, or no mapping.
func lookUp(mapping *yaml.Node, key string) *yaml.Node {
	if mapping == nil {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// drop removes the key from a mapping.
func drop(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}
