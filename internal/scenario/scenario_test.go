package scenario_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
)

func load(t *testing.T, ref string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(ref)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// minimal is testdata/minimal.yaml with its edits, old and new by turns.
func minimal(t testing.TB, edits ...string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := string(b)
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(text, edits[i]) {
			t.Fatalf("minimal.yaml has no %q", edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	return text
}

func parse(t *testing.T, text string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Parse("test.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestEveryBuiltInLoads(t *testing.T) {
	for _, name := range scenario.Fleets() {
		s := load(t, name)
		if s.Name != name {
			t.Errorf("scenarios/%s.yaml calls itself %q", name, s.Name)
		}
		table, profiles, tokens := s.Table(), s.Profiles(), s.KVTokens()
		if n := len(table.Replicas); len(profiles) != n || len(tokens) != n {
			t.Errorf("%s: %d replicas, %d profiles, %d KV sizes", name, n, len(profiles), len(tokens))
		}
		if err := s.Spec().Match(table); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The KV caches of the calibration: side by side at 5, 20 and 75 % of 24 GiB.
func TestTitanKVTokens(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	want := slices.Concat(slices.Repeat([]int{21_376}, 4), slices.Repeat([]int{11_296}, 4), slices.Repeat([]int{10_528}, 4))
	if got := s.KVTokens(); !slices.Equal(got, want) {
		t.Errorf("side by side: %v, want %v", got, want)
	}
	for i, r := range s.Table().Replicas {
		if name := []string{"opt-125m", "opt-1.3b", "opt-6.7b"}[i/4] + "@gpu" + string(rune('0'+i%4)); r.Name != name {
			t.Errorf("replica %d is %q, want %q", i, r.Name, name)
		}
	}
}

// Alone at 90 % of 24 GiB.
func TestTitanAlone(t *testing.T) {
	s := load(t, "titan-rtx-opt")
	for i, want := range []int{615_584, 103_056, 17_904} {
		alone, err := s.Alone(s.Variants[i].Name)
		if err != nil {
			t.Fatal(err)
		}
		table := alone.Table()
		if got := alone.KVTokens(); !slices.Equal(got, slices.Repeat([]int{want}, 4)) {
			t.Errorf("%s: KV tokens %v, want %d", s.Variants[i].Name, got, want)
		}
		if got := table.ReplicasOf(i); len(got) != 4 || len(table.Replicas) != 4 {
			t.Errorf("%s: replicas %v of %d", s.Variants[i].Name, got, len(table.Replicas))
		}
		if got := alone.Spec().Hash(); got != s.Spec().Hash() {
			t.Errorf("%s: another Spec", s.Variants[i].Name)
		}
	}
	if got := len(s.Table().Replicas); got != 12 {
		t.Errorf("Alone changed the scenario: %d replicas left", got)
	}
	if _, err := s.Alone("opt-1.3"); err == nil || !strings.Contains(err.Error(), `did you mean "opt-1.3b"?`) {
		t.Errorf("unknown variant: %v", err)
	}
}

// A variant alone has the hosts of the others too: where it has a profile, and room for
// what the fleet has room for.
func TestAloneOnEveryHostThatFits(t *testing.T) {
	apart := func(edits ...string) *scenario.Scenario {
		return parse(t, minimal(t, append([]string{
			"  - {name: gpu0, memory: 8GiB}\n", `
  - {name: gpu0, memory: 8GiB}
  - {name: gpu1, memory: 8GiB}
  - {name: gpu2, memory: 16GiB}
  - {name: idle, memory: 8GiB}
`,
			"{variant: small, hosts: [gpu0], memory: 20%}", "{variant: small, hosts: [gpu0], memory: 2GiB}",
			"{variant: large, hosts: [gpu0], memory: 80%}", "{variant: large, hosts: [gpu2, gpu1], memory: 80%}",
		}, edits...)...))
	}
	tight := "{name: gpu0, memory: 5800MB}" // of which large has 5220 MB: not 2 % of the cache that it has elsewhere
	for _, test := range []struct {
		name         string
		s            *scenario.Scenario
		small, large []string
	}{
		{"apart", apart(), []string{"small@gpu0", "small@gpu1", "small@gpu2"}, []string{"large@gpu2", "large@gpu1", "large@gpu0"}},
		{"too small", apart("{name: gpu0, memory: 8GiB}", "{name: gpu0, memory: 4GiB}"),
			[]string{"small@gpu0", "small@gpu1", "small@gpu2"}, []string{"large@gpu2", "large@gpu1"}},
		{"hardly any cache", apart("{name: gpu0, memory: 8GiB}", tight),
			[]string{"small@gpu0", "small@gpu1", "small@gpu2"}, []string{"large@gpu2", "large@gpu1"}},
		{"no profile", apart("- variant: small\n", "- variant: small\n    hosts: [gpu0, gpu2]\n"),
			[]string{"small@gpu0", "small@gpu2"}, []string{"large@gpu2", "large@gpu1", "large@gpu0"}},
	} {
		for name, want := range map[string][]string{"small": test.small, "large": test.large} {
			alone, err := test.s.Alone(name)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range alone.Table().Replicas {
				got = append(got, r.Name)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: %s alone has %v, want %v", test.name, name, got, want)
			}
			if least := slices.Min(alone.KVTokens()); least < slices.Min(test.s.KVTokens()) {
				t.Errorf("%s: %s alone has a KV cache of %d tokens, less than the fleet's smallest", test.name, name, least)
			}
		}
	}
}

// LBE-6's matrix and LBE-4's deadline arrive in the table.
func TestTitanTasks(t *testing.T) {
	table := load(t, "titan-rtx-opt").Table()
	want := [][]float64{{.45, .78, 1}, {.80, .95, 1}, {.82, .96, 1}, {.70, .94, 1}}
	for i, task := range table.Tasks {
		if task.Deadline != 40*time.Millisecond || task.Weight != 1 || task.Decay != (fleet.Hard{}) || !slices.Equal(task.Quality, want[i]) {
			t.Errorf("task %+v", task)
		}
	}
}

func TestDefaults(t *testing.T) {
	s := parse(t, minimal(t))
	full := minimal(t,
		"deadline_ms: 40,", "deadline_ms: 40.0, decay: hard, weight: 1,",
		"workload:\n", "workload:\n  task_mix: {chat: 1}\n") + `
engine: {scheduler: prefill-first, max_batch_tokens: 2560, max_sequences: 256, block_tokens: 16}
evaluation:
  static_memory: 90%
  requests: 10000
  phase_s: 40
  stable_rates: [0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48]
`
	if s.Hash() != parse(t, full).Hash() {
		t.Error("writing the defaults out makes another scenario")
	}
	if v := s.Serving; v.Addr != "127.0.0.1:8080" || v.Balancer != "smallest-batch" || v.Fallback != "universal" ||
		v.MaxInFlight != 512 || v.MaxBody != 8<<20 || v.Backend != scenario.Simulated {
		t.Errorf("serving defaults: %+v", v)
	}
	if got := s.ServingTable().Replicas[0].Limit; got != 512 {
		t.Errorf("serving limit %d", got)
	}
	if got := s.Table().Replicas[0].Limit; got != 0 {
		t.Errorf("the simulator's queues have limit %d", got)
	}
}

func TestServing(t *testing.T) {
	s := parse(t, minimal(t)+`
serving:
  addr: ":9000"
  max_in_flight: 0
  max_body: 2MB
  default_task: chat
  drain_timeout: 1m30s
  timeouts: {first_token: 20s}
  retries: {max: 0}
  backend: upstream
  upstreams:
    small@gpu0: {url: http://gpu0:8000/v1, api_key_env: SMALL_KEY, timeouts: {idle: 5s}, forward_authorization: true}
    large@gpu0: {url: https://models.example, model: org/large}
`)
	c := s.Serving.Config()
	if c.Addr != ":9000" || c.MaxBody != 2_000_000 || c.DefaultTask != "chat" || c.DrainTimeout != 90*time.Second || c.BodyTimeout <= 0 {
		t.Errorf("server config %+v", c)
	}
	if c.Timeouts.FirstToken != 20*time.Second || c.Timeouts.Idle <= 0 || c.Timeouts.Total <= 0 || c.Retries.Max != 0 || c.Retries.BudgetPercent <= 0 {
		t.Errorf("timeouts %+v, retries %+v", c.Timeouts, c.Retries)
	}
	small, large := s.Serving.Upstreams["small@gpu0"], s.Serving.Upstreams["large@gpu0"]
	if small.URL != "http://gpu0:8000/v1" || small.Key != "SMALL_KEY" || small.Timeouts.Idle != 5*time.Second || !small.ForwardAuthorization {
		t.Errorf("small: %+v", small)
	}
	if large.URL != "https://models.example" || large.Model != "org/large" {
		t.Errorf("large: %+v", large)
	}
}

func TestNotations(t *testing.T) {
	s := parse(t, minimal(t,
		"memory: 8GiB", "memory: 8_589_934_592",
		"hosts: [gpu0], memory: 20%", "hosts: &all [gpu0], memory: 1600MB",
		"hosts: [gpu0], memory: 80%", "hosts: *all, memory: 80 %",
		"decisions: 6000", "decisions: 6e3",
		"batch: 64", "batch: 0x40",
		"deadline_ms: 40", "decay: soft, deadline_ms: 4e+1",
	))
	if got := s.KVTokens(); got[0] != (1_600_000_000-900_000_000)/32_768/16*16 {
		t.Errorf("KV tokens %v", got)
	}
	if p := s.Training.Presets["quick"]; p.Decisions != 6000 || p.Batch != 64 {
		t.Errorf("preset %+v", p)
	}
	if got := s.Table().Tasks[0].Decay; got != fleet.PaperSoft() {
		t.Errorf("decay %v", got)
	}
}

func TestHash(t *testing.T) {
	base := parse(t, minimal(t)).Hash()
	same := map[string]string{
		"comments":      "# first\n" + minimal(t, "hosts:\n", "hosts: # the machines\n\n"),
		"order":         minimal(t, "{name: chat, deadline_ms: 40,", "{deadline_ms: 40, name: chat,"),
		"units":         minimal(t, "8GiB", "8192MiB"),
		"objective":     aimed(t, "  objective: {power: 8}\n"),
		"name":          minimal(t, "name: minimal", "name: other"),
		"presets":       minimal(t, "decisions: 6000", "decisions: 7000"),
		"serving":       minimal(t) + "serving: {addr: ':9000'}\n",
		"rate scale":    minimal(t) + "evaluation: {rate_scale: 1}\n",
		"phases":        minimal(t, "max_phase_s: 20}", "max_phase_s: 20, min_phase_requests: 5}"),
		"every host":    minimal(t, "- variant: large\n", "- variant: large\n    hosts: [gpu0]\n"),
		"way":           minimal(t, "token_ms: 0.02", "request_ms: 3\n    token_ms: 0.02"),
		"quality order": minimal(t, "{small: 0.6, large: 1}", "{large: 1.0, small: 0.60}"),
	}
	for what, text := range same {
		if parse(t, text).Hash() != base {
			t.Errorf("%s counts", what)
		}
	}
	other := map[string]string{
		"deadline":    minimal(t, "deadline_ms: 40", "deadline_ms: 41"),
		"memory":      minimal(t, "memory: 20%", "memory: 19%"),
		"profile":     minimal(t, "token_ms: 0.02", "token_ms: 0.021"),
		"lengths":     minimal(t, "mean: 32", "mean: 33"),
		"mix":         minimal(t) + "engine: {max_sequences: 255}\n",
		"observation": minimal(t, "scale: [10, 5]", "scale: [10, 6]"),
		"load":        minimal(t, "max_rate: 8", "max_rate: 9"),
		"phases":      minimal(t, "max_phase_s: 20}", "max_phase_s: 20, min_phase_requests: 6}"),
		"evaluation":  minimal(t) + "evaluation: {requests: 9999}\n",
		"rate scale":  minimal(t) + "evaluation: {rate_scale: 1.5}\n",
		"balancer":    minimal(t) + "serving: {balancer: power-of-two}\n",
	}
	for what, text := range other {
		if parse(t, text).Hash() == base {
			t.Errorf("%s does not count", what)
		}
	}
}

// A max that the file leaves out is what fits the smallest cache beside the longest
// prompt. It follows from the replicas, and is no part of the file.
func TestLengthsWithoutMaxFit(t *testing.T) {
	open := func(edits ...string) *scenario.Scenario {
		return parse(t, minimal(t, append([]string{"mean: 32, max: 200", "mean: 32"}, edits...)...))
	}
	s := open()
	if w := s.Workload; w.Prompt.Longest() != 100 || w.Output.Max != s.SmallestCache()-100 {
		t.Errorf("up to %d and %d tokens; %d fit", w.Prompt.Longest(), w.Output.Max, s.SmallestCache())
	}
	uncut := *s
	uncut.Workload.Output.Max = 0
	if s.Hash() != uncut.Hash() {
		t.Error("the bound that fits counts for the hash")
	}
	less := open("memory: 80%", "memory: 79%")
	if got := s.Differences(less); less.Workload.Output.Max >= s.Workload.Output.Max || !slices.Equal(got, []string{"replicas"}) {
		t.Errorf("with less memory %d tokens fit, before %d; what differs is %q", less.Workload.Output.Max, s.Workload.Output.Max, got)
	}
	if max := parse(t, minimal(t)).Workload.Output.Max; max != 200 {
		t.Errorf("a max of 200 became %d", max)
	}
}

// A profile of every host is the same whether it lists them or not; of one, another.
func TestHashOfListedHosts(t *testing.T) {
	hash := func(hosts string) string {
		return parse(t, minimal(t, "memory: 8GiB}\n", "memory: 8GiB}\n  - {name: gpu1, memory: 8GiB}\n", "- variant: large\n", "- variant: large\n"+hosts)).Hash()
	}
	if every := hash(""); hash("    hosts: [gpu1, gpu0]\n") != every || hash("    hosts: [gpu0]\n") == every {
		t.Error("the hosts that are listed do not count as they should")
	}
}

func TestMixNamesEveryTask(t *testing.T) {
	two := "quality: {small: 0.6, large: 1}}\n  - {name: search, deadline_ms: 40, quality: {small: 0.6, large: 1}}"
	left := parse(t, minimal(t, "quality: {small: 0.6, large: 1}}", two, "workload:\n", "workload:\n  task_mix: {chat: 3}\n"))
	table := left.Table()
	if got := left.Workload.Mix.Shares(table.Tasks); got[0] != 1 || got[1] != 0 {
		t.Errorf("shares %v of a mix that names one of two tasks", got)
	}
	none := parse(t, minimal(t, "quality: {small: 0.6, large: 1}}", two))
	if got := none.Workload.Mix.Shares(table.Tasks); math.Abs(got[0]-0.5) > 1e-15 {
		t.Errorf("shares %v without a mix", got)
	}
}

func TestScenariosOfTheDocs(t *testing.T) {
	files, err := filepath.Glob("../../docs/scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenario in docs: %v", err)
	}
	for _, file := range files {
		s, err := scenario.Load(file)
		if err != nil {
			t.Error(err)
		} else if want := strings.TrimSuffix(filepath.Base(file), ".yaml"); s.Name != want {
			t.Errorf("%s has the name %s, want %s", file, s.Name, want)
		}
	}
}

func TestLoadRefs(t *testing.T) {
	if _, err := scenario.Load("testdata/minimal.yaml"); err != nil {
		t.Error(err)
	}
	empty := filepath.Join(t.TempDir(), "empty.yaml")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]string{
		"titan":     `unknown scenario "titan"; built in are a100-modern, cpu-three, faillite-large, faillite-testbed, five-sizes, mosel-av-hubert, mosel-mmsa, mosel-tbn, mosel-tvlt, mosel-vilt, prompts-three, tiny, titan-rtx-opt, and the path of a file works too`,
		"tinny":     `unknown scenario "tinny"; did you mean "tiny"?; built in are a100-modern, cpu-three, faillite-large, faillite-testbed, five-sizes, mosel-av-hubert, mosel-mmsa, mosel-tbn, mosel-tvlt, mosel-vilt, prompts-three, tiny, titan-rtx-opt, and the path of a file works too`,
		"":          `unknown scenario ""; built in are a100-modern, cpu-three, faillite-large, faillite-testbed, five-sizes, mosel-av-hubert, mosel-mmsa, mosel-tbn, mosel-tvlt, mosel-vilt, prompts-three, tiny, titan-rtx-opt, and the path of a file works too`,
		"gone.yaml": `there is no scenario file "gone.yaml"; built in are a100-modern, cpu-three, faillite-large, faillite-testbed, five-sizes, mosel-av-hubert, mosel-mmsa, mosel-tbn, mosel-tvlt, mosel-vilt, prompts-three, tiny, titan-rtx-opt`,
		"./tiny":    `there is no scenario file "./tiny"; did you mean "tiny"?; built in are`,
		t.TempDir(): "is a directory",
		empty:       empty + ":1: the file is empty",
	} {
		if _, err := scenario.Load(ref); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v\nwant %s", ref, err, want)
		}
	}
}
