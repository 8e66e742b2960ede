package workloads

import (
	"bytes"
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/workloads/traces"
)

const (
	azureFile = "traces/testdata/AzureLLMInferenceTrace_code.csv"
	arenaFile = "traces/testdata/arena_real_trace.csv"
)

// loaded is a trace of a file, or one that is built in.
func loaded(ref string) *Trace {
	t, err := traces.Reading{}.Load(ref)
	if err != nil {
		panic(err)
	}
	return (*Trace)(t)
}

// read is a trace of a text.
func read(text string) *Trace {
	t, err := traces.Reading{}.Read("t.jsonl", strings.NewReader(text))
	if err != nil {
		panic(err)
	}
	return (*Trace)(t)
}

// The traces measure as testdata/README.md says.
func TestRecordedTraces(t *testing.T) {
	for file, want := range map[string]Statistics{
		azureFile: {Requests: 8819, Duration: 3436, MeanRate: 2.57, GapCV: 13.15, IDC1: 13.2, IDC10: 71.9, Peak: 67, MeanPrompt: 2048, MeanOutput: 27.88},
		arenaFile: {Requests: 1500, Duration: 600, MeanRate: 2.5, GapCV: 1.105, IDC1: 1.387, IDC10: 2.557, Peak: 11, MeanPrompt: 136.3, MeanOutput: 256.2},
	} {
		s, err := loaded(file).Open(twoTasks, tokens, true, 1)
		if err != nil {
			t.Fatal(err)
		}
		got := Measure(s)
		if got.Requests != want.Requests || got.Peak != want.Peak {
			t.Errorf("%s: %d requests, peak %d; want %d, %d", file, got.Requests, got.Peak, want.Requests, want.Peak)
		}
		near(t, "duration", got.Duration, want.Duration, 0.001)
		near(t, "mean rate", got.MeanRate, want.MeanRate, 0.002)
		near(t, "gap CV", got.GapCV, want.GapCV, 0.002)
		near(t, "IDC(1 s)", got.IDC1, want.IDC1, 0.002)
		near(t, "IDC(10 s)", got.IDC10, want.IDC10, 0.002)
		near(t, "mean prompt", got.MeanPrompt, want.MeanPrompt, 0.001)
		near(t, "mean output", got.MeanOutput, want.MeanOutput, 0.001)
	}
}

func TestRescaled(t *testing.T) {
	trace := loaded(azureFile)
	fast := must(trace.Rescaled(5))
	near(t, "mean rate", fast.MeanRate(), 5, 1e-6)
	if fast.Records[0].At != 0 || len(fast.Records) != len(trace.Records) || trace.MeanRate() > 2.6 {
		t.Error("rescaling moved the start, lost a record or changed the original")
	}
	for i := range fast.Records {
		ratio := fast.Records[i].At.Seconds() / max(trace.Records[i].At.Seconds(), 1e-3)
		if i > 0 && math.Abs(ratio-trace.MeanRate()/5) > 1e-3 {
			t.Fatalf("record %d moved by a factor of %v", i, ratio)
		}
	}
	for _, rate := range []float64{0, -1, math.NaN(), 1e12} {
		if _, err := trace.Rescaled(rate); err == nil {
			t.Errorf("a rate of %v is accepted", rate)
		}
	}
	burst := &Trace{Name: "burst", Records: []Record{{At: 0, PromptTokens: 1, OutputTokens: 1}, {At: 0, PromptTokens: 1, OutputTokens: 1}}}
	if _, err := burst.Rescaled(1); err == nil || !strings.Contains(err.Error(), "all its requests arrive at once") {
		t.Errorf("a burst: %v", err)
	}
	if _, err := (&Trace{Name: trace.Name, Records: trace.Records[:1]}).Rescaled(1); err == nil || !strings.Contains(err.Error(), "of one request alone there is no rate") {
		t.Errorf("one request: %v", err)
	}
	slow := &Trace{Name: "slow", Records: []Record{{At: 0, PromptTokens: 1, OutputTokens: 1}, {At: 9e9 * time.Second, PromptTokens: 1, OutputTokens: 1}, {At: 9e9 * time.Second, PromptTokens: 1, OutputTokens: 1}}}
	if _, err := slow.Rescaled(minRate / 1e3); err == nil {
		t.Error("a rate below the least is accepted")
	}
}

