package draft_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/calibrate/draft"
	"gearshift/internal/scenario"
)

func engine(host string, kind draft.Kind, models ...draft.Model) draft.Engine {
	return draft.Engine{Host: host, URL: fmt.Sprintf("http://%s:%d/v1", host, 8000+len(models)), Kind: kind, Models: models}
}

func model(id string) draft.Model {
	return draft.Model{ID: id, Context: 4096, KVTokens: 20000, Block: 16}
}

// composed is the scenario of the engines, with the defaults for what a user would say.
func composed(t *testing.T, engines ...draft.Engine) (*draft.Fleet, *scenario.Scenario, string) {
	t.Helper()
	f, err := draft.Compose(engines)
	if err != nil {
		t.Fatal(err)
	}
	doc, guesses, err := f.Document(draft.Choices{Name: "test", Task: "chat", Quality: f.Qualities()})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(doc), "# guess: "); n != guesses || n == 0 {
		t.Errorf("%d guesses are marked, %d counted", n, guesses)
	}
	s, warnings, err := scenario.InspectText("test.yaml", doc)
	if err != nil {
		t.Fatal(err)
	}
	// Extremes are odd, and names that tell some sizes and others not leave the order open.
	if known := !strings.Contains(t.Name(), "Extremes") && !strings.Contains(t.Name(), "Names"); known && len(warnings) > 0 {
		t.Errorf("what was made is warned of:\n%v\n%s", warnings, doc)
	}
	return f, s, string(doc)
}

func variants(f *draft.Fleet) (names []string) {
	for _, v := range f.Variants {
		names = append(names, v.Name)
	}
	return names
}

func TestVariantsAreInOrderOfSize(t *testing.T) {
	probed := func(id string, ms int) draft.Model {
		m := model(id)
		m.Step = time.Duration(ms) * time.Millisecond
		return m
	}
	for name, c := range map[string]struct {
		models []draft.Model
		want   []string
		order  string
	}{
		"by parameters":      {[]draft.Model{model("org/opt-6.7b"), model("org/opt-125m"), model("org/opt-1.3b")}, []string{"opt-125m", "opt-1.3b", "opt-6.7b"}, "parameters"},
		"by words":           {[]draft.Model{model("large"), model("x-mini"), model("base")}, []string{"x-mini", "base", "large"}, "word"},
		"by steps":           {[]draft.Model{probed("red", 30), probed("blue", 9)}, []string{"blue", "red"}, "time per token"},
		"steps before words": {[]draft.Model{probed("large", 9), probed("small", 30)}, []string{"large", "small"}, "time per token"},
		"by nothing":         {[]draft.Model{model("red"), model("blue")}, []string{"red", "blue"}, "order in which"},
		"by what the engine says": {[]draft.Model{{ID: "a", Parameters: 8e9, Context: 4096, KVTokens: 9000}, {ID: "b", Parameters: 1e9, Context: 4096, KVTokens: 9000}},
			[]string{"b", "a"}, "parameters"},
		"of two as large, the finer is better": {[]draft.Model{model("m-7b-q8_0"), model("m-7b-q4_k_m")}, []string{"m-7b-q4_k_m", "m-7b-q8_0"}, "parameters"},
	} {
		f, s, doc := composed(t, engine("gpu0", draft.VLLM, c.models...))
		if got := variants(f); !slices.Equal(got, c.want) || !strings.Contains(f.Order, c.order) {
			t.Errorf("%s: %q by %s", name, got, f.Order)
		}
		if s.Variants[0].Name != c.want[0] || f.Ordered == strings.Contains(doc, "# guess: the order") {
			t.Errorf("%s: the file does not say whether the order is a guess:\n%s", name, doc)
		}
		// What is better is worth more, in the offered numbers.
		for i := 1; i < len(s.Variants); i++ {
			if q := s.Tasks[0].Quality; q[s.Variants[i-1].Name] >= q[s.Variants[i].Name] {
				t.Errorf("%s: qualities %v", name, q)
			}
		}
	}
}

// The same model on several hosts is one variant, whatever path it has there; each
// replica holds what its engine says.
func TestOneVariantOnSeveralHosts(t *testing.T) {
	small, other := model("meta/llama-1b"), model("/models/llama-1b.gguf")
	other.KVTokens = 8000
	f, s, doc := composed(t, engine("a", draft.VLLM, small, model("meta/llama-8b")), engine("b", draft.LlamaCpp, other), engine("c", draft.VLLM, small))
	if got := variants(f); !slices.Equal(got, []string{"llama-1b", "llama-8b"}) {
		t.Fatalf("variants %q", got)
	}
	table, tokens := s.Table(), s.KVTokens()
	held := map[string]int{}
	for i, r := range table.Replicas {
		held[r.Name] = tokens[i]
	}
	for name, want := range map[string]int{"llama-1b@a": 20000, "llama-1b@b": 8000, "llama-1b@c": 20000, "llama-8b@a": 20000} {
		if held[name] != want {
			t.Errorf("%s holds %d tokens, want %d\n%s", name, held[name], want, doc)
		}
	}
	for replica, want := range map[string]string{"llama-1b@a": "meta/llama-1b", "llama-1b@b": "/models/llama-1b.gguf"} {
		if got := s.Serving.Upstreams[replica]; got.Model != want {
			t.Errorf("%s is called %q upstream, want %q", replica, got.Model, want)
		}
	}
	if !strings.Contains(doc, "hosts: [a, c]") {
		t.Errorf("replicas that are alike are not on one line:\n%s", doc)
	}
}

