package loadgen

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestVerdict(t *testing.T) {
	for want, r := range map[string]ReplayReport{
		"it keeps up: 100.0 % of 300 requests were answered in time, for a utility of 0.950 each": {
			Requests: 300, Completed: 300, DeadlineMet: 1, Utility: 0.95},
		"it keeps up: 99.0 % of 300 requests were answered in time, for a utility of 0.950 each; doubtful: this client itself sent up to 180 ms late": {
			Requests: 300, Completed: 300, DeadlineMet: 0.99, Utility: 0.95, LateMS: 180},
		"it falls behind at times: 95.0 % of 300 requests were answered in time, for a utility of 0.900 each; 3 failed (2 × status 429, 1 × timeout)": {
			Requests: 300, Completed: 297, DeadlineMet: 0.95, Utility: 0.9, Errors: map[string]int{"status 429": 2, "timeout": 1}},
		"it does not keep up: 40.0 % of 300 requests were answered in time, for a utility of 0.300 each": {
			Requests: 300, Completed: 300, DeadlineMet: 0.4, Utility: 0.3, LateMS: 90},
		"no answer: none of 5 requests was answered (5 × cannot connect)": {
			Requests: 5, Errors: map[string]int{"cannot connect": 5}},
	} {
		if got := r.Verdict(); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}

// A router of another scenario is told before anything is sent to it.
func TestRoutersOfAnotherScenarioAreRefused(t *testing.T) {
	for _, c := range []struct {
		tasks, variants string
		requests        int
		want            string
	}{
		{"patient", "small", 2, `it has no task "hasty" of the scenario; it has patient: give the scenario that it serves`},
		{"patient,hasty,other", "small,huge", 2, `it serves the size "huge", which the scenario does not have`},
		{"patient,hasty,other", "small,large", 2, ""},
		{"patient,hasty", "large", 2, ""},
		{"patient", "large", 1, ""}, // none of the other task is sent
	} {
		asked := 0
		named := func(list string) string {
			return `[{"name":"` + strings.ReplaceAll(list, ",", `"},{"name":"`) + `"}]`
		}
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/models":
				fmt.Fprint(w, `{"data":[{"id":"auto"}]}`)
			case "/v1/gearshift/status":
				fmt.Fprintf(w, `{"policy":"slackfit:0.93","tasks":%s,"variants":%s}`, named(c.tasks), named(c.variants))
			default:
				asked++
				stream(w, "large", 1, done)
			}
		}))
		defer server.Close()
		r, err := Replay(t.Context(), ReplayConfig{URL: server.URL, Table: testTable(t), Requests: arrivals(c.requests)})
		switch {
		case c.want == "" && (err != nil || r.Completed != c.requests || r.Policy != "slackfit:0.93"):
			t.Errorf("%s, %s: %v, %+v", c.tasks, c.variants, err, r)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || asked > 0):
			t.Errorf("%s, %s: %v after %d requests, want %s", c.tasks, c.variants, err, asked, c.want)
		}
	}
}
