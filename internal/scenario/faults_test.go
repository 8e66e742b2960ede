package scenario_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/scenario"
)

var update = flag.Bool("update", false, "write what Parse says to testdata/bad/*.want")

// Each file of testdata/bad stands beside all that is said of it.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			s, err := scenario.Parse(filepath.Base(file), data)
			var faults scenario.Faults
			if s != nil || !errors.As(err, &faults) {
				t.Fatalf("accepted, or another error: %v", err)
			}
			if !slices.IsSortedFunc(faults, func(a, b scenario.Fault) int { return a.Line - b.Line }) {
				t.Error("not by line")
			}
			golden := strings.TrimSuffix(file, ".yaml") + ".want"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := faults.Error() + "\n"; got != string(want) {
				t.Errorf("said:\n%s\nwant:\n%s", got, want)
			}
		})
	}
}

func TestOneFaultAtATime(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"name: minimal", "name: 2024-01-01", "name: want text, found 2024-01-01"},
		{"name: minimal", "name: 7", "name: want text, found 7"},
		{"name: minimal", "name: ~", "name: want text, found nothing"},
		{"memory: 8GiB", "memory: {size: 8GiB}", "hosts[0].memory: want a single value, found a mapping"},
		{"memory: 8GiB", "memory: 8", "hosts[0].memory: 8 is less than the replicas on gpu0 take; want GiB, as in 24GiB"},
		{"memory: 8GiB", "memory: 8MB", "hosts[0].memory: 8MB is less than the replicas on gpu0 take; want GiB, as in 24GiB"},
		{"memory: 8GiB", "memory: -8GiB", `hosts[0].memory: want a size such as 24GiB, 500MB or a number of bytes, found "-8GiB"`},
		{"memory: 8GiB", "memory: 8GiB, slowdown: {min: 1, max: 2}", "hosts[0].slowdown.mean_s: missing; it has no default"},
		{"memory: 8GiB", "memory: 8GiB, slowdown: {min: 0, max: 2, mean_s: 10}", "hosts[0].slowdown.min: a slowdown is at least 0.001 and at most 1000, not 0"},
		{"memory: 8GiB", "memory: 8GiB, slowdown: {min: 2, max: 1, mean_s: 10}", "hosts[0].slowdown.max: the greatest slowdown, 1, is below the least, 2"},
		{"memory: 8GiB", "memory: 8GiB, slowdown: {min: 1, max: 2, mean_s: 0}", "hosts[0].slowdown.mean_s: a slowdown holds for at least 0.01 s and at most an hour, not 0"},
		{"max: 200}\n", "max: 200}\n  task_lengths: {chat: {output_tokens: {distribution: geometric, mean: 9}}}\n", "workload.task_lengths.chat.output_tokens.max: missing; a task's own lengths need one"},
		{"max: 200}\n", "max: 200}\n  task_lengths: {poem: {output_tokens: {distribution: constant, value: 9}}}\n", "workload.task_lengths.poem: is not a task of this fleet; one of chat would be right"},
		{"max: 200}\n", "max: 200}\n  task_lengths: {chat: {output: {distribution: constant, value: 9}}}\n", "workload.task_lengths.chat.output: unknown key; known here: prompt_tokens, output_tokens"},
		{"max: 200}\n", "max: 200}\n  task_lengths: {chat: {output_tokens: {distribution: constant, value: 15000}}}\n", "replicas[1].memory: 6.40 GiB (6871947673 bytes) for large: that leaves a KV cache of 12752 tokens; the longest request takes 15100 (on gpu0)"},
		{"memory: 20%", "memory: 0%", `replicas[0].memory: want a share such as 90%, above 0% and at most 100%, found "0%"`},
		{"memory: 20%", "memory: lots", `replicas[0].memory: want a size such as 5GiB or a share of the host such as 20%, found "lots"`},
		{"weights_ms: 2\n", "weights_ms: .inf\n", "profiles[0].weights_ms: want a number, found .inf"},
		{"batch: 64", "batch: 1e300", "training.presets.quick.batch: want a whole number, found 1e300"},
		{"warmup: 200", "warmup: 200\n      priority: {exponent: 0.6, corection: 0.4}", `training.presets.quick.priority.corection: unknown key; did you mean "correction"?`},
		{"warmup: 200", "warmup: 200\n      priority: {exponent: 0.6}", "training.presets.quick.priority.correction: missing; it has no default"},
		{"warmup: 200", "warmup: 200\n      priority: {exponent: 1.2, correction: 0.4}", "training.presets.quick.priority.exponent: must be above 0 and at most 1, not 1.2"},
		{"warmup: 200", "warmup: 200\n      priority: high", `training.presets.quick.priority: want a mapping, found "high"`},
		{"weights_ms: 2\n", "weights_ms: 1e13\n", "profiles[0].weights_ms: a cost is at most an hour, 3600000 ms, not 1e+13"},
		{"contention: 0.15", "contention: 1e13", "profiles[0].contention: a ratio is at most 1000, not 1e+13"},
		{"max_phase_s: 20}", "max_phase_s: 20, min_phase_requests: 0}", "training.load.min_phase_requests: 0 is not a number of requests above 0; leave the key out for the default, 5"},
		{"max_phase_s: 20}", "max_phase_s: 20, min_phase_requests: -1}", "training.load.min_phase_requests: -1 is not a number of requests above 0 and up to 1e+06"},
		{"    quick:\n", "    \"\": {}\n    quick:\n", "training.presets: a key must be plain text"},
		{"    quick:\n", "    [a]: {}\n    quick:\n", "training.presets: a key must be plain text"},
		{"per_token: 32_768", "per_token: 2_000_000_000_000", "profiles[0].kv_bytes_per_token: a cached token takes at least 1 byte and at most 1099511627776, not 2000000000000"},
		{"      decisions: 6000\n", "      decisions: 6000\n      observation: [{kind: task-one-hot}]\n      candidate: [{kind: rate, scale: [1]}]\n", `training.presets.quick.candidate[0].kind: unknown kind "rate"; known here: variant-one-hot, quality, gain, predicted-quality, in-flight, log-in-flight, kv-use, pace, harm, first-token, total, new-version, host-busy, neighbours, estimates`},
		{"      decisions: 6000\n", "      decisions: 6000\n      observation: [{kind: task-one-hot}]\n      candidate: [{kind: pace}]\n", "training.presets.quick.candidate[0]: pace takes 1 scales, has 0"},
		{"      decisions: 6000\n", "      decisions: 6000\n      observation: [{kind: task-one-hot}]\n      candidate: [{kind: variant-one-hot}]\n      dueling: true\n", "training.presets.quick.dueling: has no meaning with candidates, whose network has one output; want false, or no candidate"},
		{"      decisions: 6000\n", "      decisions: 6000\n      observation: [{kind: task-one-hot}]\n      candidate: [{kind: variant-one-hot}]\n      advice_margin: 0.1\n", "training.presets.quick.candidate: advice is of variants, candidates are replicas; want no advice feature and no advice_margin, or no candidate"},
		{"      decisions: 6000\n", "      decisions: 6000\n      candidate: [{kind: variant-one-hot}]\n", "training.presets.quick.candidate: advice is of variants, candidates are replicas; want no advice feature and no advice_margin, or no candidate"},
		{"      decisions: 6000\n", "      decisions: 6000\n      observation: [{kind: task-one-hot}]\n      candidate: [{kind: estimates, rule: slackfit}]\n", `training.presets.quick.candidate[0].rule: "slackfit" makes no estimates; want universal, with its parameters`},
		{"      decisions: 6000\n", "      decisions: 6000\n      observation: [{kind: task-one-hot}]\n      candidate: [{kind: estimates, rule: nope}]\n", `training.presets.quick.candidate[0].rule: "nope" makes no estimates; want universal, with its parameters`},
		{"      decisions: 6000\n", "      decisions: 6000\n      observation: [{kind: task-one-hot}]\n      candidate: [{kind: estimates, rule: 'universal:1,2,3,4,5,6,7,8,9'}]\n", "training.presets.quick.candidate[0].rule: cannot use policy \"universal:1,2,3,4,5,6,7,8,9\": 9 numbers are too many; want universal:s,n,o,u,b"},
		{"      decisions: 6000\n", "      decisions: 6000\n      difference_rewards: true\n      marginal_rewards: true\n", "training.presets.quick.difference_rewards: are all that a decision is worth; want no marginal_rewards"},
		{"name: chat", "name: &x [*x]", "tasks[0].name: want text, found a list"},
	} {
		_, err := scenario.Parse("test.yaml", []byte(minimal(t, c.old, c.new)))
		var faults scenario.Faults
		if !errors.As(err, &faults) || len(faults) != 1 || !strings.HasSuffix(faults[0].Error(), ": "+c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.new, err, c.want)
		}
	}
}