// A trace gives the arrivals, and the token counts only if asked; its tasks, where
// it names any, are kept, and the others' draws do not shift.
func TestTraceOpen(t *testing.T) {
	text := `{"at_s":0,"prompt_tokens":5,"output_tokens":6}
{"at_s":1,"task":"search","prompt_tokens":700,"output_tokens":800}
{"at_s":2,"task":"chat","prompt_tokens":9,"output_tokens":10}
{"at_s":3,"prompt_tokens":11,"output_tokens":12}`
	trace := read(text)
	begin := func(trace *Trace, lengths bool) []Arrival {
		s, err := trace.Open(twoTasks, tokens, lengths, 1)
		if err != nil {
			t.Fatal(err)
		}
		return collect(s, 10)
	}
	plain, own := begin(trace, false), begin(trace.Fitting(1000), true)
	anonymous := begin(trace.mapped(func(r *Record) { r.Task = "" }), false)
	for i := range 4 {
		if plain[i].At != time.Duration(i)*time.Second || plain[i].Rate != 0 {
			t.Errorf("arrival %d is %+v", i, plain[i])
		}
		if plain[i].PromptTokens != 90 || plain[i].OutputTokens != 256 {
			t.Errorf("arrival %d has the trace's lengths: %+v", i, plain[i])
		}
		want := [2]int{trace.Records[i].PromptTokens, trace.Records[i].OutputTokens}
		if i == 1 {
			want = [2]int{500, 500} // it does not fit
		}
		if got := [2]int{own[i].PromptTokens, own[i].OutputTokens}; got != want {
			t.Errorf("arrival %d has lengths %v; want %v", i, got, want)
		}
	}
	if plain[1].Task != 1 || plain[2].Task != 0 {
		t.Errorf("the trace's tasks are not kept: %+v", plain)
	}
	if plain[0] != anonymous[0] || plain[3] != anonymous[3] {
		t.Error("a task that is named shifts the draws of the others")
	}
	_, err := trace.Open(fourTasks, tokens, false, 1)
	if want := `t.jsonl:2: column task: "search" is not a task of this fleet; one of hellaswag, copa, piqa, openbookqa would be right`; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

// What fits stays as it is, however it is divided; of the rest the output is cut first,
// down to half.
func TestFit(t *testing.T) {
	for _, c := range []struct{ prompt, output, fits, wantPrompt, wantOutput int }{
		{7000, 3000, 10_000, 7000, 3000},
		{3000, 7000, 10_000, 3000, 7000},
		{3000, 8000, 10_000, 3000, 7000},
		{7000, 4000, 10_000, 6000, 4000},
		{7000, 8000, 10_000, 5000, 5000},
		{20_000, 1, 10_000, 9999, 1},
		{1, 20_000, 10_000, 1, 9999},
		{7000, 8000, 0, 7000, 8000},
	} {
		if p, o := Fit(c.prompt, c.output, c.fits); p != c.wantPrompt || o != c.wantOutput {
			t.Errorf("%+v: %d and %d tokens", c, p, o)
		}
	}
}

// What WriteTrace writes reads back as the same stream, to the nanosecond.
func TestWriteTrace(t *testing.T) {
	begin := func() Stream {
		s, err := New(U1{}, fourTasks, optShape, Seed(Serving, 1), Limit{Requests: 20_000})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var file bytes.Buffer
	n, err := WriteTrace(&file, begin(), fourTasks)
	if err != nil || n != 20_000 {
		t.Fatalf("wrote %d requests, error %v", n, err)
	}
	back, err := read(file.String()).Open(fourTasks, tokens, true, 99)
	if err != nil {
		t.Fatal(err)
	}
	want, all := collect(begin(), n), collect(back, n+1)
	if len(all) != n {
		t.Fatalf("%d requests came back of %d", len(all), n)
	}
	for i, got := range all {
		want[i].Rate = 0
		if got != want[i] {
			t.Fatalf("request %d came back as %+v from %+v", i, got, want[i])
		}
	}
}

// FuzzReadTrace holds that a trace of any form is refused in one line, or is in
// order and within bounds, and reads back as the same from what writes it.
func FuzzReadTrace(f *testing.F) {
	const csv, jsonl, unnamed = 0, 1, 2
	for form, texts := range [][]string{
		csv: {
			"TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8",
			"req_time_s,client,prompt_len,output_len\n0.0,13,13,199\n0.2,2,36,137\n",
			"Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,A,72,18,90,Conversation log\n45,B,17,0,17,API log\n",
			",TIMESTAMP,ContextTokens,GeneratedTokens\n0,2023-11-16T18:17:03.97Z,48.0,1e1\n,,,\n",
			"arrived_at,num_prefill_tokens,num_decode_tokens\n1.5,\"7\",9\n", "timestamp,input_length,output_length\n1731000001562.1724,7,9\n",
			"\ufeffreq_time_s,client,prompt_len,output_len\n\"0",
		},
		jsonl:   {`{"at_s":0.25,"task":"copa","prompt_tokens":90,"output_tokens":256}` + "\n\n" + `{"at_s":1e3,"prompt_tokens":1,"output_tokens":1}`},
		unnamed: {`{"timestamp": 0, "input_length": 67, "output_length": 50, "hash_ids": [0]}`, "\x1f\x8b\x08", "{}", `{"at_s":0.25,"prompt_tokens":90,"output_tokens":256}`},
	} {
		for _, text := range texts {
			f.Add(uint8(form), text)
		}
	}
	f.Fuzz(func(t *testing.T, form uint8, text string) {
		recorded, err := traces.Reading{}.Read([]string{"a.csv", "b.jsonl", "c"}[form%3], strings.NewReader(text))
		if err != nil {
			if recorded != nil {
				t.Error("a trace with an error")
			}
			return
		}
		trace := (*Trace)(recorded)
		var last time.Duration
		for _, r := range trace.Records {
			if r.At < last || r.Line < 1 || min(r.PromptTokens, r.OutputTokens) < 1 || max(r.PromptTokens, r.OutputTokens) > MaxTokens {
				t.Fatalf("record %+v after %v", r, last)
			}
			last = r.At
		}
		var written bytes.Buffer
		rest := trace.Records
		if n, err := traces.Write(&written, func() (Record, bool) {
			if len(rest) == 0 {
				return Record{}, false
			}
			r := rest[0]
			rest = rest[1:]
			return r, true
		}); err != nil || n != len(trace.Records) {
			t.Fatalf("wrote %d records, error %v", n, err)
		}
		if _, err := trace.Rescaled(5); err == nil && trace.MeanRate() <= 0 {
			t.Errorf("rescaled from a rate of %v", trace.MeanRate())
		}
		again, err := traces.Reading{}.Read("again.jsonl", &written)
		if err != nil || len(again.Records) != len(trace.Records) {
			t.Fatalf("written and read again: %v", err)
		}
		for i, r := range again.Records {
			// Seconds are read as a float, whose digits end somewhere.
			if want := trace.Records[i]; (r.At-want.At).Abs() > 1+want.At>>50 || r.PromptTokens != want.PromptTokens || r.OutputTokens != want.OutputTokens {
				t.Errorf("record %+v came back as %+v", want, r)
			}
		}
	})
}
