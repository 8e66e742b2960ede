package policies

import (
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/cmd/gearshift/scenario"
)

func TestPlannedReferences(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for ref, name := range map[string]string{
		"clairvoyant:threshold:8":          "clairvoyant:threshold:8@25s",
		"clairvoyant:threshold:8@10s":      "clairvoyant:threshold:8@10s",
		"clairvoyant:slackfit:0.9@1m30s,4": "clairvoyant:slackfit:0.9@90s,4",
		"clairvoyant:static:large@500ms":   "clairvoyant:static:large@500ms",
		"planner:threshold:8@10s":          "planner:threshold:8@10s,64,3",
		"planner:threshold:8@10s,16":       "planner:threshold:8@10s,16,3",
		"planner:threshold:8@2.5s,128,1.5": "planner:threshold:8@2.5s,128,1.5",
		"clairvoyant:clairvoyantly@2":      "", // a stored policy that is not there
		"clairvoyant:store:first@2@25s":    "",
		"clairvoyant:":                     "",
		"clairvoyant:planner:threshold:8":  "",
		"clairvoyant:threshold:8@25s,many": "",
		"clairvoyant:threshold:8@25s,2,3":  "",
		"planner:threshold:8@25s,1,2,3":    "",
		"planner:static:none":              "",
	} {
		if !IsPlanned(ref) {
			t.Errorf("%s is not a planner", ref)
		}
		c, err := plannedContestant(s, &Source{Store: &checkpoints.Store{Path: t.TempDir() + "/none.db"}}, ref, nil)
		if (err == nil) != (name != "") || c.Name != name && err == nil {
			t.Errorf("%s is %q, %v; want %q", ref, c.Name, err, name)
		}
		if err == nil && c.Rule {
			t.Errorf("%s counts as a rule", ref)
		}
		if err == nil && len(c.Fleet.Table.Replicas) != len(s.Table().Replicas) {
			t.Errorf("%s plays on %d replicas, not on the whole fleet", ref, len(c.Fleet.Table.Replicas))
		}
	}
	p, err := parsePlanned(s, "clairvoyant:store:first@2@25s,3")
	if err != nil || p.base != "store:first@2" || p.clairvoyant.Horizon != 25*time.Second || p.clairvoyant.Passes != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	if IsPlanned("threshold:8") || IsPlanned("clairvoyance") {
		t.Error("another policy is taken for a planner")
	}
}
