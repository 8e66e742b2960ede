package inference

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

func header(length int) http.Header {
	h := http.Header{}
	if length >= 0 {
		h.Set(HeaderLength, strconv.Itoa(length))
	}
	return h
}

// TestRowsAreCut: in each form a tensor may have, its rows are cut and put together again.
func TestRowsAreCut(t *testing.T) {
	for _, c := range []struct {
		datatype, shape, data string
		binary                bool
		rows, swapped         string
	}{
		{"FP32", "[2,2]", `[1, 2.5, 3,4]`, false, "1, 2.5|3,4", "[3,4,1, 2.5]"},
		{"FP32", "[2,2]", `[[1,2], [3,4]]`, false, "[1,2]|[3,4]", "[[3,4],[1,2]]"},
		{"FP32", "[2,1,2]", `[[[1,2]], [[3,4]]]`, false, "[[1,2]]|[[3,4]]", "[[[3,4]],[[1,2]]]"},
		{"BYTES", "[2]", `["a,]b", "c\""]`, false, `"a,]b"|"c\""`, `["c\"","a,]b"]`},
		{"BOOL", "[2,1]", `[true,false]`, false, "true|false", "[false,true]"},
		{"INT16", "[2,2]", "aabbccdd", true, "aabb|ccdd", "ccddaabb"},
		{"BYTES", "[2,1]", "\x01\x00\x00\x00a\x00\x00\x00\x00", true, "\x01\x00\x00\x00a|\x00\x00\x00\x00", "\x00\x00\x00\x00\x01\x00\x00\x00a"},
	} {
		tensor := Tensor{Name: "x", Datatype: c.datatype, Data: []byte(c.data), Binary: c.binary}
		if err := json.Unmarshal([]byte(c.shape), &tensor.Shape); err != nil {
			t.Fatal(err)
		}
		rows, err := tensor.Cut()
		if err != nil {
			t.Errorf("%q: %v", c.data, err)
			continue
		}
		var texts []string
		for _, r := range rows {
			texts = append(texts, string(r))
		}
		if got := strings.Join(texts, "|"); got != c.rows {
			t.Errorf("%q is cut into %q; want %q", c.data, got, c.rows)
		}
		swapped := tensor.With([][]byte{rows[1], rows[0]})
		if string(swapped.Data) != c.swapped || fmt.Sprint(swapped.Shape) != fmt.Sprint(tensor.Shape) {
			t.Errorf("%q swapped is %q of %v; want %q", c.data, swapped.Data, swapped.Shape, c.swapped)
		}
		if one := tensor.With(rows[:1]); one.Rows() != 1 {
			t.Errorf("%q: one row is of the shape %v", c.data, one.Shape)
		}
	}
}

// TestRowsThatDoNotAddUp: each fault is said in a line that goes on from the tensor's name.
func TestRowsThatDoNotAddUp(t *testing.T) {
	for _, c := range []struct {
		datatype string
		shape    []int64
		data     string
		binary   bool
		want     string
	}{
		{"FP32", nil, "[1]", false, "has no dimensions"},
		{"FP12", []int64{1}, "[1]", false, `is of the unknown type "FP12"`},
		{"FP32", []int64{0}, "[]", false, "has the shape [0]; want dimensions from 1 on"},
		{"FP32", []int64{-1}, "[1]", false, "has the shape [-1]"},
		{"FP32", []int64{1 << 40, 1 << 40}, "[1]", false, "at most 2147483647 elements"},
		{"FP32", []int64{2, 2}, "[1,2,3]", false, "another number of elements than its shape [2 2], 4"},
		{"FP32", []int64{2, 2}, "[[1,2],[3]]", false, "another number of elements"},
		{"FP32", []int64{2, 2}, "[[1,2],[[[3]],4]]", false, "another number of elements"},
		{"FP32", []int64{2, 2}, "[1,[2],3,4]", false, "mixes lists and elements"},
		{"FP32", []int64{1}, `{"a":1}`, false, "has no list as data"},
		{"FP32", []int64{1 << 30}, "[1]", false, "another number of elements"},
		{"FP32", []int64{2, 2}, "123", true, "has 3 bytes; its shape [2 2] and type FP32 need 16"},
		{"BYTES", []int64{1}, "\x05\x00\x00\x00ab", true, "has a string of 5 bytes where only 2 are left"},
		{"BYTES", []int64{1}, "\xff\xff\xff\xffab", true, "has a string of 4294967295 bytes"},
		{"BYTES", []int64{2}, "\x01\x00\x00\x00abc", true, "has 7 bytes; its 2 strings need at least 8"},
		{"BYTES", []int64{2}, "\x02\x00\x00\x00ab\x00\x00", true, "ends before the length of a string"},
		{"BYTES", []int64{1}, "\x00\x00\x00\x00abc", true, "has 3 bytes after its 1 strings"},
		{"BYTES", []int64{1 << 30}, "\x00", true, "has 1 bytes"},
	} {
		tensor := Tensor{Datatype: c.datatype, Shape: c.shape, Data: []byte(c.data), Binary: c.binary}
		if _, err := tensor.Cut(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %v %q: %v; want %s", c.datatype, c.shape, c.data, err, c.want)
		}
	}
}

