package scenario_test

import (
	"slices"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/serving/discovery/settings"
)

// pooled has the parts of deploy/gateway's objects that the test reads.
type pooled struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector          struct{ MatchLabels map[string]string } `yaml:"selector"`
		TargetPorts       []struct{ Number int }                  `yaml:"targetPorts"`
		EndpointPickerRef struct {
			Name string
			Port struct{ Number int }
		} `yaml:"endpointPickerRef"`
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Args  []string
					Ports []struct {
						ContainerPort int `yaml:"containerPort"`
					}
				}
			}
		}
	}
}

// The pool selects the pods of all sizes of the scenario, at their port. Each has a size's label, and the model that
// the router requests from its engine.
func TestTheGatewaysPoolHasTheScenariosEngines(t *testing.T) {
	s := load(t, "../../deploy/gateway/scenario.yaml")
	discovery := scenario.Of[settings.Config](s)
	pools, engines := documents[pooled](t, "../../deploy/gateway/pool.yaml"), documents[pooled](t, "../../deploy/gateway/engines.yaml")
	if len(pools) != 1 || discovery.Kubernetes == nil || discovery.Kubernetes.Pool != pools[0].Metadata.Name {
		t.Fatalf("%d pools, of which the scenario wants %+v", len(pools), discovery.Kubernetes)
	}
	pool := pools[0].Spec
	if pool.EndpointPickerRef.Name != "gearshift-picker" || pool.EndpointPickerRef.Port.Number != 9002 {
		t.Errorf("the pool asks %+v, want the Service of the chart, gearshift-picker:9002", pool.EndpointPickerRef)
	}
	var sizes []string
	for _, e := range engines {
		labels, c := e.Spec.Template.Metadata.Labels, e.Spec.Template.Spec.Containers[0]
		for key, value := range pool.Selector.MatchLabels {
			if labels[key] != value {
				t.Errorf("%s: label %s is %q, the pool selects %q", e.Metadata.Name, key, labels[key], value)
			}
		}
		if len(pool.TargetPorts) != 1 || c.Ports[0].ContainerPort != pool.TargetPorts[0].Number {
			t.Errorf("%s: port %d, the pool has %v", e.Metadata.Name, c.Ports[0].ContainerPort, pool.TargetPorts)
		}
		size := labels[discovery.Labels.Variant]
		sizes = append(sizes, size)
		model := s.Serving.Upstreams[size+"@"+size+"-0"].Model
		if i := slices.Index(c.Args, "--served-model-name"); i < 0 || model == "" || !slices.Contains(c.Args[i+1:], model) {
			t.Errorf("%s: args %q, the router asks for model %q", e.Metadata.Name, c.Args, model)
		}
	}
	for _, v := range s.Variants {
		if !slices.Contains(sizes, v.Name) {
			t.Errorf("no engine has the label of %s; labelled are %q", v.Name, sizes)
		}
	}
}
