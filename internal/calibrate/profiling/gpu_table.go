package profiling

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// gpuTableVersion of the format that is read.
const gpuTableVersion = 1

// GPUTable is all that was measured.
type GPUTable struct {
	Name    string
	Machine GPUMachine
	Models  []GPUModel
	Steps   []GPUStep
	Moves   []GPUTransfer
	// Notes say what was left out, and why.
	Notes []string
	// MemoryBytes is the device's memory; 0 if it was not reported.
	MemoryBytes int64
	// Cut is that the run did not come to its end, and Complete that it left nothing out.
	Cut, Complete bool
	Seconds       float64
}

// GPUMachine is what the table was measured on. What the machine did not report is empty.
type GPUMachine struct {
	Version int    `json:"version"`
	Date    string `json:"date"`
	Device  string `json:"device"`
	GPU     string `json:"gpu"`
	Driver  string `json:"driver"`
	CUDA    string `json:"cuda"`
	Torch   string `json:"torch"`
	Mode    string `json:"compute_mode"`
	Power   string `json:"power_limit"`
	MIG     string `json:"mig"`
	CPU     string `json:"cpu"`
	Cores   int    `json:"cores"`
	Memory  int64  `json:"memory_bytes"`
	System  string `json:"system"`
	Type    string `json:"dtype"`
	// Graphs is that steps were launched as CUDA graphs, except those that say otherwise.
	Graphs bool `json:"graphs"`
	// MPS is that NVIDIA's multi-process service ran, which replaces time slicing.
	MPS    bool    `json:"mps"`
	Budget float64 `json:"budget_s"`
}

// GPUModel is a decoder that was measured.
type GPUModel struct {
	Name        string `json:"model"`
	Layers      int    `json:"layers"`
	Hidden      int    `json:"hidden"`
	WeightBytes int64  `json:"weight_bytes"`
	KVBytes     int64  `json:"kv_bytes_per_token"`
	// ActivationBytes is what it took at most next to weights and KV cache; 0 if that was
	// not reported.
	ActivationBytes int64 `json:"activation_bytes"`
}

// GPUStep is a block of steps of one load.
type GPUStep struct {
	Line    int
	Prefill bool
	Model   string `json:"model"`
	GPULoad
	MS float64 `json:"step_ms"`
	// DeviceMS is the device's part of a step.
	DeviceMS float64       `json:"gpu_ms"`
	Steps    int           `json:"steps"`
	Repeat   int           `json:"repeat"`
	Graph    bool          `json:"graph"`
	Beside   []GPUActivity `json:"beside"`
}

// GPULoad is what a step has to do: decode so many sequences with so many tokens of context
// each, or read a prompt of so many tokens.
type GPULoad struct {
	Batch   int `json:"batch"`
	Context int `json:"context"`
	Tokens  int `json:"tokens"`
}

func (l GPULoad) String() string {
	if l.Tokens > 0 {
		return fmt.Sprintf("a prompt of %d", l.Tokens)
	}
	return fmt.Sprintf("%d with %d each", l.Batch, l.Context)
}

// GPUActivity is what a neighbour did meanwhile.
type GPUActivity struct {
	Model string `json:"model"`
	GPULoad
	AskedDuty float64 `json:"asked_duty"`
	// PerSecond is its steps, MS what one took, and DeviceMS the device's part of it. Of the
	// wait for the device, the latter has what came after the step had begun there.
	PerSecond float64 `json:"steps_per_s"`
	MS        float64 `json:"step_ms"`
	DeviceMS  float64 `json:"gpu_ms"`
}

// GPUTransfer is weights on the way: a load, a sleep, a wake, or the writing of the file to load.
type GPUTransfer struct {
	Line  int
	Kind  string
	Model string `json:"model"`
	From  string `json:"from"`  // of a load: disk, pinned or pageable
	Cache string `json:"cache"` // of a load from disk: direct, dropped, warm or unknown
	// Pinned is that a sleeping model's host memory was pinned.
	Pinned bool    `json:"pinned"`
	Bytes  int64   `json:"bytes"`
	Load   float64 `json:"load_ms"`
	Sleep  float64 `json:"sleep_ms"`
	Wake   float64 `json:"wake_ms"`
	Write  float64 `json:"write_ms"`
}

// MS returns how long it took.
func (m *GPUTransfer) MS() float64 { return m.Load + m.Sleep + m.Wake + m.Write }

// ReadGPUTable reads a table. A last line without an end is left out: the run was cut while it was
// written.
func ReadGPUTable(r io.Reader, name string) (*GPUTable, error) {
	t := &GPUTable{Name: name, Cut: true}
	lines := bufio.NewReader(r)
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break // what comes without an end of its line was not written whole
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", name, err)
		}
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		if err := t.row(n, line); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
	return t, t.check()
}