// TestBadRequests: what is wrong with a body, its sizes above all, is one clear line.
func TestBadRequests(t *testing.T) {
	const tensor = `{"name":"x","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}}`
	for _, c := range []struct {
		text, data string
		length     int // −1: no header; −2: that of the text
		want       string
	}{
		{`{`, "", -1, "is no inference request: unexpected end"},
		{`[]`, "", -1, "its JSON is no object"},
		{`{"inputs":3}`, "", -1, "inputs: want a list"},
		{`{"inputs":[3]}`, "", -1, "is no object"},
		{`{"inputs":[{"name":3}]}`, "", -1, "input 0: name: 3; want a string"},
		{`{"inputs":[{"name":"x","shape":["a"]}]}`, "", -1, "input 0: shape: [\"a\"]; want a list of whole numbers"},
		{`{"inputs":[{"name":"x"}]}`, "", -1, `input "x" has no data`},
		{`{"id":"a","id":"b"}`, "", -1, `the member "id" is there twice`},
		{`{"inputs":[{"name":"x","data":[1]},{"name":"x","data":[1]}]}`, "", -1, `input "x" is there twice`},
		{`{"outputs":[{"name":"y"},{"name":"y"}]}`, "", -1, `output "y" is there twice`},
		{`{"outputs":[{"name":"y","parameters":{"binary_data":1}}]}`, "", -1, "the parameter binary_data is 1; want true or false"},
		{`{"parameters":{"binary_data_output":"yes"}}`, "", -1, `the parameter binary_data_output is "yes"; want true or false`},
		{`{"inputs":[` + tensor + `]}`, "ab", -1, "invalid character"},
		{`{"inputs":[` + tensor + `]}`, "", -1, "without a header field Inference-Header-Content-Length"},
		{`{"inputs":[` + tensor + `]}`, "a", -2, "binary_data_size is 2, and 1 of the 1 bytes after the JSON are left"},
		{`{"inputs":[` + tensor + `]}`, "abc", -2, "3 bytes follow the JSON, and the tensors' binary_data_size add up to 2"},
		{`{"inputs":[]}`, "abc", -2, "3 bytes follow the JSON, and the tensors' binary_data_size add up to 0"},
		{`{"inputs":[` + tensor + `]}`, "ab", 5, "is no inference request"},
		{`{"inputs":[` + tensor + `]}`, "ab", 5000, `Inference-Header-Content-Length is "5000"; want the length of its JSON`},
		{`{"inputs":[{"name":"x","data":[1],"parameters":{"binary_data_size":1}}]}`, "a", -2, "both data and binary_data_size"},
		{`{"inputs":[{"name":"x","parameters":{"binary_data_size":-1}}]}`, "a", -2, "binary_data_size is -1; want a number of bytes"},
		{`{"inputs":[{"name":"x","parameters":{"binary_data_size":1e3}}]}`, "a", -2, "binary_data_size is 1e3"},
	} {
		length := c.length
		if length == -2 {
			length = len(c.text)
		}
		_, err := ReadRequest(header(length), []byte(c.text+c.data))
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s + %q: %v; want %s", c.text, c.data, err, c.want)
		}
	}
	many := strings.Repeat(`{"name":"%"},`, 300)
	for i := range 300 {
		many = strings.Replace(many, "%", strconv.Itoa(i), 1)
	}
	if _, err := ReadRequest(http.Header{}, []byte(`{"outputs":[`+strings.TrimSuffix(many, ",")+`]}`)); err == nil || !strings.Contains(err.Error(), "more than 256 outputs") {
		t.Errorf("very many outputs: %v", err)
	}
}

