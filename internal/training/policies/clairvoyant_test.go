package policies

import (
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
)

func TestClairvoyantReferences(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	for ref, name := range map[string]string{
		"clairvoyant:threshold:8":          "clairvoyant:threshold:8@25s",
		"clairvoyant:threshold:8@10s":      "clairvoyant:threshold:8@10s",
		"clairvoyant:slackfit:0.9@1m30s,4": "clairvoyant:slackfit:0.9@90s,4",
		"clairvoyant:static:large@500ms":   "clairvoyant:static:large@500ms",
		"clairvoyant:clairvoyantly@2":      "", // a stored policy that is not there
		"clairvoyant:store:first@2@25s":    "",
		"clairvoyant:":                     "",
		"clairvoyant:clairvoyant:slackfit": "",
		"clairvoyant:threshold:8@25s,many": "",
		"clairvoyant:threshold:8@25s,2,3":  "",
		"clairvoyant:static:none":          "",
	} {
		if !IsClairvoyant(ref) {
			t.Errorf("%s is no clairvoyant", ref)
		}
		c, err := clairvoyantContestant(s, &Source{Store: &checkpoints.Store{Path: t.TempDir() + "/none.db"}}, ref, nil)
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
	base, o, err := parseClairvoyant("clairvoyant:store:first@2@25s,3")
	if err != nil || base != "store:first@2" || o.Horizon != 25*time.Second || o.Passes != 3 {
		t.Errorf("%s, %+v, %v", base, o, err)
	}
	if IsClairvoyant("threshold:8") || IsClairvoyant("clairvoyance") {
		t.Error("another policy is taken for a clairvoyant")
	}
}
