package draft

import (
	"go.yaml.in/yaml/v3"

	"gearshift/env/evaluation"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/router/observation"
)

// WithRules replaces the rules in a scenario's text, the best first.
func WithRules(ref string, best []evaluation.Best) ([]byte, error) {
	if len(best) == 0 {
		return scenario.Text(ref)
	}
	doc, root, err := document(ref)
	if err != nil {
		return nil, err
	}
	best = evaluation.BestFirst(best)
	features := lookUp(lookUp(root, "training"), "observation")
	var rules []*yaml.Node
	for _, b := range best {
		rules = append(rules, &yaml.Node{Kind: yaml.ScalarNode, Value: b.Policy})
	}
	list := valueAt(valueAt(root, "evaluation", yaml.MappingNode), "rules", yaml.SequenceNode)
	*list = yaml.Node{Kind: yaml.SequenceNode, Content: rules}
	if features != nil && len(features.Content) > 0 && valueAt(features.Content[0], "kind", yaml.ScalarNode).Value == string(observation.Advice) {
		*valueAt(features.Content[0], "rule", yaml.ScalarNode) = yaml.Node{Kind: yaml.ScalarNode, Value: best[0].Policy}
	}
	return valid(doc, ref+" with tuned rules")
}

// WithPatience returns a scenario that turns no request away for being late.
func WithPatience(ref string) ([]byte, error) {
	doc, root, err := document(ref)
	if err != nil {
		return nil, err
	}
	serving := valueAt(root, "serving", yaml.MappingNode)
	valueAt(valueAt(serving, "overload", yaml.MappingNode), "shed", yaml.ScalarNode).Value = "never"
	return output.YAML(doc)
}
