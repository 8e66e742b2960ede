package scenario_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/scenario"
)

// warned is what is probably wrong with testdata/minimal.yaml after its edits.
func warned(t *testing.T, text string) scenario.Faults {
	t.Helper()
	_, warnings, err := scenario.InspectText("f.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return warnings
}

// What is built in and what is deployed has nothing to be warned of.
func TestNoWarnings(t *testing.T) {
	files, err := filepath.Glob("../../docs/scenarios/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, ref := range append(append(scenario.Fleets(), files...), "../../deploy/scenario.yaml", "testdata/minimal.yaml") {
		_, warnings, err := scenario.Inspect(ref)
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v, %v", ref, err, warnings)
		}
	}
	if warnings := warned(t, least(t)); len(warnings) > 0 {
		t.Errorf("the least scenario: %v", warnings)
	}
}

// Each slip is warned of at its key, with what would be right; and of nothing else.
func TestWarnings(t *testing.T) {
	serving := func(text string) []string {
		return []string{"    validate_every: 2000\n", "    validate_every: 2000\n", "      checkpoint_every: 2000\n", "      checkpoint_every: 2000\nserving: " + text + "\n"}
	}
	gpu := "{name: gpu0, memory: 8GiB}"
	for name, c := range map[string]struct {
		edits     []string
		key, says string
	}{
		"a larger size that is faster":    {[]string{"weights_ms: 28", "weights_ms: 0.5", "launch_floor_ms: 6", "launch_floor_ms: 1", "token_ms: 0.2", "token_ms: 0.02", "context_token_ms: 0.002\n", "context_token_ms: 0.0002\n"}, "profiles[1]", "quicker, 4"},
		"marginal rewards near the peak":  {[]string{"training:\n", "training:\n  objective: near-peak\n", "      episode: 1000\n", "      episode: 1000\n      marginal_rewards: true\n"}, "training.presets.quick.marginal_rewards", "train refuses the preset"},
		"quality that does not rise":      {[]string{"small: 0.6, large: 1}", "small: 1, large: 1}"}, "tasks[0].quality.large", "leave large out"},
		"quality that falls":              {[]string{"small: 0.6, large: 1}", "small: 1, large: 0.6}"}, "tasks[0].quality.large", "below the 1 of small"},
		"quality in percent":              {[]string{"large: 1}", "large: 95}"}, "tasks[0].quality.large", "want 0.95 if percent"},
		"a deadline in seconds":           {[]string{"deadline_ms: 40", "deadline_ms: 0.04"}, "tasks[0].deadline_ms", "want 40 if seconds"},
		"a deadline nobody meets":         {[]string{"deadline_ms: 40", "deadline_ms: 3"}, "tasks[0].deadline_ms", "not even a single request meets it"},
		"a deadline everybody meets":      {[]string{"deadline_ms: 40", "deadline_ms: 40000"}, "tasks[0].deadline_ms", "every size meets it"},
		"weights in seconds":              {[]string{"weights_ms: 2\n", "weights_ms: 0.002\n"}, "profiles[0].weights_ms", "want 2 if seconds"},
		"weights in microseconds":         {[]string{"weights_ms: 28", "weights_ms: 28000", "deadline_ms: 40", "deadline_ms: 40"}, "profiles[1].weights_ms", "want 28 if microseconds"},
		"weights beside quick arithmetic": {[]string{"weights_ms: 28", "weights_ms: 4000", "token_ms: 0.2\n", "token_ms: 0.02\n"}, "profiles[1].weights_ms", "too little compared with 0.02 ms for the arithmetic of one token; want 4 if microseconds"},
		"a token's time in seconds":       {[]string{"token_ms: 0.2\n", "token_ms: 0.0002\n"}, "profiles[1].token_ms", "want 0.2 if seconds"},
		"a token's time in microseconds":  {[]string{"token_ms: 0.2\n", "token_ms: 200\n"}, "profiles[1].token_ms", "want 0.2 if microseconds"},
		"a cached token in seconds":       {[]string{"context_token_ms: 0.002\n", "context_token_ms: 0.000002\n"}, "profiles[1].context_token_ms", "want 0.002 if seconds"},
		"overhead in seconds":             {[]string{"overhead_ms: 1\n", "overhead_ms: 0.001\n"}, "profiles[0].overhead_ms", "a thousand times"},
		"overhead in microseconds":        {[]string{"overhead_ms: 1\n", "overhead_ms: 1000\n"}, "profiles[0].overhead_ms", "a thousandth"},
		"sequences in seconds":            {[]string{"sequence_ms: 0.2", "sequence_ms: 0.0002"}, "profiles[0].sequence_ms", "a thousand times"},
		"kernel launches in microseconds": {[]string{"launch_floor_ms: 3", "launch_floor_ms: 3000"}, "profiles[0].launch_floor_ms", "a thousandth"},
		"growth in percent":               {[]string{"growth_per_sequence: 0", "growth_per_sequence: 3"}, "profiles[0].growth_per_sequence", "percent"},
		"contention in percent":           {[]string{"contention: 0.15", "contention: 15"}, "profiles[0].contention", "percent"},
		"weights in megabytes":            {[]string{"weight_bytes: 800_000_000", "weight_bytes: 800"}, "profiles[0].weight_bytes", "in bytes"},
		"a cached token in kilobytes":     {[]string{"kv_bytes_per_token: 32_768", "kv_bytes_per_token: 32"}, "profiles[0].kv_bytes_per_token", "in bytes"},
		"GB for GiB":                      {[]string{gpu, "{name: gpu0, memory: 24GB}"}, "hosts[0].memory", "mostly has 24GiB"},
		"TiB for GiB":                     {[]string{gpu, "{name: gpu0, memory: 24TiB}"}, "hosts[0].memory", "at most 8TiB"},
		"a share as a fraction":           {[]string{gpu, "{name: gpu0, memory: 1024GiB}", "memory: 20%", "memory: 0.2%"}, "replicas[0].memory", "want 20% if a fraction"},
		"a host without a replica":        {[]string{gpu, gpu + "\n  - {name: gpu1, memory: 8GiB}"}, "hosts[1].name", "no replica is on gpu1"},
		"a learning rate above 0.1":       {[]string{"learning_rate: 0.002", "learning_rate: 0.2"}, "training.presets.quick.learning_rate", "above 0.1"},
		"a final learning rate":           {[]string{"final_learning_rate: 0.0005", "final_learning_rate: 0.5"}, "training.presets.quick.final_learning_rate", "above 0.1"},
		"a time constant in ms":           {[]string{"time_constant_s: 3}", "time_constant_s: 15000}"}, "training.presets.quick.discount.time_constant_s", "a thousandth"},
		"phases in ms":                    {[]string{"max_phase_s: 20", "max_phase_s: 20000"}, "training.load.max_phase_s", "a thousandth"},
		"rates far beyond the fleet":      {[]string{"max_rate: 8", "max_rate: 8000"}, "training.load.max_rate", "requests per second, of which the fleet answers"},
		"rates far below the fleet":       {[]string{"min_rate: 1, max_rate: 8", "min_rate: 0.1, max_rate: 1"}, "training.load.max_rate", "every size keeps up"},
		"stable rates beyond the fleet":   {[]string{"training:\n", "evaluation: {stable_rates: [1, 5000]}\ntraining:\n"}, "evaluation.stable_rates", "of which the fleet answers"},
		"a sweep's phase in ms":           {[]string{"training:\n", "evaluation: {phase_s: 40000}\ntraining:\n"}, "evaluation.phase_s", "a thousandth"},
		"a spread in percent":             {[]string{"{distribution: constant, value: 100}", "{distribution: lognormal, mean: 100, cv: 80, max: 200}"}, "workload.prompt_tokens.cv", "percent"},
		"a timeout in ms":                 {serving("{timeouts: {idle: 2ms}}"), "serving.timeouts.idle", "seconds"},
		"a timeout of days":               {serving("{timeouts: {total: 600h}}"), "serving.timeouts.total", "days"},
		"a budget as a fraction":          {serving("{retries: {budget_percent: 0.2}}"), "serving.retries.budget_percent", "in percent"},
		"nothing to place":                {serving("{placement: {rule: worth}}"), "serving.placement.rule", "each host has one layout"},
		"a body of bytes":                 {serving("{max_body: 8}"), "serving.max_body", "8MiB"},
		"one request at a time":           {[]string{"memory: 80%", "memory: 5240MB", "mean: 32, max: 200}", "mean: 100, max: 200}"}, "replicas[1].memory", "has room for 1 of"},
	} {
		t.Run(name, func(t *testing.T) {
			warnings := warned(t, minimal(t, c.edits...))
			found := false
			for _, w := range warnings {
				found = found || w.Key == c.key && strings.Contains(w.Message, c.says) && w.Line > 1
			}
			if !found {
				t.Errorf("want %s: %q, found:\n%v", c.key, c.says, warnings)
			}
			if len(warnings) > 2 {
				t.Errorf("one slip has %d warnings:\n%v", len(warnings), warnings)
			}
		})
	}
}

