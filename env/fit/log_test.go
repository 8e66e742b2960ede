package fit

import (
	"bytes"
	"math"
	"strings"
	"testing"
)

const good = `{"request_id":"a","input_toks":10,"output_toks":5,"arrival_time":1000.0,"queued_ts":1.0,"scheduled_ts":1.1,"first_token_ts":1.2,"last_token_ts":1.6}`

// Each fault is one line with the file, the line and what is wrong.
func TestFaultsOfALogAreNamed(t *testing.T) {
	swap := func(old, new string) string { return good + "\n" + strings.Replace(good, old, new, 1) }
	for _, c := range []struct{ name, log, want string }{
		{"empty", "", "x.jsonl: no requests"},
		{"no JSON", good + "\n{", "x.jsonl:2: not a JSON object"},
		{"an array", "[]", "x.jsonl:1: not a JSON object"},
		{"missing", swap(`"first_token_ts":1.2,`, ""), "x.jsonl:2: field first_token_ts is missing"},
		{"null", swap(`"last_token_ts":1.6`, `"last_token_ts":null`), "x.jsonl:2: field last_token_ts is missing"},
		{"text", swap(`"arrival_time":1000.0`, `"arrival_time":"noon"`), `x.jsonl:2: arrival_time: "noon" is not a number`},
		{"lines", swap(`"arrival_time":1000.0`, `"arrival_time":["a\nb"]`), "x.jsonl:2: arrival_time: "},
		{"negative", swap(`"arrival_time":1000.0`, `"arrival_time":-1`), "x.jsonl:2: arrival_time: -1 is negative"},
		{"fewer than no tokens", swap(`"output_toks":5`, `"output_toks":-5`), "x.jsonl:2: output_toks: -5 is negative"},
		{"no requests but failed ones", strings.Replace(good, `"output_toks":5`, `"output_toks":0`, 1), "x.jsonl: no requests; want some that did not fail, all 1 did"},
		{"too few columns", "id,input_toks,output_toks,arrival_time,first_token_ts,last_token_ts\na,1,2,3,4,5\nb,1,2,3,4", "x.jsonl:3: 5 columns; want 6"},
		{"half a token", swap(`"input_toks":10`, `"input_toks":1.5`), "x.jsonl:2: input_toks: 1.5 is not a whole number"},
		{"backwards", swap(`"first_token_ts":1.2`, `"first_token_ts":0.5`), "x.jsonl:2: first_token_ts 0.5 lies before scheduled_ts 1.1"},
		{"a text", good + "\n" + `{"prompt":"` + strings.Repeat("x", maxRow) + `"}`, "x.jsonl:2: the line is longer than 1048576 bytes"},
		{"at once", swap(`"last_token_ts":1.6`, `"last_token_ts":1.2`), "x.jsonl:2: first_token_ts and last_token_ts are the same"},
	} {
		_, err := ReadLog(strings.NewReader(c.log), "x.jsonl", 0)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

// A fault is told in the log's own words.
func TestFaultsNameTheLogsOwnKeys(t *testing.T) {
	const plain = `{"prompt_tokens":8,"completion_tokens":2,"arrival":3,"first_token":4,"last_token":4.5}`
	for _, c := range []struct{ old, new, want string }{
		{`"completion_tokens":2`, `"completion_tokens":0.5`, "x:1: completion_tokens: 0.5 is not a whole number"},
		{`"last_token":4.5`, `"last_token":3.5`, "x:1: last_token 3.5 lies before first_token 4"},
		{`"last_token":4.5`, `"last_token":4`, "x:1: first_token and last_token are the same"},
		{`"first_token":4,`, `"queued":4.2,"scheduled":4.1,"first_token":4.3,`, "x:1: scheduled 4.1 lies before queued 4.2"},
		{`"arrival":3`, `"arrival":4`, "x:1: first_token is the same as the arrival"},
		{`"arrival":3`, `"arrival":1000`, "x:1: first_token is on another clock than the arrival, and neither queued_ts nor scheduled_ts says"},
	} {
		_, err := ReadLog(strings.NewReader(strings.Replace(plain, c.old, c.new, 1)), "x", 0)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want %q", err, c.want)
		}
	}
}

// Other names, no engine's times, rows in any order and one clock will do.
func TestALogMayBePlain(t *testing.T) {
	text := `{"prompt_tokens":7,"completion_tokens":1,"arrival":5,"first_token":6,"last_token":6}` + "\n \t\n" + `{"prompt_tokens":8,"completion_tokens":2,"arrival":3,"first_token":4,"last_token":4.5}`
	log, err := ReadLog(strings.NewReader(text), "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	want := Request{PromptTokens: 7, OutputTokens: 1, Arrival: 2, First: 3, Last: 3, Scheduled: 2}
	if len(log.Requests) != 2 || log.Requests[1] != want {
		t.Errorf("%+v, want last %+v", log.Requests, want)
	}
}

// Clocks that differ are laid together by the rows that tell when the engine had them,
// whichever those are.
func TestClocksAreLaidTogether(t *testing.T) {
	text := `{"prompt_tokens":8,"completion_tokens":2,"arrival":1000,"first_token":7.25,"last_token":8}
{"prompt_tokens":8,"completion_tokens":2,"arrival":1002,"scheduled":8.5,"first_token":9.5,"last_token":10}
{"prompt_tokens":8,"completion_tokens":2,"arrival":1004,"queued":10,"first_token":11.25,"last_token":12}`
	log, err := ReadLog(strings.NewReader(text), "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, ttft := range []float64{1.25, 1.5, 1.25} { // arrivals are at 6, 8 and 10
		if r := log.Requests[i]; r.Arrival != float64(2*i) || r.TTFT() != ttft {
			t.Errorf("request %d: %+v, want an arrival at %d and a first token after %v", i, r, 2*i, ttft)
		}
	}
}

// FuzzReadLog: whatever the bytes, they are refused in one line, or are requests by
// arrival, the times of each one after another.
func FuzzReadLog(f *testing.F) {
	f.Add([]byte(good+"\n"+good), 0)
	f.Add([]byte(`{"id":7,"prompt_tokens":8,"completion_tokens":2,"arrival":3,"first_token":4,"last_token":4.5}`), 1)
	f.Add([]byte("id,input_tokens,output_tokens,arrival,first_token,last_token,error\na,41,59.0,100.5,101.5,105.5,\nb,12,3,101,,,timeout\n"), 0)
	f.Add([]byte(`{"input_toks":"8","output_toks":2e0,"arrival_time":"2024-11-07T17:20:00.5Z","first_token_ts":"2024-11-07 17:20:01+00","last_token_ts":1731000001562}`), 0)
	f.Add([]byte("\x1f\x8b\x08"), 0)
	f.Fuzz(func(t *testing.T, text []byte, clock int) {
		log, err := ReadLog(bytes.NewReader(text), "x", clock)
		if err != nil {
			if strings.Contains(err.Error(), "\n") || !strings.HasPrefix(err.Error(), "x:") {
				t.Errorf("error %q", err)
			}
			return
		}
		before := 0.0
		for _, r := range log.Requests {
			if r.PromptTokens < 1 || r.OutputTokens < 1 || !(r.Arrival >= before) || !(r.Scheduled >= r.Arrival) || !(r.First > r.Arrival) || !(r.Last >= r.First) || math.IsInf(r.Last, 1) {
				t.Fatalf("after an arrival at %v comes %+v", before, r)
			}
			before = r.Arrival
		}
	})
}

func TestTooFewRequests(t *testing.T) {
	log, err := ReadLog(strings.NewReader(strings.Repeat(good+"\n", Fewest-1)), "x", 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Fit(log, len(log.Requests), Options{}); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Errorf("error %v, want one of too few requests", err)
	}
	if _, err := Fit(log, 2*Fewest, Options{}); err == nil || !strings.Contains(err.Error(), "fewer") {
		t.Errorf("error %v, want one of fewer requests", err)
	}
}
