package fit

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Logs as those who have them keep them: each says the same two requests, and has one more that
// failed.
func TestLogsAsUsersHaveThem(t *testing.T) {
	const rows = `{"input_toks": 41, "output_toks": 59, "arrival_time": 100.5, "first_token_ts": 101.5, "last_token_ts": 105.5}
{"input_toks": 12, "output_toks": 0, "arrival_time": 101, "first_token_ts": null, "last_token_ts": null}
{"input_toks": 7, "output_toks": 2, "arrival_time": 103.5, "first_token_ts": 104, "last_token_ts": 105}`
	const csv = "id,input_tokens,output_tokens,arrival,first_token,last_token,error\na,41,59,100.5,101.5,105.5,\nb,12,3,101,,,timeout\nc,7.0,2e0,103.5,104,105,None\n"
	var zipped bytes.Buffer
	w := gzip.NewWriter(&zipped)
	if _, err := w.Write([]byte(rows)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"rows": rows, "carriage returns": strings.ReplaceAll(rows, "\n", "\r\n") + "\r\n\r\n", "a mark": "\ufeff" + rows, "zipped": zipped.String(),
		"other names": strings.NewReplacer("input_toks", "Prompt_Tokens", "output_toks", "completion_tokens", "arrival_time", "ARRIVAL").Replace(rows),
		"quoted":      strings.NewReplacer("41", `"41"`, "59", `"59.0"`, "100.5", `" 100.5"`).Replace(rows),
		"pandas":      strings.NewReplacer("41", "41.0", "59", "5.9e1").Replace(rows),
		"dates": strings.NewReplacer("100.5", `"2024-11-07T17:20:00.5Z"`, "101.5", `"2024-11-07 17:20:01.500000000+00:00"`, "105.5", `"2024-11-07T18:20:05.5+0100"`,
			"103.5", `"2024-11-07 17:20:03.5"`, " 104", ` "2024-11-07 17:20:04 UTC"`, " 105}", ` "2024-11-07T17:20:05Z"}`).Replace(rows),
		"an error":  strings.Replace(rows, `"output_toks": 0`, `"output_toks": 5, "error": "timed out"`, 1),
		"a success": strings.Replace(rows, `"output_toks": 0`, `"output_toks": 5, "success": false`, 1),
		"more":      strings.ReplaceAll(rows, `{`, `{"model": {"name": [1]}, "error": null, "ok": true, `),
		"columns":   csv, "columns and lines": strings.ReplaceAll(csv, "\n", "\r\n\r\n"),
	} {
		log, err := ReadLog(strings.NewReader(text), name, 0)
		if err != nil {
			t.Error(err)
			continue
		}
		if len(log.Requests) != 2 || log.Failed != 1 || log.Doubt != "" {
			t.Errorf("%s: %d requests, %d failed, %s", name, len(log.Requests), log.Failed, log.Doubt)
			continue
		}
		a, b := log.Requests[0], log.Requests[1]
		if a.PromptTokens != 41 || a.OutputTokens != 59 || b.PromptTokens != 7 || b.Arrival < 2.999 || b.Arrival > 3.001 || a.TTFT() < 0.999 || a.TTFT() > 1.001 || b.Last < 4.499 || b.Last > 4.501 {
			t.Errorf("%s: %+v, %+v", name, a, b)
		}
	}
}

// Times in another unit than seconds are noticed, whatever the clock, and none of a real log.
func TestAnotherUnitIsNoticed(t *testing.T) {
	for _, clock := range []float64{0, 1731000000} {
		for unit, scale := range map[string]float64{"milliseconds": 1e3, "microseconds": 1e6, "nanoseconds": 1e9} {
			var text strings.Builder
			for i := range 40 {
				at := clock + float64(i)
				fmt.Fprintf(&text, `{"input_toks":100,"output_toks":21,"arrival_time":%.0f,"first_token_ts":%.0f,"last_token_ts":%.0f}`+"\n", at*scale, (at+0.05)*scale, (at+0.45)*scale)
			}
			log, err := ReadLog(strings.NewReader(text.String()), "x", 0)
			doubt := fmt.Sprint(err)
			if err == nil {
				doubt = log.Doubt
			}
			if !strings.Contains(doubt, unit+"? want seconds") {
				t.Errorf("%s from %g on: %s", unit, clock, doubt)
			}
		}
	}
	file, err := os.Open("testdata/vllm_rtx4090.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if log, err := ReadLog(file, "x", 0); err != nil || log.Doubt != "" {
		t.Errorf("a log in seconds: %+v, %v", log, err)
	}
}
