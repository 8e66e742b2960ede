package classifier

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gearshift/serving/backend"
	"gearshift/serving/openai/inference"
)

// TestLists: a list of inputs is answered in its order, each with what it was answered from, and
// is computed together.
func TestLists(t *testing.T) {
	f := &fake{step: make(chan struct{}, 9)}
	for range 9 {
		f.step <- struct{}{}
	}
	e := start(t, f, config())
	status, text := ask(t, e, fmt.Sprintf(`{"inputs": [{"input": "hello"}, {"image": %q}, {"image": %q, "input": "hello"}]}`, white(t, 3, 3), white(t, 3, 3)))
	var a backend.Classification
	if err := json.Unmarshal([]byte(text), &a); err != nil || status != 200 || len(a.Data) != 3 || a.Modalities != nil {
		t.Fatalf("%d %s", status, text)
	}
	for i, want := range []string{"text [text]", "image [image]", "text [text image]"} {
		if got := fmt.Sprint(a.Data[i].Label, " ", a.Data[i].Modalities); got != want || a.Data[i].Index != i || len(a.Data[i].Probs) != 3 {
			t.Errorf("input %d: %s, index %d; want %s", i, got, a.Data[i].Index, want)
		}
	}
	if f.widest != 3 || a.Usage.Total != a.Usage.Prompt || a.Usage.Prompt == 0 {
		t.Errorf("at most %d at once, usage %+v", f.widest, a.Usage)
	}
}

// TestBadLists: what is wrong with an input names which one it is.
func TestBadLists(t *testing.T) {
	e := start(t, &fake{}, config())
	for body, want := range map[string]string{
		`{"inputs": []}`:                                      `\"inputs\" is empty`,
		`{"inputs": [{"input": "a"}, {}]}`:                    `"param":"inputs[1].input"`,
		`{"inputs": [{"input": "a"}], "input": "a"}`:          "one or the other",
		`{"inputs": [{"image": "aGk="}]}`:                     `"param":"inputs[0].image"`,
		`{"inputs": {"input": "a"}}`:                          "must be a list",
		`{"inputs": [` + strings.Repeat("{},", 4096) + `{}]}`: "4097 inputs; at most 4096",
	} {
		if status, text := ask(t, e, body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%.60s: %d %s; want %s", body, status, text, want)
		}
	}
}

// binaryBody is a request with binary tensors, as tritonclient sends it, and the length of its
// JSON.
func binaryBody(parameters string, names []string, types []string, shapes []string, data ...[]byte) (body string, length int) {
	var inputs []string
	for i := range names {
		inputs = append(inputs, fmt.Sprintf(`{"name":%q,"datatype":%q,"shape":%s,"parameters":{"binary_data_size":%d}}`, names[i], types[i], shapes[i], len(data[i])))
	}
	body = `{"inputs":[` + strings.Join(inputs, ",") + `],"parameters":{` + parameters + `}}`
	length = len(body)
	for _, d := range data {
		body += string(d)
	}
	return body, length
}

func floats(values ...float32) (b []byte) {
	for _, x := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return b
}

// inferBinary sends a request with binary tensors.
func inferBinary(t *testing.T, e *Engine, body string, length int) (*http.Response, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v2/models/m/infer", strings.NewReader(body))
	r.Header.Set(inference.HeaderLength, strconv.Itoa(length))
	response, err := e.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(text)
}

// TestInferBinary: binary tensors are read, and the logits come as such where that is asked for.
func TestInferBinary(t *testing.T) {
	e := start(t, &fake{}, config())
	sound := floats(make([]float32, 20)...)
	copy(sound[40:], floats(0.5))
	text := []byte("\x05\x00\x00\x00hello\x00\x00\x00\x00")
	body, length := binaryBody(`"binary_data_output":true`, []string{"input_values", "text"}, []string{"FP32", "BYTES"}, []string{"[2,10]", "[2]"}, sound, text)
	response, got := inferBinary(t, e, body, length)
	a, err := inference.ReadAnswer(response.Header, []byte(got))
	if err != nil || response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/octet-stream" {
		t.Fatalf("%v, %d %s", err, response.StatusCode, got)
	}
	o := a.Output("logits")
	if o == nil || !o.Binary || len(o.Data) != 24 || string(o.Data[20:]) != string(floats(5)) {
		t.Errorf("logits %+v; want 5 for the second row's sound", o)
	}
	body, length = binaryBody("", []string{"input_values"}, []string{"FP32"}, []string{"[2,10]"}, sound)
	if response, got = inferBinary(t, e, body, length); response.Header.Get(inference.HeaderLength) != "" || !strings.Contains(got, `"data":[0,0,0,0,0,5]`) {
		t.Errorf("without binary_data_output: %s", got)
	}
	body, length = binaryBody("", []string{"input_values"}, []string{"FP32"}, []string{"[1,10]"}, floats(0, 0, 0, float32(math.NaN()), 0, 0, 0, 0, 0, 0))
	if response, got = inferBinary(t, e, body, length); response.StatusCode != 400 || !strings.Contains(got, "element 3 of its data, NaN, is no finite number") {
		t.Errorf("a number that is none: %d %s", response.StatusCode, got)
	}
	body, length = binaryBody("", []string{"input_values"}, []string{"FP32"}, []string{"[1,10]"}, floats(1, 2))
	if response, got = inferBinary(t, e, body, length); response.StatusCode != 400 || !strings.Contains(got, "has 8 bytes; its shape [1 10] and type FP32 need 40") {
		t.Errorf("too few bytes: %d %s", response.StatusCode, got)
	}
}