// TestOneLayout: a fleet whose hosts have one layout each is warned of, and one with two shares of a size is not.
func TestOneLayout(t *testing.T) {
	const second = "  - {name: opt-1.3b-large, variant: opt-1.3b, hosts: [gpu0, gpu1, gpu2, gpu3], memory: 75%, state: warm}\n"
	two := shifting(t, "  placement: {rule: worth}\n")
	if err := parse(t, two).Unchanging(); err != nil {
		t.Errorf("two shares: %v", err)
	}
	one := strings.Replace(two, second, "", 1)
	err := parse(t, one).Unchanging()
	if err == nil || !strings.HasPrefix(err.Error(), "each host has one layout, so that there is nothing to decide; want ") {
		t.Errorf("one share: %v", err)
	}
	if w := warned(t, one); len(w) != 1 || w[0].Key != "serving.placement.rule" || w[0].Line == 0 || w[0].Message != err.Error() {
		t.Errorf("%v, want one warning: %v", w, err)
	}
}

// TestACheckGrowsWithTheFile: twice the applications take about twice the work, by what is allocated.
func TestACheckGrowsWithTheFile(t *testing.T) {
	work := func(applications int) float64 {
		var b strings.Builder
		b.WriteString("models:\n  - {name: small, memory: 300MB, load_ms: 200}\n  - {name: large, memory: 900MB, load_ms: 2000}\n")
		b.WriteString("variants:\n  - {name: small, model: small}\n  - {name: large, model: large}\n")
		b.WriteString("profiles:\n  - {variant: small, batch_ms: {1: 5, 4: 12}}\n  - {variant: large, batch_ms: {1: 20, 4: 60}}\n")
		b.WriteString("workload:\n  output_tokens: {distribution: none}\nfailover: {headroom: 30%}\nhosts:\n")
		for i := range 10 {
			fmt.Fprintf(&b, "  - {name: h%d, memory: 16GiB}\n", i)
		}
		b.WriteString("tasks:\n")
		for i := range applications {
			fmt.Fprintf(&b, "  - {name: app%d, total_ms: %d, rate: 0.02, quality: {small: 0.7, large: 1}}\n", i, 200+i%7)
		}
		return testing.AllocsPerRun(1, func() { warned(t, b.String()) })
	}
	few, many := work(150), work(300)
	if many > 3*few {
		t.Errorf("%v allocations for 150 applications, %v for 300", few, many)
	}
}