// row adds a line to the table.
func (t *GPUTable) row(n int, line []byte) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return fmt.Errorf("not JSON: %w", err)
	}
	if t.Machine.Version == 0 && head.Kind != "machine" {
		return fmt.Errorf(`a row of kind %q comes first; want "machine"`, head.Kind)
	}
	switch head.Kind {
	case "machine":
		if err := json.Unmarshal(line, &t.Machine); err != nil {
			return err
		}
		if t.Machine.Version != gpuTableVersion {
			return fmt.Errorf("version %d of the table's format; this program reads version %d", t.Machine.Version, gpuTableVersion)
		}
		return nil
	case "model":
		return t.model(line)
	case "decode", "prefill":
		return t.step(GPUStep{Line: n, Prefill: head.Kind == "prefill"}, line)
	case "load", "sleep", "wake", "write":
		return t.move(GPUTransfer{Line: n, Kind: head.Kind}, line)
	}
	return t.other(head.Kind, line)
}

func (t *GPUTable) model(line []byte) error {
	var m GPUModel
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	if t.Model(m.Name) != nil {
		return fmt.Errorf("model %q comes twice", m.Name)
	}
	if m.Name == "" || m.WeightBytes <= 0 || m.KVBytes <= 0 {
		return errors.New("a model needs a name in model, and weight_bytes and kv_bytes_per_token above 0")
	}
	t.Models = append(t.Models, m)
	return nil
}

func (t *GPUTable) step(s GPUStep, line []byte) error {
	if err := json.Unmarshal(line, &s); err != nil {
		return err
	}
	if err := t.known(s.Model); err != nil {
		return err
	}
	if !(s.MS > 0) || !(s.DeviceMS > 0) || s.DeviceMS > 1.05*s.MS {
		return fmt.Errorf("step_ms %g, gpu_ms %g: want times above 0, and the device's part within the step", s.MS, s.DeviceMS)
	}
	if s.Prefill && s.Tokens <= 0 || !s.Prefill && (s.Batch <= 0 || s.Context <= 0) {
		return errors.New("want tokens above 0 for prefill, and batch and context for decode")
	}
	for _, a := range s.Beside {
		if err := t.known(a.Model); err != nil {
			return err
		}
		if a.PerSecond < 0 || a.MS < 0 || a.DeviceMS < 0 {
			return fmt.Errorf("neighbour %s: steps_per_s %g, step_ms %g, gpu_ms %g: want at least 0", a.Model, a.PerSecond, a.MS, a.DeviceMS)
		}
	}
	t.Steps = append(t.Steps, s)
	return nil
}

func (t *GPUTable) move(m GPUTransfer, line []byte) error {
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	if err := t.known(m.Model); err != nil {
		return err
	}
	if m.Bytes <= 0 || !(m.MS() > 0) {
		if m.Kind == "write" {
			return nil // there was no time or room for the file
		}
		return fmt.Errorf("%d bytes in %g ms: want both above 0", m.Bytes, m.MS())
	}
	t.Moves = append(t.Moves, m)
	return nil
}

// other returns what the rest of the kinds say.
func (t *GPUTable) other(kind string, line []byte) error {
	var row struct {
		Model      string  `json:"model"`
		Words      string  `json:"words"`
		Memory     int64   `json:"gpu_memory_bytes"`
		Activation int64   `json:"activation_bytes"`
		Seconds    float64 `json:"seconds"`
		Complete   bool    `json:"complete"`
	}
	if err := json.Unmarshal(line, &row); err != nil {
		return err
	}
	switch kind {
	case "memory":
		t.MemoryBytes = row.Memory
	case "peak":
		if err := t.known(row.Model); err != nil {
			return err
		}
		t.Model(row.Model).ActivationBytes = row.Activation
	case "note":
		t.Notes = append(t.Notes, row.Words)
	case "end":
		t.Cut, t.Complete, t.Seconds = false, row.Complete, row.Seconds
	default:
		return fmt.Errorf("a row of unknown kind %q; want machine, memory, model, decode, prefill, peak, load, sleep, wake, write, note or end", kind)
	}
	return nil
}

func (t *GPUTable) known(model string) error {
	if t.Model(model) == nil {
		return fmt.Errorf("model %q has no row of kind model before", model)
	}
	return nil
}

// Model returns the model of a name, or nil.
func (t *GPUTable) Model(name string) *GPUModel {
	if i := slices.IndexFunc(t.Models, func(m GPUModel) bool { return m.Name == name }); i >= 0 {
		return &t.Models[i]
	}
	return nil
}

// check refuses a table that nothing can be made of.
func (t *GPUTable) check() error {
	switch {
	case t.Machine.Version == 0:
		return fmt.Errorf("%s: the table is empty; want JSON lines as make gpu writes them", t.Name)
	case len(t.Models) == 0:
		return fmt.Errorf("%s: no model was measured; the notes are %q", t.Name, t.Notes)
	}
	return nil
}
