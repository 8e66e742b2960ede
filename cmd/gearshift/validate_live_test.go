package main

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"gearshift/internal/calibrate/validation"
)

// A router is validated as a whole, with the policy that it says it uses.
func TestValidateRouter(t *testing.T) {
	s := serveBefore(t, startEngine(t))
	var r validation.Report
	out := succeed(t, "validate", "--scenario", "tiny", "--url", s.url, "--loads", "0.9", "--time", "2s", "--format", "json", "--store", t.TempDir()+"/none.db")
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Runs) != 1 || r.Runs[0].Policy != "static:small" || r.Runs[0].Requests < 10 || math.Abs(r.Runs[0].TPOT.Predicted/r.Runs[0].TPOT.Measured-1) > 0.5 {
		t.Errorf("%s", out)
	}
	s.end(t)
}

func TestValidateLiveRefuses(t *testing.T) {
	against := func(args ...string) []string { return append([]string{"validate", "--scenario", "tiny"}, args...) }
	fail(t, []string{"validate", "--fit-first", "150"}, "--requests FILE is missing", "--scenario")
	fail(t, []string{"validate", "--scenario", "none"}, `"none"`)
	fail(t, against(), "nothing to validate", "--upstreams", "--url")
	fail(t, against("--loads", "0"), "--loads [0]")
	fail(t, against("--time", "0s"), "--time 0s")
	fail(t, against("--only", "huge"), `--only "huge"`, "small, large")
	fail(t, against("--tries", "0"), "--tries 0")
	fail(t, against("--volley", "-1"), "--volley -1")
	fail(t, against("--turns", "-1"), "--turns -1")
	fail(t, against("--turns", "2", "--url", "http://127.0.0.1:1"), "--turns", "--url")
	fail(t, against("--turns", "2", "--batches", "4"), "--batches [4]")
	fail(t, against("--out", t.TempDir()), "--out has no meaning without --turns")
	fail(t, against("--what", "alone,beside"), `--what "beside"`, "co-resident")
	fail(t, against("--format", "xml"), "table or json")
	fail(t, against("--resamples", "3"), "--resamples has no meaning with --scenario")
	fail(t, against("--requests", realLog, "--fit-first", "150"), "--scenario has no meaning with --requests")
	fail(t, against("--upstreams", "127.0.0.1"), "want the URL of an engine")
	fail(t, against("--url", "http://127.0.0.1:1"), "cannot reach http://127.0.0.1:1")
}

// A log is required where there is nothing else to validate, and the help says no more.
func TestTheHelpOfValidateRequiresNoLog(t *testing.T) {
	if out := succeed(t, "validate", "--help"); strings.Contains(out, "(required)") {
		t.Error(out)
	}
	if out := succeed(t, "profile", "fit", "--help"); !strings.Contains(out, "JSON lines or CSV (required)") {
		t.Error(out)
	}
}