// TestWhatIsWrittenIsReadAgain: requests and answers of drawn tensors come out as they went in.
func TestWhatIsWrittenIsReadAgain(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	yes := true
	for range 50 {
		q := Request{ID: "seven", BinaryOutput: random.IntN(2) == 0, Parameters: map[string]json.RawMessage{"min_quality": json.RawMessage("0.5")}, Outputs: []Output{{Name: "a"}, {Name: "b", Binary: &yes}}}
		for i := range random.IntN(4) {
			x := Tensor{Name: strconv.Itoa(i), Datatype: "UINT8", Shape: []int64{3}, Data: []byte("[1,2,3]")}
			if random.IntN(2) == 0 {
				x.Data, x.Binary = []byte("abc"), true
			}
			q.Inputs = append(q.Inputs, x)
		}
		h := http.Header{}
		body, err := q.Write(h)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadRequest(h, body)
		if err != nil {
			t.Fatalf("%s: %v", body, err)
		}
		same := got.ID == q.ID && got.BinaryOutput == q.BinaryOutput && len(got.Inputs) == len(q.Inputs) && string(got.Parameters["min_quality"]) == "0.5" &&
			len(got.Parameters) == 1 && got.Wants("b") && got.Wants("a") == q.BinaryOutput
		for i := range got.Inputs {
			a, b := got.Inputs[i], q.Inputs[i]
			same = same && a.Name == b.Name && a.Binary == b.Binary && string(a.Data) == string(b.Data) && len(a.Parameters) == 0
		}
		if !same {
			t.Fatalf("%+v is read as %+v", q, got)
		}
		a := Answer{Model: "m", Version: "3", ID: "seven", Outputs: q.Inputs}
		if body, err = a.Write(h); err != nil {
			t.Fatal(err)
		}
		back, err := ReadAnswer(h, body)
		if err != nil || back.Model != "m" || back.Version != "3" || len(back.Outputs) != len(a.Outputs) {
			t.Fatalf("%s is read as %+v, %v", body, back, err)
		}
	}
}

// FuzzRequest: whatever the bytes, a request is read or refused, and what is read can be cut
// or is refused, and written.
func FuzzRequest(f *testing.F) {
	f.Add(`{"inputs":[{"name":"x","datatype":"UINT8","shape":[2],"parameters":{"binary_data_size":2}}]}`, "ab", 88)
	f.Add(`{"inputs":[{"name":"x","datatype":"FP32","shape":[2,1],"data":[[1],[2]]}]}`, "", -1)
	f.Add(`{"inputs":[{"name":"x","datatype":"BYTES","shape":[1],"parameters":{"binary_data_size":5}}],"outputs":[{"name":"y"}]}`, "\x01\x00\x00\x00a", 112)
	f.Fuzz(func(t *testing.T, text, data string, length int) {
		q, err := ReadRequest(header(length), []byte(text+data))
		if err != nil {
			return
		}
		for i := range q.Inputs {
			rows, err := q.Inputs[i].Cut()
			if err != nil {
				continue
			}
			again := q.Inputs[i].With(rows)
			if twice, err := again.Cut(); err != nil || len(twice) != len(rows) {
				t.Errorf("%+v: cut once more it has %d rows, %v; want %d", again, len(twice), err, len(rows))
			}
		}
		if _, err := q.Write(http.Header{}); err != nil {
			t.Errorf("what was read cannot be written: %v", err)
		}
	})
}
