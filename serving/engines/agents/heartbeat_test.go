package agents

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestRegistrationsAreChecked(t *testing.T) {
	good := Registration{Version: "1.2.0", Protocol: Protocol, Incarnation: 7, URL: "http://10.0.0.7:9001", Loaded: []string{"tiny"}}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(r *Registration){
		`protocol: the agent, of version "1.2.0", speaks 1 and this router 2; run the same version of gearshift on both`: func(r *Registration) { r.Protocol, r.URL = 1, "" },
		"incarnation: 0; want":           func(r *Registration) { r.Incarnation = 0 },
		`url: "10.0.0.7:9001"`:           func(r *Registration) { r.URL = "10.0.0.7:9001" },
		"term: 4294967295; want at most": func(r *Registration) { r.Term = 1<<32 - 1 },
		"memory: -1":                     func(r *Registration) { r.Memory = -1 },
		"loaded: a model's":              func(r *Registration) { r.Loaded = []string{""} },
	} {
		r := good
		change(&r)
		if err := r.Validate(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A heartbeat without news is told from one by which no model is loaded any more.
func TestHeartbeatsThatHaveNoNews(t *testing.T) {
	none := []string{}
	for want, b := range map[string]Pulse{
		`{"incarnation":7,"sequence":1}`:             {Incarnation: 7, Sequence: 1},
		`{"incarnation":7,"sequence":2,"loaded":[]}`: {Incarnation: 7, Sequence: 2, Loaded: &none},
	} {
		text, err := json.Marshal(b)
		if err != nil || string(text) != want {
			t.Errorf("%s, %v; want %s", text, err, want)
		}
	}
}

func TestPaths(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{HeartbeatPath("a/b"), "/admin/agents/a%2Fb/heartbeat"},
		{ModelPath("org/tiny"), "/admin/models/org%2Ftiny"},
	} {
		if c.got != c.want {
			t.Errorf("%s, want %s", c.got, c.want)
		}
	}
}
