package scenario_test

import (
	"slices"
	"strings"
	"testing"

	"gearshift/internal/scenario"
)

// digits is a model of two inputs whose variants are left out.
const digits = `
tasks:
  - {name: digits, total_ms: 1000, quality: {digits-image: 0.81, digits-audio: 0.88, digits-image-audio: 0.96}}
models:
  - {name: digits, memory: 440MiB, modalities: [image, audio]}
hosts: [{name: cpu0, memory: 2GiB}, {name: cpu1, memory: 2GiB}]
replicas:
  - {model: digits, hosts: [cpu0, cpu1], memory: 30%}
profiles:
  - {variant: digits-image, batch_ms: {1: 5, 2: 7, 4: 11, 8: 18}, memory: 20MiB}
  - {variant: digits-audio, batch_ms: {1: 7, 2: 10, 4: 15, 8: 24}, contention: 0.5}
  - {variant: digits-image-audio, batch_ms: {1: 11, 2: 16, 4: 25, 8: 40}}
`

func parsed(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("digits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestVariantsOfAModelShareItsReplicas: each subset is a variant; on a host they are replicas
// of one engine, whose memory counts once.
func TestVariantsOfAModelShareItsReplicas(t *testing.T) {
	s := parsed(t, digits)
	table := s.Table()
	var variants, replicas []string
	for _, v := range table.Variants {
		variants = append(variants, v.Name)
	}
	for i, r := range table.Replicas {
		replicas = append(replicas, r.Name)
		if want := 1 + r.Host; r.Worker != want {
			t.Errorf("%s is of worker %d, want %d", r.Name, r.Worker, want)
		}
		if memory, want := table.MemoryOf(i), r.Memory; table.FirstOf(i) == i && memory != want || table.FirstOf(i) != i && memory != 0 {
			t.Errorf("%s counts %d bytes of %d", r.Name, memory, want)
		}
	}
	if want := []string{"digits-image", "digits-audio", "digits-image-audio"}; !slices.Equal(variants, want) {
		t.Errorf("variants %v, want %v", variants, want)
	}
	if want := "digits-image@cpu0 digits-audio@cpu0 digits-image-audio@cpu0 digits-image@cpu1 digits-audio@cpu1 digits-image-audio@cpu1"; strings.Join(replicas, " ") != want {
		t.Errorf("replicas %v, want %s", replicas, want)
	}
	var contention []float64
	for _, p := range s.Profiles()[:3] {
		contention = append(contention, p.Contention)
	}
	if !slices.Equal(contention, []float64{1, 0.5, 1}) {
		t.Errorf("contention %v: 1 where the profile does not say", contention)
	}
}

// TestVariantsLeftOutAreThoseListed: a file that lists all subsets is the same world.
func TestVariantsLeftOutAreThoseListed(t *testing.T) {
	listed := parsed(t, digits+`variants:
  - {name: digits-image, model: digits, modalities: [image]}
  - {name: digits-audio, model: digits, modalities: [audio]}
  - {name: digits-image-audio, model: digits, modalities: [image, audio]}
`)
	if s := parsed(t, digits); s.Hash() != listed.Hash() {
		t.Error("hashes differ")
	} else if d := s.Differences(listed); len(d) > 0 {
		t.Errorf("differences %v", d)
	}
}

// TestSeveralCombinationsOfAModel: a model whose variants are listed has those alone.
func TestSeveralCombinationsOfAModel(t *testing.T) {
	s := parsed(t, strings.Replace(digits, "digits-audio: 0.88, ", "", 1)+`variants:
  - {name: digits-image-audio, model: digits, modalities: [audio, image]}
  - {name: digits-image, model: digits, modalities: [image]}
  - {name: digits-audio, model: digits, modalities: [audio]}
`)
	list := s.Combinations("digits", "cpu1")
	if len(list) != 3 || list[0].Variant != "digits-image" || list[2].Variant != "digits-image-audio" {
		t.Fatalf("%+v", list)
	}
	if both := list[2]; !slices.Equal(both.Modalities, []string{"image", "audio"}) || both.Quality["digits"] != 0.96 ||
		!slices.Equal(both.Latency, []float64{11, 16, 20.5, 25, 28.75, 32.5, 36.25, 40}) {
		t.Errorf("both: %+v", both)
	}
	if image := list[0]; image.Memory != 20<<20 || list[1].Memory != 0 {
		t.Errorf("memory %v and %v", image.Memory, list[1].Memory)
	}
	if _, answers := list[1].Quality["digits"]; answers {
		t.Error("a quality that is left out is there")
	}
	if s.Combinations("digits", "cpu2") != nil || s.Combinations("digit", "cpu0") != nil {
		t.Error("combinations where there are none")
	}
}

// TestOneCombinationAlone: a subset on its own engine needs the memory of the subset.
func TestOneCombinationAlone(t *testing.T) {
	s := parsed(t, strings.Replace(digits, "{model: digits, hosts: [cpu0, cpu1], memory: 30%}",
		"{model: digits, hosts: [cpu0], memory: 30%}\n  - {variant: digits-image, hosts: [cpu1], memory: 300MiB}", 1))
	if r := s.Table().Replicas[3]; r.Name != "digits-image@cpu1" || r.Worker != 0 {
		t.Errorf("%+v", r)
	}
	alone, err := s.Alone("digits-audio")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range alone.Table().Replicas {
		if r.Variant != 1 || r.Worker != 0 {
			t.Errorf("alone: %+v", r)
		}
	}
}

// TestSharedUpstream: the engine has one entry, for the model; its replicas answer there.
func TestSharedUpstream(t *testing.T) {
	s := parsed(t, digits+`serving:
  backend: upstream
  upstreams:
    digits@cpu0: {url: "http://127.0.0.1:9000"}
    digits@cpu1: {url: "http://127.0.0.1:9001", model: late-fusion}
`)
	for name, want := range map[string][2]string{
		"digits-image@cpu0":       {"http://127.0.0.1:9000", "digits"},
		"digits-image-audio@cpu1": {"http://127.0.0.1:9001", "late-fusion"},
	} {
		if e := s.Serving.Upstreams[name]; e.URL != want[0] || e.Model != want[1] {
			t.Errorf("%s: %+v, want %v", name, e, want)
		}
	}
	if n := len(s.Serving.Upstreams); n != 6 {
		t.Errorf("%d upstreams, want 6", n)
	}
}

// TestSharedLocalModel: in this process the entry is of the engine, or of the model.
func TestSharedLocalModel(t *testing.T) {
	s := parsed(t, digits+`serving:
  backend: onnx
  models:
    digits: {path: a}
    digits@cpu1: {path: b, threads: 2}
`)
	for i, l := range s.LocalModels() {
		if want := []string{"a", "b"}[s.Table().Replicas[i].Host]; l.Path != want {
			t.Errorf("replica %d: %+v, want path %s", i, l, want)
		}
	}
}

// TestCombinationsHaveNoOrder: one that is slower and worse than the next is no mistake.
func TestCombinationsHaveNoOrder(t *testing.T) {
	text := strings.NewReplacer("digits-image: 0.81", "digits-image: 0.9", "{1: 5, 2: 7, 4: 11, 8: 18}", "{1: 9, 2: 12, 4: 14, 8: 28}").Replace(digits)
	_, warnings, err := scenario.InspectText("digits.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range warnings {
		if strings.Contains(w.Key, "quality") || strings.Contains(w.Key, "profiles") {
			t.Errorf("warned: %v", w)
		}
	}
}

// TestJobPlanning: the section has defaults, and counts for no hash.
func TestJobPlanning(t *testing.T) {
	usual, other := parsed(t, digits), parsed(t, digits+"modality: {policy: aggressive, table: 8, fixed_estimates: true}\n")
	if got, want := *scenario.Of[scenario.JobPlanning](usual), (scenario.JobPlanning{Policy: "foresight", Mixing: "mixed", Table: 64}); got != want {
		t.Errorf("default %+v, want %+v", got, want)
	}
	if got, want := *scenario.Of[scenario.JobPlanning](other), (scenario.JobPlanning{Policy: "aggressive", Mixing: "mixed", Table: 8, FixedEstimates: true}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if usual.Hash() != other.Hash() {
		t.Error("another hash")
	}
	if d := usual.Differences(other); !slices.Equal(d, []string{"modality.policy", "modality.table", "modality.fixed_estimates"}) {
		t.Errorf("differences %v", d)
	}
}

// talker is a language model that may read images coarsely, or not at all.
const talker = `
tasks:
  - {name: chat, deadline_ms: 40, quality: {large-text: 0.6, large-coarse: 0.9, large-full: 1}}
models:
  - {name: large, memory: 15GiB, modalities: [text, image, audio]}
variants:
  - {name: large-text, model: large, modalities: [text]}
  - {name: large-coarse, model: large, modalities: [text, image, audio], image_detail: low}
  - {name: large-full, model: large, modalities: [text, image, audio]}
hosts: [{name: gpu0, memory: 24GiB}]
replicas:
  - {model: large, hosts: [gpu0], memory: 80%}
profiles:
  - &p {variant: large-text, launch_floor_ms: 8, weights_ms: 20, growth_per_sequence: 0.01, token_ms: 0.1, context_token_ms: 0.0005, overhead_ms: 2, sequence_ms: 0.02, contention: 0.15, weight_bytes: 13_400_000_000, activation_bytes: 1_000_000_000, kv_bytes_per_token: 524288}
`

// withProfiles gives each of the variants the profile of the first.
func withProfiles(text string, names ...string) string {
	at := strings.LastIndex(text, "  - &p ")
	line := text[at:]
	text = text[:at]
	for _, name := range names {
		text += strings.Replace(strings.Replace(line, "&p ", "", 1), "large-text", name, 1)
	}
	return text
}

// TestALanguageModelLeavesPartsOut: its variants have profiles by token, and say which of the
// model's inputs they leave out.
func TestALanguageModelLeavesPartsOut(t *testing.T) {
	s := parsed(t, withProfiles(talker, "large-text", "large-coarse", "large-full"))
	for variant, want := range []string{"image audio", "", ""} {
		if got := strings.Join(s.LeavesOut(variant), " "); got != want {
			t.Errorf("%s leaves out %q, want %q", s.Variants[variant].Name, got, want)
		}
	}
	if list := s.Combinations("large", "gpu0"); len(list) > 0 {
		t.Errorf("a language model has the tables %+v", list)
	}
}

func TestBadImageDetail(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"image_detail: low", "image_detail: lowest", `variants[1].image_detail: "lowest"; want low, or leave it out`},
		{"modalities: [text]", "modalities: [text], image_detail: low", "variants[0].image_detail: large-text uses no image"},
		{"image_detail: low", "image_detail: low, modalities: [text, image, audio]", "modalities"},
		{"{name: large-full, model: large, modalities: [text, image, audio]}", "{name: large-full, image_detail: low}", "variants[2].image_detail: is of a model that takes images; want modalities with image in it"},
		{"[text, image, audio]}\nvariants", "[image, audio]}\nvariants", "large-full is the combination text+image+audio of large; want batch_ms"},
	} {
		text := strings.Replace(withProfiles(talker, "large-text", "large-coarse", "large-full"), c.from, c.to, 1)
		if _, err := scenario.Parse("talker.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("with %s: %v; want %q", c.to, err, c.want)
		}
	}
}
