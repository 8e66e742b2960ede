package jobs

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gearshift/serving/admission/limits"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/wire"
)

// TestDraftsOfVeryMany: of a plan for millions of inputs, or with millions of names, little is kept.
func TestDraftsOfVeryMany(t *testing.T) {
	s := serve(t, Config{}, &engine{})
	defer s.Close()
	for list, want := range map[string]string{
		"[" + strings.Repeat("[],", 100_000) + "[]]":                 "a job of 100001 inputs; at most 4096 are looked at",
		`[["image"` + strings.Repeat(`,"image"`, 100_000) + `]]`:     "",
		`[["image"` + strings.Repeat(`,"y"`, 100_000) + `]]`:         `digits takes no "y"`,
		"[" + strings.Repeat(`["image"],`, 9) + `["image","smell"]]`: `input 9: digits takes no "smell"`,
	} {
		var d Draft
		if err := json.Unmarshal([]byte(`{"task":"digits","inputs":`+list+`}`), &d); err != nil {
			t.Fatal(err)
		}
		if n := len(slices.Concat(d.Inputs.names...)); cap(d.Inputs.names) > 2*mostInputs || n > 2*mostNames {
			t.Errorf("%.30s…: %d lists and %d names are kept", list, cap(d.Inputs.names), n)
		}
		_, refused := s.Plan(Asked{Task: "digits"}, d)
		if refused == nil && want != "" || refused != nil && (want == "" || !strings.Contains(refused.Message, want)) {
			t.Errorf("%.30s…: %v; want %q", list, refused, want)
		}
	}
	for _, list := range []string{`{}`, `[1]`, `[["image",1]]`, `["image"]`} {
		if err := wire.Decode([]byte(`{"inputs":`+list+`}`), new(Draft), true); err == nil || !strings.Contains(err.Error(), `"inputs" must be a list of lists`) {
			t.Errorf("%s: %v", list, err)
		}
	}
}

// wide is a request with so many tensors of so many rows, each of a byte.
func wide(tensors, rows int) *inference.Request {
	q := &inference.Request{}
	for i := range tensors {
		q.Inputs = append(q.Inputs, inference.Tensor{Name: fmt.Sprintf("image_%d", i), Datatype: "UINT8", Shape: []int64{int64(rows)}, Data: make([]byte, rows), Binary: true})
	}
	return q
}

// TestRowsAreCharged: the rows of tensors, which take many times a body of bytes, count as memory until
// their job is released; more than any worker answers are refused before they are cut.
func TestRowsAreCharged(t *testing.T) {
	budget := limits.NewAnswers(1 << 20)
	s := serveWithin(t, budget, Config{Policy: "optimized"}, &engine{})
	defer s.Close()
	most := s.models[0].longest(1)
	j, refused := s.Infer(Asked{Task: "digits"}, wide(200, most))
	if refused != nil {
		t.Fatal(refused)
	}
	if held := budget.Usage().Held; held != int64(200*most*rowMemory) {
		t.Errorf("%d bytes are held for %d rows", held, 200*most)
	}
	if j.Release(); budget.Usage().Held != 0 {
		t.Errorf("%d bytes are held after the job", budget.Usage().Held)
	}
	for want, q := range map[string]*inference.Request{
		"1000000 inputs are too many": wide(1, 1_000_000),
		"has no modality of":          {Inputs: []inference.Tensor{{Name: "smell", Datatype: "UINT8", Shape: []int64{1}, Data: []byte("a"), Binary: true}}},
	} {
		if _, refused := s.Infer(Asked{Task: "digits"}, q); refused == nil || !strings.Contains(refused.Message, want) || budget.Usage().Held != 0 {
			t.Errorf("%v, %d bytes held; want %s", refused, budget.Usage().Held, want)
		}
	}
	budget.Take(1<<20 - 1)
	if _, refused := s.Infer(Asked{Task: "digits"}, wide(1, most)); refused == nil || refused.Code != refusedMemory || !refused.Load {
		t.Errorf("without room: %v", refused)
	}
}

// TestRowsOfAnswersAreCharged: so do those of an engine's outputs.
func TestRowsOfAnswersAreCharged(t *testing.T) {
	set := &model{Model: &Model{}}
	f := &tensors{set: set, asked: &inference.Request{}}
	a := inference.Answer{Outputs: wide(100, 4).Inputs}
	h := http.Header{}
	body, err := a.Write(h)
	if err != nil {
		t.Fatal(err)
	}
	rows, _, _, err := f.answer(h, body, 4)
	if got := weight(rows); err != nil || got != 2*rowMemory*4*100 {
		t.Errorf("%d bytes, %v", got, err)
	}
}
