package jobs

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"gearshift/serving/admission/limits"
	"gearshift/serving/openai/inference"
)

// wordy answers each batch with the text and, after it, no end of spaces.
type wordy struct {
	text   string
	status int
	budget *limits.Answers
	read   int64 // bytes that were read of answers
	most   int64 // that the budget held meanwhile
}

func (e *wordy) RoundTrip(r *http.Request) (*http.Response, error) {
	body := io.MultiReader(strings.NewReader(e.text), readerOf(func(p []byte) (int, error) {
		for i := range p {
			p[i] = ' '
		}
		e.read, e.most = e.read+int64(len(p)), max(e.most, e.budget.Usage().Held)
		return len(p), nil
	}))
	return &http.Response{StatusCode: e.status, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
}

type readerOf func(p []byte) (int, error)

func (f readerOf) Read(p []byte) (int, error) { return f(p) }

// TestAnswersWithoutEnd: an answer is read to its bound and charged as it grows. Its engine has failed,
// another one answers, and nothing stays charged.
func TestAnswersWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 8 << 20
		budget := limits.NewAnswers(limit)
		endless := &wordy{text: `{"data":[`, status: http.StatusOK, budget: budget}
		s := serveWithin(t, budget, Config{Policy: "optimized"}, endless, &engine{})
		defer s.Close()
		r, err := ask(t, s, 2, "")
		if err != nil || !r.Kept || r.Worker != "host1" || r.Failures != 1 {
			t.Fatalf("%+v, %v; want the answer of the other engine", r, err)
		}
		if read := endless.read + int64(len(endless.text)); read != limit/answerShare+1 || endless.most != read {
			t.Errorf("%d bytes were read and %d held; want an eighth of %d, and a byte that shows that it is longer", read, endless.most, limit)
		}
		if held := budget.Usage().Held; held == 0 {
			t.Error("the answer that was taken is not charged")
		}
		r.job.Release()
		s.Close()
		if held := budget.Usage().Held; held != 0 {
			t.Errorf("%d bytes are charged after the job", held)
		}
	})
}

// TestErrorsWithoutEnd: of an error no more is read than says what it is.
func TestErrorsWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := limits.NewAnswers(8 << 20)
		endless := &wordy{text: "out of order", status: http.StatusInternalServerError, budget: budget}
		s := serveWithin(t, budget, Config{Policy: "optimized"}, endless)
		defer s.Close()
		if _, err := ask(t, s, 1, ""); err == nil || !strings.Contains(err.Error(), "it answered 500: out of order") || endless.read > 64<<10 {
			t.Errorf("%v, %d bytes read", err, endless.read)
		}
	})
}

// TestWantOfMemoryIsNoFailure: where other requests hold the budget, a job is refused as they are, and
// its engine is not blamed.
func TestWantOfMemoryIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := limits.NewAnswers(1 << 20)
		s := serveWithin(t, budget, Config{Policy: "optimized"}, &engine{})
		defer s.Close()
		if !budget.Take(1 << 20) {
			t.Fatal("no room")
		}
		r, err := ask(t, s, 1, "")
		var refused *Refused
		if !errors.As(err, &refused) || refused.Status != http.StatusServiceUnavailable || refused.Code != "out_of_memory" || !refused.Load || r.Failures != 0 {
			t.Errorf("%+v, %v", r, err)
		}
		budget.Give(1 << 20)
		if r, err = ask(t, s, 1, ""); err != nil || !r.Kept {
			t.Errorf("with room: %+v, %v", r, err)
		}
		r.job.Release()
		if held := budget.Usage().Held; held != 0 {
			t.Errorf("%d bytes are charged after the jobs", held)
		}
	})
}

// TestOtherAnswersThanAsked: rows and outputs that nobody asked for are the engine's fault.
func TestOtherAnswersThanAsked(t *testing.T) {
	m := small(1)
	set, err := newModel(&Config{}, &m)
	if err != nil {
		t.Fatal(err)
	}
	const two = `{"name":"a","datatype":"UINT8","shape":[2],"data":[1,2]}`
	for _, x := range []struct{ outputs, answer, want string }{
		{``, `[` + two + `]`, ""},
		{`"a"`, `[` + two + `]`, ""},
		{`"b"`, `[` + two + `]`, `its answer lacks the output "b"`},
		{`"a"`, `[` + two + `,` + strings.Replace(two, `"a"`, `"b"`, 1) + `]`, `its output "b" was not asked for`},
		{``, `[{"name":"a","datatype":"UINT8","shape":[3],"data":[1,2,3]}]`, `its output "a" has 3 rows for 2 inputs`},
		{``, `[{"name":"a","datatype":"UINT8","shape":[2147483647],"parameters":{"binary_data_size":0}}]`, `its output "a" has 2147483647 rows for 2 inputs`},
		{``, `[{"name":"a","datatype":"UINT8","shape":[2` + strings.Repeat(",1", 100) + `],"data":[1,2]}]`, "more than 64 dimensions"},
	} {
		f := &tensors{set: set, asked: &inference.Request{}}
		if x.outputs != "" {
			f.asked.Outputs = []inference.Output{{Name: strings.Trim(x.outputs, `"`)}}
		}
		body := `{"outputs":` + x.answer + `}`
		h := http.Header{}
		h.Set(inference.HeaderLength, fmt.Sprint(len(body)))
		if _, _, _, err := f.answer(h, []byte(body), 2); (err == nil) != (x.want == "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s for %s: %v; want %q", x.answer, x.outputs, err, x.want)
		}
	}
	l := &list{set: set}
	for body, want := range map[string]string{
		`{"data":[{},{}]}`:    "",
		`{"data":[{},{},{}]}`: "3 elements of data for 2 inputs",
		`{"data":[{}]}`:       "1 elements of data for 2 inputs",
		`{"data":[{},1]}`:     "no objects",
		`{"data":{}}`:         "0 elements of data",
		`[]`:                  "it is no JSON object",
		`{"data":[{},{}]`:     "it is no JSON object",
	} {
		if _, _, _, err := l.answer(nil, []byte(body), 2); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", body, err, want)
		}
	}
}