func TestNamesOfModels(t *testing.T) {
	f, _, _ := composed(t, engine("a", draft.VLLM, model("x/llama-8b"), model("y/llama-8b"), model("auto"), model("my model (v2)"), model("phi:3b")))
	got := variants(f)
	slices.Sort(got)
	if want := []string{"auto-model", "my-model-v2-", "phi:3b", "x/llama-8b", "y/llama-8b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestAModelTwiceOnAHost(t *testing.T) {
	_, err := draft.Compose([]draft.Engine{engine("gpu0", draft.VLLM, model("m")), {Host: "gpu0", URL: "http://gpu0:9/v1", Models: []draft.Model{model("m")}}})
	if err == nil || !strings.Contains(err.Error(), "host gpu0 has the model m twice, at http://gpu0:8001/v1 and http://gpu0:9/v1") {
		t.Errorf("%v", err)
	}
	if _, err := draft.Compose([]draft.Engine{engine("gpu0", draft.VLLM)}); err == nil {
		t.Error("no model is a fleet")
	}
}

// What the engines say goes into the file as it is, and is not marked.
func TestWhatEnginesSayIsNoGuess(t *testing.T) {
	m := draft.Model{ID: "qwen-0.5b", Context: 1024, KVTokens: 4096, Block: 32, Sequences: 8, WeightBytes: 400_000_000, KVBytes: 12288, Answered: 5000, MeanPrompt: 300, MeanOutput: 40}
	_, s, doc := composed(t, engine("a", draft.LlamaCpp, m))
	if s.Engine.MaxSequences != 8 || s.Engine.BlockTokens != 32 || s.Models[0].WeightBytes != 400_000_000 || s.Models[0].KVBytes != 12288 || s.KVTokens()[0] != 4096 {
		t.Errorf("%s", doc)
	}
	if w := s.Workload; w.Prompt.Mean != 300 || w.Output.Mean != 40 || w.Prompt.Max+w.Output.Max > 1024 {
		t.Errorf("lengths %+v, %+v of a context of 1024", w.Prompt, w.Output)
	}
	for line := range strings.Lines(doc) {
		for _, said := range []string{"weight_bytes", "kv_bytes_per_token", "block_tokens", "max_sequences", "KV cache"} {
			if strings.Contains(line, said) && strings.Contains(line, "guess") {
				t.Errorf("marked as a guess: %s", line)
			}
		}
	}
}

func TestTheUsersWord(t *testing.T) {
	f, err := draft.Compose([]draft.Engine{engine("a", draft.VLLM, model("m-1b"), model("m-8b"))})
	if err != nil {
		t.Fatal(err)
	}
	doc, _, err := f.Document(draft.Choices{Name: "mine", Task: "search", DeadlineMS: 80, Quality: []float64{0.3, 0.7}, QualitySaid: true})
	if err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Parse("mine.yaml", doc)
	if err != nil {
		t.Fatal(err)
	}
	if task := s.Tasks[0]; task.Name != "search" || task.DeadlineMS != 80 || task.Quality["m-1b"] != 0.3 || task.Quality["m-8b"] != 0.7 {
		t.Errorf("%+v", task)
	}
	for line := range strings.Lines(string(doc)) {
		if (strings.Contains(line, "deadline_ms") || strings.Contains(line, "quality:")) && strings.Contains(line, "guess") {
			t.Errorf("marked as a guess: %s", line)
		}
	}
}

// Whatever engines say, the scenario is valid and its largest variant can meet the deadline.
func TestExtremes(t *testing.T) {
	for name, m := range map[string]draft.Model{
		"nothing known":     {ID: "m"},
		"a tiny context":    {ID: "m", Context: 2, KVTokens: 16},
		"a tiny cache":      {ID: "m", KVTokens: 1},
		"a huge model":      {ID: "m-1000b", Context: 1 << 20, KVTokens: 1 << 24},
		"a tiny model":      {ID: "m-1m"},
		"a slow step":       {ID: "m-1b", Step: 3 * time.Second},
		"a quick step":      {ID: "m-70b", Step: 20 * time.Microsecond},
		"one slot":          {ID: "m", Sequences: 1, Context: 128},
		"no block":          {ID: "m", KVTokens: 100, Block: 0},
		"a large block":     {ID: "m", KVTokens: 100, Block: 4096},
		"long requests":     {ID: "m", Context: 4096, Answered: 1e6, MeanPrompt: 1e6, MeanOutput: 1e6},
		"answers of nought": {ID: "m", Answered: 1000, MeanPrompt: 0.1, MeanOutput: 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			_, s, doc := composed(t, engine("a", draft.Other, m))
			if c := s.Capacities(s.Tasks[0].DeadlineMS)[0]; c.Alone > s.Tasks[0].DeadlineMS {
				t.Errorf("%v ms a token, with a deadline of %v\n%s", c.Alone, s.Tasks[0].DeadlineMS, doc)
			}
		})
	}
}