// A fault within an alias is reported where it can be mended: at the anchor.
func TestFaultWithinAlias(t *testing.T) {
	text := minimal(t, "    quick:\n", "    quick: &quick\n", "warmup: 200", "warmup: -1") + "    other: *quick\n"
	_, err := scenario.Parse("test.yaml", []byte(text))
	want := `test.yaml:60: training.presets.other.warmup: must be at least 0, not -1
test.yaml:60: training.presets.quick.warmup: must be at least 0, not -1`
	if err == nil || err.Error() != want {
		t.Errorf("%v\nwant %s", err, want)
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(files, "testdata/minimal.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, odd := range []string{"a: &a [*a]", "&a {<<: *a}", "!!int abc", "? {a: b}\n: c", "--- |\n", "tasks: &x\n- *x\n", "%YAML 9.9\n---\n", "*x"} {
		f.Add([]byte(odd))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := scenario.Parse("fuzz.yaml", data)
		if err == nil {
			exercise(t, s)
			return
		}
		var faults scenario.Faults
		if !errors.As(err, &faults) || len(faults) == 0 {
			t.Fatalf("an error that is no list of faults: %v", err)
		}
		for _, fault := range faults {
			if fault.Line < 1 || fault.Line > 2+strings.Count(string(data), "\n")+strings.Count(string(data), "\r") {
				t.Errorf("no such line: %v", fault)
			}
		}
	})
}

