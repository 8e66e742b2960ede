package traces

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// zipped is text compressed.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Traces as they are published, and as those who have them keep them: each says the same two
// requests, three seconds apart.
func TestTracesAsUsersHaveThem(t *testing.T) {
	const burst = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,72,18,90,Conversation log\n6,GPT-4,17,0,17,API log\n8,GPT-4,48,10,58,API log\n"
	for name, text := range map[string]string{
		"burst.csv":         burst,
		"burst_2.csv":       "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total tokens,Log Type\n5.5,s1,9.1,ChatGPT,72,18,90,Conversation log\n6,,0.1,GPT-4,17,0,17,API log\n8.5,s2,1,GPT-4,48,10,58,API log\n",
		"burst_failed.csv":  "timestamp,request TOKENS, Response tokens \n5,0,0\n5,72,18\n8,48,10\n",
		"mooncake.jsonl":    `{"timestamp": 0, "input_length": 72, "output_length": 18, "hash_ids": [0]}` + "\n" + `{"timestamp": 3000, "input_length": 48, "output_length": 10, "hash_ids": [0, 1]}` + "\n" + `{"timestamp": 3001, "input_length": 48, "output_length": 0, "hash_ids": []}`,
		"mooncake":          `{"timestamp": 1731000001562, "input_length": 72, "output_length": 18}` + "\n" + `{"timestamp": 1731000004562, "input_length": 48, "output_length": 10}` + "\n" + `{"timestamp": 1731000004562, "input_length": 0, "output_length": 10}`,
		"vidur.csv":         "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,72,18\n3.0,48,10\n4.0,48,0\n",
		"vidur_more.csv":    "Unnamed: 0,num_decode_tokens,arrived_at,num_prefill_tokens,num_total_tokens\n0,18,0.0,72,90\n1,10,3e0,48,58\n2,0,3.5,48,58\n",
		"azure_2023.csv":    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,72,18\r\n2023-11-16 18:17:06.9799600,48,10\r\n2023-11-16 18:17:07,48,0\r\n\r\n\r\n",
		"azure_2024.csv":    "TIMESTAMP,ContextTokens,GeneratedTokens\n2024-05-10 00:00:00.009930+00:00,72,18\n2024-05-10 02:00:03.009930+02:00,48,10\n2024-05-10 00:00:04+00:00,0,10\n",
		"azure_mm.csv":      "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2025-01-16T18:17:03Z,2,72,18\n2025-01-16T18:17:06Z,0,48,10\n2025-01-16T18:17:06Z,1,48,0\n",
		"pandas.csv":        ",TIMESTAMP,ContextTokens,GeneratedTokens\n0,2023-11-16 18:17:03.97,72.0,1.8e1\n1,2023-11-16 18:17:06.97,48.0,10.0\n2,2023-11-16 18:17:06.97,48.0,0.0\n",
		"quoted.csv":        `"TIMESTAMP","ContextTokens","GeneratedTokens"` + "\n" + `"2023-11-16T18:17:03.970000000123+0000","72","18"` + "\n" + `"2023-11-16T18:17:06.970000000456+0000"," 48 ","10"` + "\n" + `"2023-11-16T18:17:06.98Z","48","0"`,
		"epoch.csv":         "timestamp,contexttokens,generatedtokens,model\n1731000001.5,72,18,x\n1731000004.5,48,10,x\n1731000004.5,0,0,x\n",
		"epoch_ms.csv":      "timestamp,contexttokens,generatedtokens\n1731000001500,72,18\n1731000004500,48,10\n1731000004500,0,0\n",
		"epoch_ns.csv":      "timestamp,contexttokens,generatedtokens\n1731000001500000001,72,18\n1731000004500000001,48,10\n1731000004500000001,0,0\n",
		"own.csv":           "\ufeffAt_S,task,prompt_tokens,output_tokens\n0,,72,18\n3,,48,10\n3,,0,1\n",
		"own.jsonl":         `{"at_s":"0","prompt_tokens":72.0,"output_tokens":"18","model":"x","user":{"id":[1]}}` + "\r\n" + `{"AT_S":3,"prompt_tokens":4.8e1,"output_tokens":10}` + "\n" + `{"at_s":3,"prompt_tokens":1,"output_tokens":0}` + "\n\n",
		"zipped.csv.gz":     zipped(t, burst),
		"zipped, no suffix": zipped(t, "\ufeff"+burst),
		"zipped.jsonl.gz":   zipped(t, `{"at_s":0,"prompt_tokens":72,"output_tokens":18}`+"\n"+`{"at_s":3,"prompt_tokens":48,"output_tokens":10}`+"\n"+`{"at_s":3,"prompt_tokens":48,"output_tokens":0}`),
		"empty_rows.csv":    strings.ReplaceAll(burst, "6,GPT-4,17,0,17,API log\n", "\n   \n6,GPT-4,17,0,17,API log\n") + ",,,,,\n \n",
	} {
		trace, err := (Reading{}).Read(name, strings.NewReader(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if len(trace.Records) != 2 || trace.Skipped != 1 {
			t.Errorf("%s: %d requests, %d without tokens; want 2, 1", name, len(trace.Records), trace.Skipped)
			continue
		}
		a, b := trace.Records[0], trace.Records[1]
		if gap := b.At - a.At; (gap-3*time.Second).Abs() > time.Microsecond || a.PromptTokens != 72 || a.OutputTokens != 18 || b.PromptTokens != 48 || b.OutputTokens != 10 {
			t.Errorf("%s: %+v, %+v", name, a, b)
		}
	}
}

// Requests without tokens are kept where that is asked for.
func TestZeroTokensAreKeptOnRequest(t *testing.T) {
	const text = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.97,48,10\n2023-11-16 18:17:04.03,110,0\n2023-11-16 18:17:04.04,0,7\n"
	trace, err := (Reading{KeepZero: true}).Read("zero.csv", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(trace.Records) != 3 || trace.Skipped != 2 || trace.Records[1].OutputTokens != 1 || trace.Records[2].PromptTokens != 1 {
		t.Errorf("%+v", trace)
	}
}

// failing fails once its text has been read.
type failing struct{ io.Reader }

var errReached = errors.New("reached")

func (f failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err == io.EOF {
		err = errReached
	}
	return n, err
}

// What follows the requests that are wanted is not read: not if it is broken, not if it has no
// end, and not to be unpacked.
func TestNoMoreIsReadThanWanted(t *testing.T) {
	var rows strings.Builder
	rows.WriteString("arrived_at,num_prefill_tokens,num_decode_tokens\n")
	for i := range 20_000 {
		fmt.Fprintf(&rows, "%d,72,%d\n", i, i%2)
	}
	broken := rows.String()[:2000] + "\nnonsense\n" + strings.Repeat("x", 100_000)
	for name, r := range map[string]io.Reader{
		"rows.csv": failing{strings.NewReader(rows.String())}, "broken.csv": failing{strings.NewReader(broken)},
		"endless.csv": io.MultiReader(strings.NewReader(rows.String()), neverEnding{}), "zipped.csv": failing{strings.NewReader(zipped(t, rows.String()))},
	} {
		trace, err := (Reading{Requests: 50}).Read(name, r)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if len(trace.Records) != 50 || trace.Skipped != 50 {
			t.Errorf("%s: %d requests, %d without tokens", name, len(trace.Records), trace.Skipped)
		}
	}
	if _, err := (Reading{}).Read("rows.csv", failing{strings.NewReader(rows.String())}); !errors.Is(err, errReached) {
		t.Errorf("all of it: error %v", err)
	}
}

// neverEnding is one line that never ends.
type neverEnding struct{}

func (neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '1'
	}
	return len(p), nil
}

// A file that unpacks to a line without end is refused, at no more memory than a line's.
func TestALineWithoutEndIsRefused(t *testing.T) {
	for _, head := range []string{"arrived_at,num_prefill_tokens,num_decode_tokens\n1,", "", "\""} {
		_, err := (Reading{}).Read("bomb.csv", io.MultiReader(strings.NewReader(head), neverEnding{}))
		if !errors.Is(err, errLongLine) {
			t.Errorf("%q: error %v", head, err)
		}
	}
}
