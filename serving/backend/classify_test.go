package backend

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/profile"
	"gearshift/serving/openai/inference"
)

// TestSimulatedClassifiersTakeTheTimeOfABatch: a list is one batch of the profile's table, by
// either protocol, and the same input has the same label.
func TestSimulatedClassifiersTakeTheTimeOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, err := profile.NewBatches(map[string]map[int]float64{"": {1: 10, 4: 22}})
		if err != nil {
			t.Fatal(err)
		}
		s := simulated(t, profile.Profile{Batches: table}, ten)
		defer s.Close()
		start := time.Now()
		status, text := answer(t, s.Replica(0), ClassifyPath, `{"inputs":[{"input":"a"},{"image":"x","audio":"y"},{"input":"a"},{"video":"z"}]}`)
		var c Classification
		if err := json.Unmarshal([]byte(text), &c); err != nil || status != 200 || len(c.Data) != 4 {
			t.Fatalf("%d %s", status, text)
		}
		if took := time.Since(start); took != 22*time.Millisecond {
			t.Errorf("a batch of 4 took %v", took)
		}
		if c.Data[0].Label != c.Data[2].Label || strings.Join(c.Data[1].Modalities, " ") != "image audio" || c.Data[3].Index != 3 {
			t.Errorf("%s", text)
		}
		start = time.Now()
		if status, text = answer(t, s.Replica(0), ClassifyPath, `{"input":"a"}`); status != 200 || !strings.Contains(text, `"modalities":["text"]`) || time.Since(start) != 10*time.Millisecond {
			t.Errorf("one input: %d %s after %v", status, text, time.Since(start))
		}
		start = time.Now()
		status, text = answer(t, s.Replica(0), "/v2/models/m/infer", `{"inputs":[{"name":"image","datatype":"FP32","shape":[4,1],"data":[1,2,3,1]}]}`)
		a, err := inference.ReadAnswer(http.Header{}, []byte(text))
		if err != nil || status != 200 || a.Output("logits").Rows() != 4 || time.Since(start) != 22*time.Millisecond {
			t.Errorf("an inference: %d %s, %v after %v", status, text, err, time.Since(start))
		}
		response, err := s.Replica(0).RoundTrip(httptest.NewRequest(http.MethodGet, "/v2/models/small", http.NoBody))
		if err != nil {
			t.Fatal(err)
		}
		if described, err := io.ReadAll(response.Body); err != nil || response.StatusCode != 200 || !strings.Contains(string(described), `"name":"small"`) || !strings.Contains(string(described), "pixel_values") {
			t.Errorf("metadata: %v, %d %s", err, response.StatusCode, described)
		}
		for body, want := range map[string]string{
			`{"inputs":[]}`:                "want 1 to 4096",
			`{"inputs":[{"input":""}]}`:    "input 0: there is nothing to classify",
			`{"inputs":[{"imagine":"x"}]}`: "nothing to classify",
		} {
			if status, text := answer(t, s.Replica(0), ClassifyPath, body); status != 400 || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s", body, status, text)
			}
		}
		for body, want := range map[string]string{
			`{"inputs":[]}`: "there are 0 rows",
			`{"inputs":[{"name":"a","datatype":"FP32","shape":[2],"data":[1,2]},{"name":"b","datatype":"FP32","shape":[1],"data":[1]}]}`: `has 1 rows, and input \"a\" has 2`,
		} {
			if status, text := answer(t, s.Replica(0), "/v2/models/m/infer", body); status != 400 || !strings.Contains(text, want) {
				t.Errorf("%s: %d %s", body, status, text)
			}
		}
	})
}
