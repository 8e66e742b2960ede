package traces

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// rows writes requests at the times, each in the pattern, after a header if there is one.
func rows(header, pattern string, at ...any) string {
	var b strings.Builder
	b.WriteString(header)
	for _, x := range at {
		fmt.Fprintf(&b, pattern+"\n", x)
	}
	return b.String()
}

// TestUnits: times whose unit a trace does not name are read in the one that they show, and what is
// not sure is said.
func TestUnits(t *testing.T) {
	const moon, own = `{"timestamp": %v, "input_length": 5, "output_length": 6, "hash_ids": [0]}`, `{"timestamp": %v, "chat_id": 1, "turn": 1, "input_length": 5, "output_length": 6}`
	for name, c := range map[string]struct {
		text  string
		want  string // times since the start
		doubt string // how it begins
	}{
		"Mooncake":                 {rows("", moon, 0, 0, 3000), "0s 0s 3s", ""},
		"Mooncake as a table":      {rows("timestamp,input_length,output_length\n", "%v,5,6", 0, 1500, 3000), "0s 1.5s 3s", ""},
		"guidellm":                 {rows("", moon, "0.0", 0.2, 0.4, "1.0"), "0s 200ms 400ms 1s", "timestamp is read as seconds, 3 requests/s; if that is wrong, give the rate as @RATE"},
		"guidellm, whole at first": {rows("", moon, 0, 1, 2, 2.25), "0s 1s 2s 2.25s", "timestamp is read as seconds"},
		"guidellm as a table":      {rows("timestamp,input_length,output_length\n", "%v,5,6", 0, 0.25), "0s 250ms", "timestamp is read as seconds"},
		"Alibaba":                  {rows("", own, 61.114, 61.25), "1m1.114s 1m1.25s", ""},
		"Alibaba in whole seconds": {rows("", own, 61, 63), "1m1s 1m3s", ""},
		"close whole milliseconds": {rows("", moon, 0, 1, 2), "0s 1ms 2ms", "timestamp is read as milliseconds, 1e+03 requests/s"},
		"far fractions":            {rows("", moon, 0, 1500.5, 3000), "0s 1.5005s 3s", "timestamp is read as milliseconds, 0.667 requests/s"},
		"aiperf with fractions":    {rows("", `{"session_id": "%[1]v", "timestamp": %[1]v, "input_length": 5, "output_length": 6}`, 0, 20.5, 100.25), "0s 20.5ms 100.25ms", ""},
		"splitwise":                {rows("request_id,request_type,application_id,arrival_timestamp,batch_size,prompt_size,token_size\n", "0,2,0,%v,1,5,6", 0.155664, 1.896248), "155.664ms 1.896248s", ""},
		"BurstGPT":                 {rows("Timestamp,Model,Request tokens,Response tokens\n", "%v,GPT-4,5,6", 5, 45, 118), "5s 45s 1m58s", ""},
		"vidur in milliseconds":    {rows("arrived_at,num_prefill_tokens,num_decode_tokens\n", "%v,5,6", 0, 2000, 4000), "0s 33m20s 1h6m40s", "arrived_at is read as seconds, 0.0005 requests/s"},
		"a unit in the name":       {rows("arrival_ms,isl,osl\n", "%v,5,6", 0, 2.5), "0s 2.5ms", ""},
		"seconds in the name":      {rows("", `{"arrival_time_s": %v, "input_tokens": 5, "completion_tokens": 6}`, 0, 2), "0s 2s", ""},
		"another table":            {rows("id,arrival_time,prompt_len,output_len\n", "1,%v,5,6", 0, 0.5), "0s 500ms", "arrival_time is read as seconds, 2 requests/s"},
		"another, whole and far":   {rows("start_time,input_tokens,output_tokens\n", "%v,5,6", 0, 500), "0s 500ms", "start_time is read as milliseconds, 2 requests/s"},
		"another with dates":       {rows("start_time,input_tokens,output_tokens\n", "%v,5,6", "2024-05-10 00:00:00", "2024-05-10 00:00:02"), "0s 2s", ""},
		"another, since 1970":      {rows("timestamp,input_tokens,output_tokens\n", "%v,5,6", "1731000001500", "1731000004500"), "0s 3s", ""},
	} {
		name += ".txt"
		trace, err := (Reading{}).Read(name, strings.NewReader(c.text))
		if err != nil {
			t.Error(err)
			continue
		}
		var got []string
		for _, r := range trace.Records {
			got = append(got, r.At.String())
			if r.PromptTokens != 5 || r.OutputTokens != 6 {
				t.Errorf("%s: %+v", name, r)
			}
		}
		if got := strings.Join(got, " "); got != c.want || !strings.HasPrefix(trace.Doubt, c.doubt) || c.doubt == "" && trace.Doubt != "" {
			t.Errorf("%s: at %s, doubt %q; want %s, %q", name, got, trace.Doubt, c.want, c.doubt)
		}
	}
}

// TestSessions: turns of a session that have a delay in place of a time come that long after the turn
// before them, and all are in order of time.
func TestSessions(t *testing.T) {
	const text = `{"session_id": "a", "timestamp": 0, "input_length": 1, "output_length": 9}
{"session_id": "a", "delay": 2000, "input_length": 3, "output_length": 9}
{"session_id": "a", "input_length": 4, "output_length": 9}
{"session_id": "b", "timestamp": 500.5, "input_length": 2, "output_length": 9}
{"session_id": "b", "delay": 3000, "input_length": 5, "output_length": 9}
`
	const table = "session_id,timestamp,delay,input_length,output_length\na,0,,1,9\na,,2000,3,9\na,,,4,9\nb,500.5,,2,9\nb,,3000,5,9\n"
	const since1970 = `{"session_id": 7, "timestamp": 1731000000000, "input_length": 1, "output_length": 9}
{"session_id": 8, "timestamp": 1731000000500.5, "input_length": 2, "output_length": 9}
{"session_id": 7, "delay": 2000, "input_length": 3, "output_length": 9}
{"session_id": 7, "delay": 0, "input_length": 4, "output_length": 9}
{"session_id": 8, "delay": 3000, "input_length": 5, "output_length": 9}
`
	want := []time.Duration{0, 500500 * time.Microsecond, 2 * time.Second, 2 * time.Second, 3500500 * time.Microsecond}
	for _, text := range []string{text, table, since1970} {
		trace, err := (Reading{}).Read("sessions", strings.NewReader(text))
		if err != nil {
			t.Error(err)
			continue
		}
		for i, r := range trace.Records {
			if r.At != want[i] || r.PromptTokens != i+1 {
				t.Errorf("%.20s: request %d: %+v, want at %v", text, i, r, want[i])
			}
		}
		if len(trace.Records) != len(want) || !strings.HasPrefix(trace.Doubt, "turns without a time come") {
			t.Errorf("%d requests, doubt %q", len(trace.Records), trace.Doubt)
		}
	}
}
