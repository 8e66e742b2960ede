package wire

import (
	"errors"
	"strings"
	"testing"
)

func TestWhatABodyAsksFor(t *testing.T) {
	for body, want := range map[string][2]int{
		`{"model":"m"}`:                              {1, 0},
		`{"model":"m","n":64,"max_tokens":9}`:        {64, 9},
		`{"n":2,"best_of":5}`:                        {5, 0},
		`{"n":3,"prompt":["a","b"]}`:                 {6, 0},
		`{"prompt":[[1,2],[3]]}`:                     {2, 0},
		`{"prompt":[1,2,3]}`:                         {1, 0},
		`{"n":1,"n":64}`:                             {64, 0},
		`{"n":null,"max_tokens":null}`:               {1, 0},
		`{"n":-3,"max_tokens":-1}`:                   {1, 0},
		`{"n":"64","max_tokens":" 1_000 "}`:          {64, 1000},
		`{"n":"6\u0034"}`:                            {64, 0},
		`{"n":"many","max_tokens":[5]}`:              {1, 0},
		`{"n":6.4e1,"max_output_tokens":7}`:          {64, 7},
		`{"n":1e300,"prompt":["a","b"]}`:             {1<<31 - 1, 0},
		`{"max_tokens":5,"max_completion_tokens":8}`: {1, 8},
	} {
		r, err := ParseRequest([]byte(body))
		if err != nil {
			t.Fatal(err)
		}
		if got := [2]int{r.Answers(), r.MaxTokens()}; got != want {
			t.Errorf("%s: %v, want %v", body, got, want)
		}
	}
}

// A decoder that does not mind the case of names must not read another request than the
// router.
func TestNamesThatDifferInCase(t *testing.T) {
	for body, param := range map[string]string{
		`{"model":"small","Model":"large"}`:               "model",
		`{"Model":"large","model":"small"}`:               "model",
		`{"model":"small","\u004dodel":"large"}`:          "model",
		`{"model":"m","N":64}`:                            "n",
		`{"model":"m","messages":[],"Messages":["long"]}`: "messages",
		`{"model":"m","me\u017f\u017fages":[]}`:           "messages", // with the long s that Go folds
		`{"model":"m","STREAM":true}`:                     "stream",
		`{"model":"m","Max_Tokens":5}`:                    "max_tokens",
		`{"model":"m","Best_of":5}`:                       "best_of",
	} {
		_, err := ParseRequest([]byte(body))
		var e Error
		if !errors.As(err, &e) || e.Code != "ambiguous_member" || string(e.Param) != param || !strings.Contains(e.Message, "only in case") {
			t.Errorf("%s: error %v", body, err)
		}
	}
	for _, body := range []string{
		`{"model":"m","Custom":1,"custom":2}`, `{"model":"m","metadata":{"Task":"x","model":"y","Model":"z"}}`,
		`{"model":"m","messages":[{"Role":"user","role":"user"}]}`, `{"Model":"m"}`, `{"model":"m","maxTokens":3,"nn":1,"N2":1}`,
	} {
		if _, err := ParseRequest([]byte(body)); err != nil {
			t.Errorf("%s: %v", body, err)
		}
	}
	var into struct {
		Tokens int `json:"tokens"`
	}
	for _, body := range []string{`{"tokens":1,"Tokens":9}`, `{"TOKENS":9}`, `{"to\u212aens":9}`} {
		var e Error
		if err := Decode([]byte(body), &into, true); !errors.As(err, &e) || e.Code != "ambiguous_member" {
			t.Errorf("%s: error %v", body, err)
		}
	}
}
