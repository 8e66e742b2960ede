package classifier

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// infer sends a request of the Open Inference Protocol.
func infer(t *testing.T, e *Engine, body string) (int, string) {
	t.Helper()
	response, err := e.RoundTrip(httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/m/infer", strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// list is so many numbers, the first of which is given.
func list(first float64, n int) string {
	return fmt.Sprintf("[%v%s]", first, strings.Repeat(",0", n-1))
}

func tensor(name, datatype, shape, data string) string {
	return fmt.Sprintf(`{"name":%q,"datatype":%q,"shape":%s,"data":%s}`, name, datatype, shape, data)
}

// The logits of the fake are the row's first token, pixel and sample.
func TestInfer(t *testing.T) {
	e := start(t, &fake{}, config())
	image := tensor("pixel_values", "FP32", "[2,3,4,4]", "["+list(0.5, 48)+","+list(0.25, 48)+"]")
	ids := tensor("input_ids", "INT64", "[2,3]", "[7,1,2, 8,0,0]")
	for _, c := range []struct{ inputs, want string }{
		{ids, "[7,0,0,8,0,0]"},
		{ids + "," + image, "[7,5,0,8,2.5,0]"},
		{ids + "," + image + "," + tensor("modality_mask", "FP32", "[2,3]", "[[1,0,0],[0,1,0]]"), "[7,0,0,0,2.5,0]"},
		{ids + "," + image + "," + tensor("attention_mask", "INT64", "[2,3]", "[[1,1,0],[0,0,0]]"), "[7,5,0,0,2.5,0]"},
		{tensor("input_values", "FP32", "[1,10]", list(1, 10)), "[0,0,10]"},
	} {
		status, text := infer(t, e, `{"id":"seven","inputs":[`+c.inputs+`],"outputs":[{"name":"logits"}]}`)
		var answer struct {
			Model   string `json:"model_name"`
			ID      string
			Outputs []struct {
				Name, Datatype string
				Shape          []int
				Data           json.RawMessage
			}
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK || answer.ID != "seven" || answer.Model != config().Name || len(answer.Outputs) != 1 {
			t.Fatalf("%s: %d %s", c.inputs, status, text)
		}
		o := answer.Outputs[0]
		if string(o.Data) != c.want || o.Name != "logits" || o.Datatype != "FP32" || len(o.Shape) != 2 || o.Shape[1] != 3 {
			t.Errorf("%s: %s; want the data %s", c.inputs, text, c.want)
		}
	}
	if status, text := infer(t, e, `{"inputs":[`+tensor("text", "BYTES", "[2]", `["word","x"]`)+`]}`); status != http.StatusOK || !strings.Contains(text, `"shape":[2,3]`) {
		t.Errorf("text: %d %s", status, text)
	}
}

// Each fault is one line that says what would be right.
func TestInferRefuses(t *testing.T) {
	e := start(t, &fake{}, config())
	ids := tensor("input_ids", "INT64", "[1,3]", "[7,1,2]")
	for body, want := range map[string]string{
		`{`:             "no inference request",
		`{"inputs":[]}`: "nothing to classify",
		`{"inputs":[` + ids + `],"parameters":{"priority":1}}`:                                   `unknown parameter "priority"`,
		`{"inputs":[` + ids + `],"outputs":[{"name":"probs"}]}`:                                  `no output "probs"; it has ["logits"]`,
		`{"inputs":[` + ids + `,` + ids + `]}`:                                                   `"input_ids" is there twice`,
		`{"inputs":[` + tensor("ids", "INT64", "[1]", "[1]") + `]}`:                              `no input "ids"; it has ["text"`,
		`{"inputs":[` + tensor("input_ids", "INT32", "[1,1]", "[1]") + `]}`:                      `the type "INT32"; want INT64`,
		`{"inputs":[` + tensor("input_ids", "INT64", "[3]", "[1,2,3]") + `]}`:                    `the shape [3]; want [-1 -1]`,
		`{"inputs":[` + tensor("input_ids", "INT64", "[1,0]", "[]") + `]}`:                       `the shape [1 0]; want`,
		`{"inputs":[` + tensor("input_ids", "INT64", "[1,2]", "[1]") + `]}`:                      "another number of elements than its shape, 2",
		`{"inputs":[` + tensor("input_ids", "INT64", "[1,1]", "[1,2]") + `]}`:                    "another number of elements than its shape, 1",
		`{"inputs":[` + tensor("input_ids", "INT64", "[1,2]", `[1,"a"]`) + `]}`:                  "element 1 of its data, a, is not of its type",
		`{"inputs":[` + tensor("input_ids", "INT64", "[1,2]", `[1,1.5]`) + `]}`:                  "element 1 of its data, 1.5",
		`{"inputs":[` + tensor("input_ids", "INT64", "[1,1]", "[-1]") + `]}`:                     "token -1; want 0 to",
		`{"inputs":[` + tensor("input_ids", "INT64", "[99999999,99999999]", "[1]") + `]}`:        "the shape",
		`{"inputs":[` + tensor("pixel_values", "FP32", "[1,3,4,5]", "[0]") + `]}`:                "want [-1 3 4 4]",
		`{"inputs":[` + tensor("input_values", "FP32", "[1,10]", list(1e39, 10)) + `]}`:          "element 0 of its data, 1e+39",
		`{"inputs":[` + ids + `,` + tensor("input_values", "FP32", "[2,10]", list(0, 20)) + `]}`: `"input_values" has 2 rows, and input "input_ids" has 1`,
		`{"inputs":[` + ids + `,` + tensor("text", "BYTES", "[1]", `["a"]`) + `]}`:               "exclude each other",
		`{"inputs":[` + ids + `,` + tensor("attention_mask", "INT64", "[1,3]", "[0,1,1]") + `]}`: "want ones, and zeros after them",
		`{"inputs":[` + ids + `,` + tensor("attention_mask", "INT64", "[1,3]", "[0,0,0]") + `]}`: "row 0 has no text",
		`{"inputs":[` + ids + `,` + tensor("modality_mask", "FP32", "[1,3]", "[1,1,0]") + `]}`:   "the row has no image",
		`{"inputs":[` + ids + `,` + tensor("modality_mask", "FP32", "[1,3]", "[0.5,0,0]") + `]}`: "0.5; want 0 or 1",
		`{"inputs":[` + tensor("input_ids", "INT64", "[1,400]", list(1, 400)) + `]}`:             "longer than the context",
	} {
		status, text := infer(t, e, body)
		var fault struct{ Error string }
		if err := json.Unmarshal([]byte(text), &fault); err != nil || status != http.StatusBadRequest || !strings.Contains(fault.Error, want) || strings.Contains(fault.Error, "\n") {
			t.Errorf("%.120s: %d %s; want %q", body, status, text, want)
		}
	}
}

// A request of very many rows is refused before anything is computed.
func TestInferTakesSoManyRows(t *testing.T) {
	e := start(t, &fake{}, config())
	n := maxRows + 1
	ids := tensor("input_ids", "INT64", fmt.Sprintf("[%d,1]", n), list(7, n))
	status, text := infer(t, e, `{"inputs":[`+ids+`]}`)
	if status != http.StatusBadRequest || !strings.Contains(text, "4097 rows; at most 4096") {
		t.Errorf("%d %s", status, text)
	}
}
