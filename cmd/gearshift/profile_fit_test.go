package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

const realLog = "../../env/fit/testdata/vllm_rtx4090.jsonl"

func TestProfileFitRefuses(t *testing.T) {
	few := firstRows(t, 10)
	fail(t, []string{"profile", "fit"}, "--requests FILE is missing")
	fail(t, []string{"profile", "fit", "--requests", "none.jsonl"}, "cannot read the request log", "none.jsonl")
	fail(t, []string{"profile", "fit", "--requests", few}, few, "10 requests are too few to fit; at least 30")
	fail(t, []string{"profile", "fit", "--requests", write(t, "x.jsonl", "{\n")}, "x.jsonl:1", "not a JSON object")
	fail(t, []string{"profile", "fit", "--requests", realLog, "--kv-tokens", "-1"}, "--kv-tokens -1 is negative")
	fail(t, []string{"profile", "fit", "--requests", realLog, "--kv-tokens", "64"}, "does not fit into a KV cache of 64")
	fail(t, []string{"profile", "fit", "--requests", realLog, "--date", "today"}, "--date", "YYYY-MM-DD")
	fail(t, []string{"profile", "fit", "--requests", realLog, "more"}, "more")
	fail(t, []string{"profile", "fitt"}, `unknown command "fitt"`, "fit, gpu, measure")
}

// firstRows is a file with the first rows of the real log.
func firstRows(t *testing.T, n int) string {
	t.Helper()
	text, err := os.ReadFile(realLog)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "rows.jsonl", strings.Join(strings.SplitAfterN(string(text), "\n", n+1)[:n], ""))
}

func TestValidateRefuses(t *testing.T) {
	fail(t, []string{"validate"}, "--requests FILE is missing")
	fail(t, []string{"validate", "--requests", realLog}, "--fit-first N is missing", "at least 30")
	fail(t, []string{"validate", "--requests", realLog, "--fit-first", "10"}, "--fit-first 10", "at least 30")
	fail(t, []string{"validate", "--requests", realLog, "--fit-first", "300"}, "--fit-first 300 of 300 requests leaves none to predict")
	fail(t, []string{"validate", "--requests", realLog, "--fit-first", "many"}, "--fit-first", "many")
	fail(t, []string{"validate", "--requests", realLog, "--fit-first", "150", "--format", "xml"}, "--format", "table or json")
	fail(t, []string{"validate", "--requests", realLog, "--fit-first", "150", "--deadline", "-1"}, "--deadline -1")
}

func TestValidateFormats(t *testing.T) {
	quick := []string{"validate", "--requests", firstRows(t, 100), "--fit-first", "60", "--resamples", "0", "--max-batch-tokens", "2048", "--deadline", "80"}
	table := succeed(t, quick...)
	for _, word := range []string{"fitted to the first 60 requests, the other 40 predicted", "end to end", "TTFT", "TPOT", "within 80 ms per token", "KV cache"} {
		if !strings.Contains(table, word) {
			t.Errorf("no %q in\n%s", word, table)
		}
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(succeed(t, append(quick, "--format", "json")...)), &v); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"e2e_error", "ttft_error", "tpot_error"} {
		e, ok := v[key].(map[string]any)
		median, p90 := e["median"], e["p90"]
		if m, ok2 := median.(float64); !ok || !ok2 || m < 0 || m > 0.2 || p90.(float64) < m {
			t.Errorf("%s: %v", key, v[key])
		}
	}
	if v["requests"] != 40.0 || v["fitted_on"] != 60.0 || v["deadline"].(map[string]any)["measured"] == nil {
		t.Errorf("%v", v)
	}
}

// A log with a failed request is fitted without it; one in milliseconds is fitted as it is, with a warning.
func TestFitOfALogAsUsersHaveIt(t *testing.T) {
	log := func(scale float64, failed string) string {
		var b strings.Builder
		for i := range 40 {
			at := 1731000000 + float64(i)
			fmt.Fprintf(&b, `{"input_toks":%d,"output_toks":21,"arrival_time":%.3f,"first_token_ts":%.3f,"last_token_ts":%.3f}`+"\n", 50+i, at*scale, (at+0.05)*scale, (at+0.45)*scale)
		}
		return write(t, "log.jsonl", b.String()+failed)
	}
	for _, c := range []struct{ file, want string }{
		{log(1, ""), ""},
		{log(1, `{"input_toks":41,"output_toks":0,"arrival_time":1731000001.5,"first_token_ts":null,"last_token_ts":null}`), "1 of 41 requests failed, with no tokens or an error, and are left out"},
		{log(1000, ""), "steps of 20 s a token in the median, a time of 1731000000050 s: doubtful; milliseconds? want seconds"},
	} {
		for _, args := range [][]string{{"profile", "fit"}, {"validate", "--fit-first", "35"}} {
			code, out, notes := gearshift(t, append(args, "--requests", c.file, "--resamples", "0", "--max-batch-tokens", "2048")...)
			if code != 0 || out == "" || !strings.Contains(notes, c.want) || c.want == "" && strings.Contains(notes, "want seconds") {
				t.Errorf("%s: code %d, %s; want %q", args, code, notes, c.want)
			}
		}
	}
}
