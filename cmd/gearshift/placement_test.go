//go:build !serveonly

package main

import (
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// candidate is a preset's features for policies that choose replicas.
const candidate = `
      observation: [{kind: host-rate, scale: [6, 6, 6]}, {kind: log-host-rate, scale: [3, 3, 3]}]
      candidate:
        - {kind: quality, scale: [1]}
        - {kind: in-flight, scale: [10]}
        - {kind: pace, scale: [1]}
        - {kind: harm, scale: [1]}
        - {kind: neighbours, scale: [10, 5]}`

// placingTiny is the tiny scenario with a quick preset that places, of two networks.
func placingTiny(t *testing.T) string {
	without := edited(t, "tiny", "      advice_margin: 0.02", "      #")
	return edited(t, without, "    quick:\n", "    quick:"+candidate+"\n")
}

func trainPlacing(t *testing.T, path, store string, flags ...string) string {
	t.Helper()
	out := succeed(t, append([]string{"train", "--scenario", path, "--preset", "quick", "--store", store, "--name", "placing"}, flags...)...)
	return regexp.MustCompile(`sha256 [0-9a-f]{64}`).FindString(out)
}

// N+M decisions straight are the same bytes as N, a stop, and M more, with this
// kind of policy too, and several of its networks.
func TestPlacementTrainingResumes(t *testing.T) {
	path, store := placingTiny(t), storePath(t)
	straight := trainPlacing(t, path, storePath(t), "--steps", "3000")
	trainPlacing(t, path, store, "--steps", "1234")
	if resumed := trainPlacing(t, path, store, "--steps", "3000", "--resume"); resumed == "" || resumed != straight {
		t.Errorf("resumed %s, straight %s", resumed, straight)
	}
}

// A policy that places beats every static size on the fleet that it was trained
// on, routes for one with another host, and does better there.
func TestPlacementCarriesOver(t *testing.T) {
	store := storePath(t)
	trainPlacing(t, placingTiny(t), store)
	grown := edited(t, "tiny", "  - {name: gpu0, memory: 8GiB}\n", "  - {name: gpu0, memory: 8GiB}\n  - {name: gpu1, memory: 8GiB}\n")
	grown = write(t, "grown.yaml", strings.ReplaceAll(succeed(t, "scenario", "show", grown), "hosts: [gpu0]", "hosts: [gpu0, gpu1]"))
	utility := map[string]float64{}
	for name, path := range map[string]string{"one": "tiny", "two": grown} {
		report := evaluate(t, "--scenario", path, "--store", store, "--policy", "placing", "--policy", "static:small", "--policy", "static:large",
			"--workload", "u1", "--seeds", "3", "--requests", "2000")
		for _, r := range report.Results {
			utility[name+" "+r.Policy] = r.Utility.Mean
		}
	}
	if u := utility["one placing@1"]; u < max(utility["one static:small"], utility["one static:large"])+0.03 || utility["two placing@1"] < u {
		t.Errorf("%v", utility)
	}
	fail(t, []string{"eval", "--scenario", "tiny", "--store", store, "--policy", "clairvoyant:placing"}, "placing", "chooses replicas")
}

// A stored policy that places serves.
func TestPlacementServes(t *testing.T) {
	store := filepath.Join(t.TempDir(), "policies.db")
	trainPlacing(t, placingTiny(t), store, "--steps", "500")
	s := serveTiny(t, "--store", store, "--policy", "placing")
	status, header, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":3}`)
	if status != http.StatusOK || header.Get("X-Gearshift-Policy") != "placing@1" {
		t.Errorf("status %d, header %v, %s", status, header, text)
	}
	s.end(t)
}
