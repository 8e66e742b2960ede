package profiling

import (
	"strings"
	"testing"
)

const (
	head  = `{"kind":"machine","version":1,"date":"2026-01-02","device":"cuda","gpu":"G","torch":"2.0","graphs":true,"cores":4,"memory_bytes":1000}` + "\n"
	small = `{"kind":"model","model":"small","layers":2,"hidden":64,"weight_bytes":100,"kv_bytes_per_token":8}` + "\n"
	large = `{"kind":"model","model":"large","layers":4,"hidden":96,"weight_bytes":300,"kv_bytes_per_token":16}` + "\n"
)

func read(text string) (*GPUTable, error) { return ReadGPUTable(strings.NewReader(text), "t.jsonl") }

func TestATableIsRead(t *testing.T) {
	got, err := read(head + `{"kind":"memory","gpu_memory_bytes":5000}` + "\n" + small + large +
		`{"kind":"decode","model":"small","batch":4,"context":64,"step_ms":2,"gpu_ms":1.5,"steps":10,"repeat":1,"graph":true,"beside":[{"model":"large","batch":8,"context":32,"asked_duty":0.5,"steps_per_s":50,"gpu_ms":9}]}` + "\n" +
		`{"kind":"prefill","model":"large","tokens":128,"step_ms":7,"gpu_ms":6.5,"steps":10}` + "\n\n" +
		`{"kind":"peak","model":"large","activation_bytes":77}` + "\n" +
		`{"kind":"load","model":"small","from":"disk","cache":"direct","bytes":100,"load_ms":3,"repeat":0}` + "\n" +
		`{"kind":"sleep","model":"small","pinned":true,"bytes":100,"sleep_ms":4}` + "\n" +
		`{"kind":"write","model":"small","bytes":0,"write_ms":0}` + "\n" +
		`{"kind":"note","words":"one thing"}` + "\n" +
		`{"kind":"end","seconds":12.5,"complete":true}` + "\n")
	if err != nil {
		t.Fatal(err)
	}
	if got.Machine.GPU != "G" || got.MemoryBytes != 5000 || got.Cut || !got.Complete || got.Seconds != 12.5 || len(got.Notes) != 1 {
		t.Errorf("%+v", got)
	}
	if len(got.Models) != 2 || got.Model("large").ActivationBytes != 77 || got.Model("none") != nil {
		t.Errorf("models %+v", got.Models)
	}
	s := got.Steps[0]
	if s.Prefill || s.Batch != 4 || s.Context != 64 || s.MS != 2 || s.DeviceMS != 1.5 || !s.Graph || s.Beside[0].PerSecond != 50 || s.Beside[0].Batch != 8 || s.Line != 5 {
		t.Errorf("step %+v", s)
	}
	if p := got.Steps[1]; !p.Prefill || p.Tokens != 128 || p.String() != "a prompt of 128" {
		t.Errorf("prefill %+v", p)
	}
	if len(got.Moves) != 2 || got.Moves[0].MS() != 3 || got.Moves[1].MS() != 4 || !got.Moves[1].Pinned {
		t.Errorf("moves %+v", got.Moves)
	}
}

// A run that was cut leaves a table, without the line that was being written.
func TestACutTableIsRead(t *testing.T) {
	got, err := read(head + small + `{"kind":"prefill","model":"small","tokens":16,"step_ms":7,"gpu_ms":6}` + "\n" + `{"kind":"decode","model":"small","ba`)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Cut || got.Complete || len(got.Steps) != 1 {
		t.Errorf("%+v", got)
	}
}

// Each fault is one line that says where and what.
func TestFaultsOfATable(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"empty":         {"", []string{"t.jsonl: ", "empty", "make gpu"}},
		"no model":      {head, []string{"t.jsonl: ", "no model"}},
		"not JSON":      {head + "hello\n", []string{"t.jsonl:2:", "not JSON"}},
		"no machine":    {small, []string{"t.jsonl:1:", `"model" comes first`, `"machine"`}},
		"version":       {`{"kind":"machine","version":2}` + "\n", []string{"t.jsonl:1:", "version 2", "version 1"}},
		"no version":    {`{"kind":"machine"}` + "\n", []string{"t.jsonl:1:", "version 0"}},
		"unknown kind":  {head + `{"kind":"dance"}` + "\n", []string{"t.jsonl:2:", `"dance"`, "decode"}},
		"unknown model": {head + small + `{"kind":"decode","model":"none","batch":1,"context":8,"step_ms":1,"gpu_ms":1}` + "\n", []string{"t.jsonl:3:", `"none"`}},
		"neighbour":     {head + small + `{"kind":"decode","model":"small","batch":1,"context":8,"step_ms":1,"gpu_ms":1,"beside":[{"model":"x"}]}` + "\n", []string{"t.jsonl:3:", `"x"`}},
		"twice":         {head + small + small, []string{"t.jsonl:3:", "twice"}},
		"no bytes":      {head + `{"kind":"model","model":"a"}` + "\n", []string{"t.jsonl:2:", "weight_bytes"}},
		"no time":       {head + small + `{"kind":"decode","model":"small","batch":1,"context":8}` + "\n", []string{"t.jsonl:3:", "step_ms 0"}},
		"negative":      {head + small + `{"kind":"decode","model":"small","batch":1,"context":8,"step_ms":-1,"gpu_ms":1}` + "\n", []string{"t.jsonl:3:", "step_ms -1"}},
		"more device":   {head + small + `{"kind":"decode","model":"small","batch":1,"context":8,"step_ms":1,"gpu_ms":2}` + "\n", []string{"t.jsonl:3:", "gpu_ms 2"}},
		"no load":       {head + small + `{"kind":"decode","model":"small","step_ms":1,"gpu_ms":1}` + "\n", []string{"t.jsonl:3:", "batch and context"}},
		"no prompt":     {head + small + `{"kind":"prefill","model":"small","step_ms":1,"gpu_ms":1}` + "\n", []string{"t.jsonl:3:", "tokens above 0"}},
		"wrong type":    {head + small + `{"kind":"decode","model":"small","batch":"one"}` + "\n", []string{"t.jsonl:3:", "batch"}},
		"no bytes move": {head + small + `{"kind":"wake","model":"small","wake_ms":3}` + "\n", []string{"t.jsonl:3:", "0 bytes"}},
	} {
		_, err := read(c.text)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %q is of several lines", name, err)
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q, want %q in it", name, err, want)
			}
		}
	}
}