// A balancer that asks engines for their load is warned of where they cannot be asked.
func TestABalancerThatAsksEnginesWithoutAPage(t *testing.T) {
	text := replace(t, cameras, "failover: {}", `failover: {}
serving:
  balancer: probing
  backend: upstream
  upstreams:
    "*@h1": {url: "http://10.0.0.1:9001", lifecycle: gearshift}
    "*@h2": {url: "http://10.0.0.2:9001", lifecycle: gearshift}
    "*@h3": {url: "http://10.0.0.3:9001", lifecycle: gearshift}`)
	about := func(text string) (list []string) {
		for _, w := range warned(t, text) {
			if strings.Contains(w.Error(), "serving.balancer: probing asks engines for their load at /v1/loads") {
				list = append(list, w.Error())
			}
		}
		return list
	}
	if got := about(text); len(got) > 0 {
		t.Errorf("warned %q of engines that have the page", got)
	}
	if got := about(replace(t, text, `9001", lifecycle: gearshift}`, `9001", lifecycle: triton}`)); len(got) != 1 || !strings.Contains(got[0], "which triton does not have") {
		t.Errorf("warned %q", got)
	}
}

// Versions that can never change are warned of: no replica may go, and a host has no room for two.
func TestVersionsThatCannotChange(t *testing.T) {
	const text = `
tasks: [{name: chat, total_ms: 1000, quality: {small: 1}}]
variants: [{name: small, model: small}]
models: [{name: small, memory: 300MB}]
hosts: [{name: h1, memory: 2GB}, {name: h2, memory: 500MB}]
replicas: [{variant: small, hosts: [h1], memory: 20%}, {variant: small, hosts: [h2], memory: 70%}]
profiles: [{variant: small, batch_ms: {1: 5}}]
workload: {output_tokens: {distribution: none}}
rollout: {ROLLOUT}
serving:
  backend: upstream
  upstreams:
    "*@h1": {url: "http://h1:9001", lifecycle: gearshift}
    "*@h2": {url: "http://h2:9001", lifecycle: gearshift}
`
	for rollout, want := range map[string]string{
		"":                 "",
		"keep: {small: 2}": "versions of small cannot change: h2 has no room for two, and 2 of its replicas, of 2 that are up, have to answer meanwhile",
		"keep: {small: 1}": "",
	} {
		var got []string
		for _, w := range warned(t, strings.ReplaceAll(text, "ROLLOUT", rollout)) {
			if w.Key == "rollout.keep" {
				got = append(got, w.Message)
			}
		}
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.Contains(got[0], want)) {
			t.Errorf("rollout: {%s}: %q, want %q", rollout, got, want)
		}
	}
}

// An engine whose address is the router's own is warned of.
func TestAnEngineAtTheRoutersAddress(t *testing.T) {
	text := replace(t, cameras, "failover: {}", `failover: {}
serving:
  addr: ":8080"
  backend: upstream
  upstreams:
    "*@h1": {url: "http://localhost:8080", lifecycle: gearshift}
    "*@h2": {url: "http://127.0.0.1:8081/v1", lifecycle: gearshift}
    "*@h3": {url: "http://10.0.0.3:8080", lifecycle: gearshift}`)
	var got []string
	for _, w := range warned(t, text) {
		if strings.HasPrefix(w.Key, "serving.upstreams") {
			got = append(got, w.Key+": "+w.Message)
		}
	}
	if len(got) != 2 || !strings.HasPrefix(got[0], "serving.upstreams.*@h1.url: http://localhost:8080 is where the router itself listens, by serving.addr") || !strings.Contains(got[1], "by serving.admin.addr") {
		t.Errorf("warned %q", got)
	}
}
