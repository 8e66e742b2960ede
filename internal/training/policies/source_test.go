package policies

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/nn"
)

// A stored policy departs from advice as far as it says that it is to be trusted.
func TestStoredPoliciesKeepTheirTrust(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	spec, table := s.Spec(), s.ServingTable()
	var members []*nn.MLP
	for _, lead := range []float32{1, 3} {
		net, err := nn.New(spec.Inputs(), spec.Outputs())
		if err != nil {
			t.Fatal(err)
		}
		net.Biases[0][0] = lead // of the small size, where the rule advises the large one
		members = append(members, net)
	}
	stack, err := nn.Stack(members...)
	if err != nil {
		t.Fatal(err)
	}
	maker, err := s.Maker(table)
	if err != nil {
		t.Fatal(err)
	}
	met := make([]float32, spec.Dim())
	for i := range met {
		met[i] = 100
	}
	source := &Source{Store: &checkpoints.Store{Path: filepath.Join(t.TempDir(), "policies.db")}}
	for name, test := range map[string]struct {
		caution float64
		seen    []float32
		want    int
	}{
		"daring":   {1, met, 0},
		"cautious": {3, met, 1},
		"narrow":   {1, make([]float32, spec.Dim()), 1},
	} {
		c := &checkpoints.Checkpoint{Network: stack, Meta: checkpoints.Meta{
			Scenario: s.Name, ScenarioHash: s.Hash(), Spec: spec, SpecHash: spec.Hash(), Caution: test.caution, Seen: test.seen,
		}}
		if _, _, err := source.Store.Put(name, c, time.Unix(0, 0)); err != nil {
			t.Fatal(err)
		}
		p, _, err := source.Stored(name+"@1", maker)
		if err != nil {
			t.Fatal(err)
		}
		var v fleet.View
		fleet.NewLedger(table).View(0, &v)
		if got := p.Decide(&v, &fleet.Request{}, make([]float32, p.Scratch())); got != test.want {
			t.Errorf("%s: chose %d, want %d", name, got, test.want)
		}
	}
}

// A rule's name with a slip in it is not only a policy that is not there.
func TestMeantRule(t *testing.T) {
	for text, want := range map[string]string{
		"tsk-aware:1": "; did you mean the rule task-aware?", "slackfitt": "; did you mean the rule slackfit?",
		"xyzzy:1": "; the rules are static, threshold,", "xyzzy": "", "slackfit": "",
	} {
		if got := strings.TrimPrefix(MeantRule(text, errors.New("none")).Error(), "none"); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
