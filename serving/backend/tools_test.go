package backend

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"gearshift/router/profile"
)

const offer = `"tools":[
	{"type":"custom","custom":{"name":"odd"}},
	{"type":"function","function":{"name":"turn","parameters":{"type":"object","properties":{
		"gear":{"type":"string"},"way":{"enum":["left","right"]},"teeth":{"type":["integer","null"]},"loud":{"type":"boolean"},
		"at":{"type":"array","items":{"type":"number"}},"é":{"type":"object","properties":{"deep":{"const":7}}},"any":{}}}}},
	{"type":"function","function":{"name":"stop"}}]`

const turned = `{"gear":"gear","way":"left","teeth":1,"loud":true,"at":[1],"é":{"deep":7},"any":{}}`

func TestToolsAreCalledWhereTheyMust(t *testing.T) {
	s := simulated(t, profile.Profile{Overhead: 1}, profile.Profile{Overhead: 1})
	defer s.Close()
	for choice, want := range map[string][2]string{
		`"required"`: {"turn", turned},
		`{"type":"function","function":{"name":"stop"}}`: {"stop", "{}"},
		`"auto"`: {}, `"none"`: {}, `null`: {}, `{"type":"allowed_tools"}`: {},
	} {
		_, text := answer(t, s.Replica(0), ChatPath, `{`+hello+`,`+offer+`,"tool_choice":`+choice+`}`)
		c := decode(t, text).Choices[0]
		if want[0] == "" {
			if c.Message.ToolCalls != nil || c.Message.Content == nil || *c.Message.Content == "" || c.FinishReason != "stop" {
				t.Errorf("tool_choice %s: %s", choice, text)
			}
			continue
		}
		if c.FinishReason != "tool_calls" || len(c.Message.ToolCalls) != 1 || !strings.Contains(text, `"content":null`) {
			t.Fatalf("tool_choice %s: %s", choice, text)
		}
		call := c.Message.ToolCalls[0]
		if call.Function.Name != want[0] || call.Function.Arguments != want[1] || call.ID == "" || call.Type != "function" {
			t.Errorf("tool_choice %s: %+v", choice, call)
		}
	}
}

func TestCallsStreamInPieces(t *testing.T) {
	s := simulated(t, profile.Profile{Overhead: 1}, profile.Profile{Overhead: 1})
	defer s.Close()
	_, text := answer(t, s.Replica(0), ChatPath, `{`+hello+`,`+offer+`,"tool_choice":"required","stream":true}`)
	all, done := decodeEvents(t, text)
	if !done || len(all) != 1+drawn+1 {
		t.Fatalf("%d events, done %v: %s", len(all), done, text)
	}
	var arguments string
	for i, a := range all[:len(all)-1] {
		call := a.Choices[0].Delta.ToolCalls[0]
		if *call.Index != 0 || (call.ID != "") != (i == 0) || (call.Function.Name == "turn") != (i == 0) {
			t.Errorf("event %d of %s", i, text)
		}
		arguments += call.Function.Arguments
	}
	if arguments != turned || all[len(all)-1].Choices[0].FinishReason != "tool_calls" {
		t.Errorf("arguments %s, last event of %s", arguments, text)
	}
}

func TestToolChoicesAtFault(t *testing.T) {
	s := simulated(t, profile.Profile{Overhead: 1}, profile.Profile{Overhead: 1})
	defer s.Close()
	for rest, want := range map[string]string{
		`"tool_choice":"required"`:                                             "no function to call",
		`"tool_choice":"required","tools":[]`:                                  "no function to call",
		`"tool_choice":"must",` + offer:                                        "must be",
		`"tool_choice":7,` + offer:                                             "must be",
		`"tool_choice":"required","tools":"x"`:                                 "must be a list",
		`"tool_choice":{"type":"function","function":{"name":"fly"}},` + offer: `\"fly\"`,
		`"tool_choice":{"type":"function"},` + offer:                           "must be",
	} {
		if status, text := answer(t, s.Replica(0), ChatPath, `{`+hello+`,`+rest+`}`); status != http.StatusBadRequest || !strings.Contains(text, want) {
			t.Errorf("%s: status %d, %s", rest, status, text)
		}
	}
	// A schema without end gets an answer all the same.
	deep := strings.Repeat(`{"type":"object","properties":{"x":`, 100) + `1` + strings.Repeat(`}}`, 100)
	if status, text := answer(t, s.Replica(0), ChatPath, `{`+hello+`,"tool_choice":"required","tools":[{"function":{"name":"f","parameters":`+deep+`}}]}`); status != http.StatusOK {
		t.Errorf("status %d, %s", status, text)
	}
}

// FuzzOrder holds that a body is refused in words, or becomes work that has an
// end and, where a tool is to be called, JSON for it.
func FuzzOrder(f *testing.F) {
	for _, b := range []string{
		`{` + hello + `,"max_tokens":3,"ignore_eos":true}`, `{"prompt":[1,2]}`, `{` + hello + `,` + offer + `,"tool_choice":"required"}`,
		`{` + hello + `,"n":2}`, `{"messages":[]}`, `{"prompt":"x","max_tokens":0}`, `{` + hello + `,"tools":[{"function":{"name":"x","parameters":{"enum":[1 ,2]}}}],"tool_choice":{"type":"function","function":{"name":"x"}}}`,
	} {
		f.Add([]byte(b), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		r := &replica{host: newHost(time.Time{}, nil, func(*rand.Rand) int { return drawn }), model: "small"}
		o, j, fault := r.order(body, chat)
		if fault != nil {
			if fault.Message == "" || fault.Code == "" || j != nil {
				t.Errorf("%q: %+v", body, fault)
			}
			return
		}
		if j.prompt < 1 || j.output < 1 || o.call != nil && !json.Valid([]byte(o.call.Arguments)) {
			t.Errorf("%q: %+v, call %+v", body, j, o.call)
		}
	})
}
