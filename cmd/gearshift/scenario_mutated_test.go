package main

import (
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/app"
)

// mutations are values that a mistake puts in place of another, of any key.
var mutations = []any{
	0, 1, -1, 0.5, 5, 1e9, "", "x", "0s", "1ms", "1h", "1%", "100%", "1B", "1TiB", true, nil, []any{}, map[string]any{},
	"*@h1", "h1", "h9", "gearshift", "vllm", "probing", "prequal", "learned", "real_time", "{modle}-{version}",
}

// mutatedSections are added to files that lack them, sound or not.
var mutatedSections = []string{
	`failover: {headroom: 1%}`, `failover: {backups: 5}`, `failover: {models: nosuch}`, `failover: {heartbeat: 1ms}`,
	`rollout: {name: "{modle}-{version}"}`, `rollout: {at_once: 50}`, `rollout: {keep: 9}`, `modality: {policy: learned}`,
	`serving: {tiers: {groups: [{name: a, hosts: [h1]}, {name: b, hosts: [h2, h3]}]}}`, `serving: {affinity: {key: user}}`,
	`serving: {balancer: probing}`, `serving: {balancer: "sampled:9"}`, `serving: {fallback: "fixed:nosuch"}`, `serving: {fallback: slackfit}`,
	`serving: {replicas: {}}`, `serving: {replicas: {min: 5}}`, `serving: {streams: {task: digits}}`, `serving: {streams: {task: photos}}`,
	`serving: {rebalancing: {period: 1ms}}`, `serving: {memory: 1MiB}`, `serving: {keep_alive: 1ns}`, `serving: {backend: onnx}`,
}

// TestCheckOutlivesMistakes has files with a mistake or two: none breaks the check, and what it calls valid can
// be served. GEARSHIFT_MISTAKES=10000 tries as many.
func TestCheckOutlivesMistakes(t *testing.T) {
	tries, _ := strconv.Atoi(os.Getenv("GEARSHIFT_MISTAKES"))
	tries = max(tries, 100)
	var files []string
	for _, pattern := range []string{"../../internal/scenario/testdata/*.yaml", "../../docs/scenarios/c*.yaml", "../../workloads/scenarios/tiny.yaml", "../../workloads/scenarios/mosel-mmsa.yaml"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatal(pattern, err)
		}
		files = append(files, found...)
	}
	files = append(files, write(t, "streams.yaml", streamsOfTwoSizes))
	rng, valid := rand.New(rand.NewPCG(58, uint64(tries))), 0
	for range tries {
		data, err := os.ReadFile(files[rng.IntN(len(files))])
		if err != nil {
			t.Fatal(err)
		}
		var file any
		if err := yaml.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		for range 1 + rng.IntN(2) {
			mistake(rng, file.(map[string]any))
		}
		text, err := yaml.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		path := write(t, "mutated.yaml", string(text))
		if outlived(t, path, text) {
			valid++
		}
	}
	if valid < tries/20 || valid > tries*19/20 {
		t.Errorf("%d of %d files valid; want mistakes that are seen, and that are none", valid, tries)
	}
	t.Logf("%d of %d files valid", valid, tries)
}

// outlived checks the file, and serves what is valid, but for models that are not here.
func outlived(t *testing.T, path string, text []byte) (valid bool) {
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("panic: %v, of\n%s", r, text)
		}
	}()
	if code, _, _ := gearshift(t, "scenario", "check", path); code != 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
	defer cancel()
	o := app.Options{Version: version, Remedy: remedy, Scenario: path, Store: filepath.Join(t.TempDir(), "p.db"), Addr: "127.0.0.1:0", Admin: "off", Engine: "native"}
	if err := app.Serve(ctx, o, io.Discard); err != nil && !strings.Contains(err.Error(), "cannot read model") {
		t.Errorf("check calls valid what serve refuses with %v:\n%s", err, text)
	}
	return true
}

// mistake changes one thing of the file: a value, an item or a key that goes, an item twice, or a section.
func mistake(rng *rand.Rand, file map[string]any) {
	if rng.IntN(3) == 0 {
		var added map[string]any
		if err := yaml.Unmarshal([]byte(mutatedSections[rng.IntN(len(mutatedSections))]), &added); err != nil {
			panic(err)
		}
		for k, v := range added {
			if have, ok := file[k].(map[string]any); ok {
				maps.Copy(have, v.(map[string]any))
			} else {
				file[k] = v
			}
		}
		return
	}
	var at any = file
	for {
		var next any
		switch x := at.(type) {
		case map[string]any:
			keys := slices.Sorted(maps.Keys(x))
			if len(keys) == 0 {
				return
			}
			k := keys[rng.IntN(len(keys))]
			if next = x[k]; inner(next) && rng.IntN(6) > 0 {
				break
			}
			if x[k] = changed(rng, next); rng.IntN(3) == 0 {
				delete(x, k)
			}
			return
		case map[any]any:
			return
		case []any:
			if len(x) == 0 {
				return
			}
			i := rng.IntN(len(x))
			if next = x[i]; inner(next) && rng.IntN(6) > 0 {
				break
			}
			x[i] = changed(rng, next)
			return
		}
		at = next
	}
}

// inner reports whether the value holds others.
func inner(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// changed returns another value.
func changed(rng *rand.Rand, v any) any {
	if n, ok := v.(int); ok && rng.IntN(2) == 0 {
		return float64(n) * []float64{.01, .1, .5, 2, 10, 1000}[rng.IntN(6)]
	}
	return mutations[rng.IntN(len(mutations))]
}

// streamsOfTwoSizes serves streams of a detector of two sizes.
const streamsOfTwoSizes = `name: boxes
tasks: [{name: boxes, total_ms: 1000, quality: {small: 0.88, large: 0.9}}]
variants: [{name: small}, {name: large}]
hosts: [{name: h1, memory: 4GiB}, {name: h2, memory: 4GiB}]
replicas: [{variant: small, hosts: [h1, h2], memory: 30%}, {variant: large, hosts: [h1, h2], memory: 30%}]
profiles: [{variant: small, batch_ms: {1: 15, 8: 50}, weight_bytes: 20_000_000}, {variant: large, batch_ms: {1: 30, 8: 100}, weight_bytes: 80_000_000}]
serving: {streams: {task: boxes, input: {encoding: jpeg}}}
`
