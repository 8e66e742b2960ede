package decoder

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gearshift/serving/backend"
)

// ask sends the body to the engine and returns status and answer.
func ask(t testing.TB, e *Engine, path, body string) (int, string) {
	t.Helper()
	response, err := backend.NewFront(e).RoundTrip(httptest.NewRequest("POST", path, strings.NewReader(body)))
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

func TestStops(t *testing.T) {
	const text = "one two € three"
	for _, c := range []struct{ with, want, finish string }{
		{``, text, "stop"},
		{`"max_tokens": 5`, "one t", "length"},
		{`"max_completion_tokens": 5`, "one t", "length"},
		{`"stop": " "`, "one", "stop"},
		{`"stop": ["zzz", "o €"]`, "one tw", "stop"},
		{`"stop": ["€"]`, "one two ", "stop"},
		{`"stop": "three!"`, text, "stop"}, // begun, and never whole
		{`"stop": ["two", "one two"]`, "", "stop"},
		{`"max_tokens": 9`, "one two �", "length"}, // in the middle of a character
		{`"ignore_eos": true, "max_tokens": 20`, text, "length"},
	} {
		e := start(t, &fake{next: says(1, text)}, plenty)
		with := c.with
		if with != "" {
			with = ", " + with
		}
		if got, finish := answer(t, generate(t, e, `{"prompt": "x"`+with+`}`)); got != c.want || finish != c.finish {
			t.Errorf("%s: got %q (%s), want %q (%s)", c.with, got, finish, c.want, c.finish)
		}
	}
}

// A stream has an event for each token. What may be a part of a stop string or of
// a character is held until that is known.
func TestStreamPieces(t *testing.T) {
	e := start(t, &fake{next: says(1, "a€bcd")}, plenty)
	status, body := ask(t, e, backend.ChatPath, `{"messages": [{"role": "user", "content": "x"}], "stop": "cx", "stream": true, "stream_options": {"include_usage": true}}`)
	var pieces []string
	usage := 0
	for line := range strings.SplitSeq(body, "\n\n") {
		var event struct {
			Choices []struct {
				Delta struct{ Content, Role string }
			}
			Usage struct {
				Completion int `json:"completion_tokens"`
			}
		}
		data := strings.TrimPrefix(line, "data: ")
		if json.Unmarshal([]byte(data), &event) != nil {
			continue
		}
		usage += event.Usage.Completion
		if len(event.Choices) == 1 && event.Choices[0].Delta.Role == "" {
			pieces = append(pieces, event.Choices[0].Delta.Content)
		}
	}
	// a, the three bytes of €, b, c, d, the end; and the event that says why.
	want := []string{"a", "", "", "€", "b", "", "cd", "", ""}
	if status != http.StatusOK || !slices.Equal(pieces, want) || usage != 8 || !strings.HasSuffix(body, "data: [DONE]\n\n") {
		t.Errorf("status %d, pieces %q, want %q; %d tokens in %s", status, pieces, want, usage, body)
	}
}

func TestWholeAnswer(t *testing.T) {
	e := start(t, &fake{next: says(3, "hello")}, plenty)
	status, body := ask(t, e, backend.CompletionPath, `{"prompt": [120, 121, 122]}`)
	if status != http.StatusOK || !strings.Contains(body, `"text":"hello"`) || !strings.Contains(body, `"finish_reason":"stop"`) ||
		!strings.Contains(body, `"usage":{"prompt_tokens":3,"completion_tokens":6,"total_tokens":9}`) || !strings.Contains(body, `"model":"fake"`) {
		t.Errorf("%d %s", status, body)
	}
	// An answer without a word is empty, not missing.
	if status, body := ask(t, e, backend.ChatPath, `{"messages": [{"role": "user", "content": "hello"}], "stop": "l"}`); status != http.StatusOK || !strings.Contains(body, `"content":""`) {
		t.Errorf("an empty answer: %d %s", status, body)
	}
	if status, body := ask(t, e, backend.EmbeddingsPath, `{"input": "x"}`); status != http.StatusNotFound {
		t.Errorf("embeddings: %d %s", status, body)
	}
}

// Prompts of all forms that mean the same are the same tokens.
func TestPromptForms(t *testing.T) {
	e := start(t, &fake{next: letters}, plenty)
	read := func(body string, chat bool) []int64 {
		t.Helper()
		s, fault := e.read([]byte(body), chat)
		if fault != nil {
			t.Fatalf("%s: %v", body, fault)
		}
		return s.prompt
	}
	want := []int64{'h', 'i', '\n', 'y', 'o'}
	for _, c := range []struct {
		body string
		chat bool
	}{
		{`{"prompt": "hi\nyo"}`, false},
		{`{"prompt": ["hi\nyo"]}`, false},
		{`{"prompt": [104, 105, 10, 121, 111]}`, false},
		{`{"prompt": [[104, 105, 10, 121, 111]]}`, false},
		{`{"messages": [{"role": "system", "content": "hi"}, {"role": "user", "content": "yo"}]}`, true},
		{`{"messages": [{"role": "user", "content": [{"type": "text", "text": "hi\n"}, {"type": "text", "text": "yo"}]}]}`, true},
	} {
		if got := read(c.body, c.chat); !slices.Equal(got, want) {
			t.Errorf("%s: %v", c.body, got)
		}
	}
}

func TestBadRequests(t *testing.T) {
	c := plenty
	c.KVTokens = 100
	e := start(t, &fake{next: letters}, c)
	long := strings.Repeat("x", 128)
	for _, bad := range []struct{ body, param, code, message string }{
		{`{}`, "prompt", "invalid_value", `"prompt" must be`},
		{`{"prompt": ""}`, "prompt", "invalid_value", "is empty"},
		{`{"prompt": ["a", "b"]}`, "prompt", "invalid_value", "one alone"},
		{`{"prompt": [1, 300]}`, "prompt", "invalid_value", "the token 300 is none of the model's, which has 257"},
		{fmt.Sprintf(`{"prompt": %q}`, long), "prompt", "context_length_exceeded", "the prompt has 128 tokens; the context of fake is 128"},
		{fmt.Sprintf(`{"prompt": %q}`, strings.Repeat(long, 100)), "prompt", "context_length_exceeded", "the prompt of 12800 bytes has at least 2560 tokens"},
		{`{"prompt": "a", "max_tokens": 128}`, "max_tokens", "context_length_exceeded", "exceed the KV cache of fake, 100 tokens"},
		{fmt.Sprintf(`{"prompt": %q}`, long[:110]), "max_tokens", "context_length_exceeded", "exceed the KV cache"},
		{`{"prompt": "a", "max_tokens": 0}`, "max_tokens", "invalid_value", "at least 1"},
		{`{"prompt": "a", "max_tokens": "3"}`, "max_tokens", "invalid_type", "a whole number"},
		{`{"prompt": "a", "temperature": -1}`, "temperature", "invalid_value", "from 0 to 2"},
		{`{"prompt": "a", "top_p": 0}`, "top_p", "invalid_value", "above 0"},
		{`{"prompt": "a", "stop": 3}`, "stop", "invalid_value", "a string or a list"},
		{`{"prompt": "a", "stop": ["a", ""]}`, "stop", "invalid_value", "none of them empty"},
		{`{"prompt": "a", "stop": ["a", "b", "c", "d", "e"]}`, "stop", "invalid_value", "at most 4"},
		{`{"prompt": "a", "n": 2}`, "n", "invalid_value", "one answer"},
		{`{"prompt": "a", "logprobs": 2}`, "logprobs", "invalid_value", "no logprobs"},
		{`{"prompt": "a", "logprobs": 0}`, "logprobs", "invalid_value", "no logprobs"}, // those of the tokens chosen
		{`{"prompt": "a", "logprobs": true}`, "logprobs", "invalid_value", "no logprobs"},
		{`{"prompt": "a", "presence_penalty": 1}`, "presence_penalty", "invalid_value", "no presence_penalty"},
		{`{"prompt": "a", "frequency_penalty": 1}`, "frequency_penalty", "invalid_value", "no frequency_penalty"},
		{`{"prompt": "a", "logit_bias": {"3": 1}}`, "logit_bias", "invalid_value", "no logit_bias"},
		{`{"prompt": "a", "best_of": 2}`, "best_of", "invalid_value", "one answer"},
		{`{"prompt": "a", "suffix": "b"}`, "suffix", "invalid_value", "no suffix"},
		{`{"prompt": "a", "response_format": {"type": "json_object"}}`, "response_format", "invalid_value", "text alone"},
		{`{"prompt": "a", "top_k": 1}`, "top_k", "invalid_value", "no top_k"},
		{`{"prompt": "a", "min_p": 0.1}`, "min_p", "invalid_value", "no min_p"},
		{`{"prompt": "a", "repetition_penalty": 1.1}`, "repetition_penalty", "invalid_value", "no repetition_penalty"},
		{`{"prompt": "a", "min_tokens": 3}`, "min_tokens", "invalid_value", "no min_tokens"},
		{`{"prompt": "a", "stop_token_ids": [3]}`, "stop_token_ids", "invalid_value", "no stop_token_ids"},
		{`{"prompt": "a", "seed": 1.5}`, "seed", "invalid_type", "a whole number"},
		{`{"prompt": "a", "echo": true}`, "echo", "invalid_value", "echo"},
		{`{"prompt": "a", "tool_choice": "required"}`, "tool_choice", "invalid_value", "calls no tools"},
		{`{"prompt": "a", "tool_choice": {"type": "function", "function": {"name": "f"}}}`, "tool_choice", "invalid_value", "calls no tools"},
		{`{"prompt": "a", "function_call": {"name": "f"}}`, "function_call", "invalid_value", "calls no tools"},
		{`{"prompt": "a", "prompt_logprobs": 0}`, "prompt_logprobs", "invalid_value", "no prompt_logprobs"},
		{`{"prompt": "a", "truncate_prompt_tokens": 4}`, "truncate_prompt_tokens", "invalid_value", "no truncate_prompt_tokens"},
		{`{"prompt": "a", "include_stop_str_in_output": true}`, "include_stop_str_in_output", "invalid_value", "no include_stop_str_in_output"},
		{`{"prompt": "a", "bad_words": ["b"]}`, "bad_words", "invalid_value", "no bad_words"},
		{`{"prompt": "a", "allowed_token_ids": [3]}`, "allowed_token_ids", "invalid_value", "no allowed_token_ids"},
		{`{"prompt": "a", "use_beam_search": true}`, "use_beam_search", "invalid_value", "no use_beam_search"},
		{`{"prompt": "a", "structured_outputs": {"regex": "b"}}`, "structured_outputs", "invalid_value", "no structured_outputs"},
		{`{"prompt": "a", "guided_json": {"type": "object"}}`, "guided_json", "invalid_value", "no guided_json"},
		{`{"prompt": "a", "guided_regex": "b"}`, "guided_regex", "invalid_value", "no guided_regex"},
		{`{"prompt": "a", "guided_choice": ["b", "c"]}`, "guided_choice", "invalid_value", "no guided_choice"},
		{`{"prompt": "a", "guided_grammar": "root ::= b"}`, "guided_grammar", "invalid_value", "no guided_grammar"},
		{`{"prompt": `, "", "invalid_json", ""},
		{`[]`, "", "invalid_type", "must be a JSON object"},
	} {
		status, body := ask(t, e, backend.CompletionPath, bad.body)
		var got struct {
			Error struct{ Param, Code, Type, Message string }
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != http.StatusBadRequest || got.Error.Type != "invalid_request_error" ||
			got.Error.Param != bad.param || got.Error.Code != bad.code || !strings.Contains(got.Error.Message, bad.message) {
			t.Errorf("%.60s: %d %s", bad.body, status, body)
		}
	}
	for body, message := range map[string]string{
		`{"messages": []}`:                                                     "at least one message",
		`{"messages": "hi"}`:                                                   "must be a list",
		`{"messages": [{}, "hi"]}`:                                             "must be a list of which each is an object",
		`{"messages": [{"role": "user", "content": ""}]}`:                      "is empty in every message",
		`{"messages": [{"role": "user", "content": 3}]}`:                       "of message 0 must be a string",
		`{"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}`: "parts of type",
	} {
		if status, answer := ask(t, e, backend.ChatPath, body); status != http.StatusBadRequest || !strings.Contains(answer, `"param":"messages"`) || !strings.Contains(answer, message) {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if l := e.Load(); l.Running+l.Waiting > 0 {
		t.Errorf("load %+v after nothing but faults", l)
	}
}

// What asks for nothing else than there is, is no fault.
func TestNeutralOptions(t *testing.T) {
	e := start(t, &fake{next: letters}, plenty)
	const body = `{"prompt": "a", "max_tokens": 2, "n": 1, "best_of": 1, "suffix": null, "response_format": {"type": "text"}, "top_k": -1, "min_p": 0,
		"repetition_penalty": 1.0, "min_tokens": 0, "stop_token_ids": [], "logit_bias": {}, "logprobs": null, "tools": [{"type": "function"}], "tool_choice": "auto",
		"function_call": "none", "prompt_logprobs": null, "include_stop_str_in_output": false, "bad_words": [ ], "guided_json": {}, "guided_regex": "", "unknown": 3}`
	if status, answer := ask(t, e, backend.CompletionPath, body); status != http.StatusOK {
		t.Errorf("%d %s", status, answer)
	}
}

// A model whose logits are no numbers has nothing to say; one that is infinitely sure
// says that.
func TestSamplingOfBadLogits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, s := range []sampling{{topP: 1}, {temperature: 1, topP: 1}, {temperature: 1, topP: 0.5}} {
		s.random = rand.New(rand.NewPCG(1, 1))
		if got := s.draw([]float32{nan, nan}); got >= 0 {
			t.Errorf("%+v: of no numbers, %d", s, got)
		}
		if got := s.draw([]float32{0, inf, 3}); got != 1 {
			t.Errorf("%+v: of one that is infinite, %d", s, got)
		}
	}
}

// What a config.json has of another type is told without what Go has for it.
func TestAConfigOfAnotherType(t *testing.T) {
	for text, want := range map[string]string{`[]`: "array", `{"n_positions": "8"}`: "n_positions", `{"n_positions": 8, "vocab_size": []}`: "vocab_size"} {
		if err := new(Folder).config([]byte(text)); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "struct {") {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Draws follow the softmax at their temperature, within the nucleus, and repeat
// with their seed.
func TestSampling(t *testing.T) {
	logits := []float32{0, 1, 2, float32(math.Inf(-1)), float32(math.NaN())}
	const n = 20_000
	count := func(temperature, topP float64) (shares [5]float64) {
		s := sampling{temperature: temperature, topP: topP, random: rand.New(rand.NewPCG(1, 1))}
		for range n {
			shares[s.draw(logits)] += 1. / n
		}
		return shares
	}
	for _, c := range []struct {
		temperature, topP float64
		want              [5]float64
	}{
		{0, 1, [5]float64{0, 0, 1}},
		{1, 1, [5]float64{0.090, 0.245, 0.665}},
		{2, 1, [5]float64{0.186, 0.307, 0.506}},
		{1, 0.9, [5]float64{0, 0.269, 0.731}},
		{1, 0.1, [5]float64{0, 0, 1}},
	} {
		got := count(c.temperature, c.topP)
		for i := range got {
			if math.Abs(got[i]-c.want[i]) > 0.015 {
				t.Errorf("temperature %v, top_p %v: %.3f, want %.3f", c.temperature, c.topP, got, c.want)
				break
			}
		}
		if again := count(c.temperature, c.topP); again != got {
			t.Errorf("the same seed gave %v, then %v", got, again)
		}
	}
}

// Whatever a config.json holds, it is refused, or leaves room for a prompt and an answer
// and says the same when it is written anew.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"max_position_embeddings": 2048, "vocab_size": 50272, "eos_token_id": 2}`))
	f.Add([]byte(`{"n_positions": 1024, "vocab_size": 50257, "eos_token_id": [2, 3]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var a, b Folder
		if a.config(data) != nil {
			return
		}
		end, err := json.Marshal(a.End)
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf(`{"n_positions": %d, "vocab_size": %d, "eos_token_id": %s}`, a.Context, a.Vocabulary, end)
		if err := b.config([]byte(text)); err != nil || a.Context < 2 || !reflect.DeepEqual(a, b) {
			t.Errorf("%s is read as %+v, %v; want %+v", text, b, err, a)
		}
	})
}

// Whatever the body, it is refused in words, or is work that has an end and fits
// the cache.
func FuzzRead(f *testing.F) {
	e := start(f, &fake{next: letters}, plenty)
	f.Add([]byte(`{"prompt": [1, 2], "max_tokens": 3, "stop": ["a"], "seed": 1, "temperature": 0.5, "top_p": 0.9}`), false)
	f.Add([]byte(`{"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}`), true)
	f.Fuzz(func(t *testing.T, body []byte, chat bool) {
		switch s, fault := e.read(body, chat); {
		case fault != nil && (fault.Message == "" || fault.Type == "" || fault.Code == ""):
			t.Errorf("a fault without words: %+v", fault)
		case fault == nil && (len(s.prompt) < 1 || s.limit < 1 || s.reserved() > min(plenty.Context, plenty.KVTokens)):
			t.Errorf("%d prompt tokens, %d to generate", len(s.prompt), s.limit)
		}
	})
}

// Models have rows beyond their tokens, up to a multiple of 8: OPT 50,272 for 50,265 tokens.
func TestATokenizerMatchesAModelWithSpareRows(t *testing.T) {
	for _, c := range []struct {
		tokens, rows int
		match        bool
	}{
		{50257, 50257, true}, {50265, 50272, true}, {151665, 151936, true}, {50295, 51200, true},
		{50265, 50271, false}, {50272, 50265, false}, {32000, 50272, false},
	} {
		if err := match(c.tokens, c.rows); (err == nil) != c.match {
			t.Errorf("%d tokens, %d rows: %v", c.tokens, c.rows, err)
		}
	}
}