// exercise calls all that an accepted scenario must be good for.
func exercise(t *testing.T, s *scenario.Scenario) {
	t.Helper()
	table := s.Table()
	if err := s.Spec().Match(table); err != nil {
		t.Error(err)
	}
	for i, n := range s.KVTokens() {
		if n < 1 || s.Profiles()[i] == nil {
			t.Errorf("replica %d: %d KV tokens", i, n)
		}
	}
	for _, v := range s.Variants {
		if alone, err := s.Alone(v.Name); err != nil || len(alone.Table().Replicas) == 0 {
			t.Errorf("%s alone: %v", v.Name, err)
		} else if alone.Hash() == "" || alone.KVTokens()[0] < 1 {
			t.Errorf("%s alone: KV tokens %v", v.Name, alone.KVTokens())
		}
	}
}

func TestURLsOfUpstreamsThatCannotBeUsed(t *testing.T) {
	for url, want := range map[string]string{
		"http://me:xxxxx@gpu0": "has a user name, which would not be sent; a key goes into the variable that api_key_env names",
		"http://:8000/v1":      "is not a URL; want http:// or https://, a host",
		"http://gpu0:0/v1":     "has no valid port; want 1 to 65535",
		"http://gpu0:65536/v1": "has no valid port; want 1 to 65535",
	} {
		text := minimal(t) + "serving:\n  backend: upstream\n  upstreams:\n    small@gpu0: {url: '" + strings.Replace(url, "xxxxx", "secret", 1) + "'}\n    large@gpu0: {url: http://gpu0:65535/v1}\n"
		_, err := scenario.Parse("mine.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), `serving.upstreams.small@gpu0.url: "`+url+`" `+want) || strings.Contains(err.Error(), "large@gpu0") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", url, err)
		}
	}
}

func TestPeersWithoutRouters(t *testing.T) {
	for peers, refused := range map[string]bool{"{}": true, "{poll: 1s}": true, "{urls: []}": true, "{dns: 'peers:8081'}": false} {
		_, err := scenario.Parse("mine.yaml", []byte(minimal(t)+"serving:\n  routers: 2\n  admin: {addr: ':8081'}\n  peers: "+peers+"\n"))
		if refused != (err != nil && strings.Contains(err.Error(), "serving.peers: names no routers; want urls or dns, or no serving.peers")) || !refused && err != nil {
			t.Errorf("%s: error %v, want one: %v", peers, err, refused)
		}
	}
}
