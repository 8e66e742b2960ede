//go:build onnx && cgo

package onnx

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"gearshift/serving/backend/decoder"
)

// The execution providers.
const (
	CPU  = "cpu"
	CUDA = "cuda"
)

// Options of a model.
type Options struct {
	// Threads compute one step together; 0 is 1.
	Threads int
	// Provider is CPU (or empty) or CUDA.
	Provider string
	// MaxBytes bounds the model file, with the weights next to it; 0 is no bound.
	MaxBytes int64
}

// Model is a decoder in an ONNX Runtime session. It implements [decoder.Model].
//
// The cache of the running batch is one tensor for each layer's keys and values. A
// model whose attention writes its cache in place (GroupQueryAttention) adds a token
// to each row there. For one that concatenates, as Optimum exports most, a step reads
// one of two sets of padded tensors and writes the other, one token longer.
type Model struct {
	layout  *layout
	session *onnxruntime.DynamicAdvancedSession
	batch   *tensors // the running batch
	spare   *tensors // what the next step of a model that concatenates writes, or its batch moves into
	filled  []int    // tokens in the cache of each row
	bound   int      // tokens that the batch may come to, rows × the longest; 0 is none
	free    []*row   // to use again, with their memory; within the bound if they are several
	ids     input
	places  input
	mask    input
	logits  []float32
	in, out []onnxruntime.Value
}

// Open loads DIR/model.onnx. The library must be loaded. Errors say what is wrong
// with which file.
func Open(dir string, o Options) (*Model, error) {
	path := filepath.Join(dir, "model.onnx")
	m, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("cannot load model %s: %w", path, err)
	}
	return m, nil
}

func open(path string, o Options) (*Model, error) {
	l, err := layoutOf(path, o)
	if err != nil {
		return nil, err
	}
	session, err := newSession(path, l.inputs, l.outputs, o)
	if err != nil {
		return nil, err
	}
	return &Model{layout: l, session: session, batch: new(tensors), spare: new(tensors)}, nil
}

// oneLine is what the library says, which ends in a line end, and of a damaged file
// has whatever bytes are there; nil if it says nothing.
func oneLine(err error) error {
	if err == nil {
		return nil
	}
	text := strings.ToValidUTF8(err.Error(), string(utf8.RuneError))
	return errors.New(strings.Join(strings.Fields(text), " "))
}

func newOptions(o Options) (*onnxruntime.SessionOptions, error) {
	options, err := onnxruntime.NewSessionOptions()
	if err != nil {
		return nil, err
	}
	err = errors.Join(
		options.SetIntraOpNumThreads(max(1, o.Threads)),
		options.SetInterOpNumThreads(1),
		options.SetMemPattern(false), // lengths change at each step, and a plan is of one
		// Models that share the cores must not take them by waiting.
		options.AddSessionConfigEntry("session.intra_op.allow_spinning", "0"),
	)
	switch {
	case err != nil || o.Provider == "" || o.Provider == CPU:
	case o.Provider == CUDA:
		err = appendCUDA(options)
	default:
		err = fmt.Errorf("unknown execution provider %q; want %s or %s", o.Provider, CPU, CUDA)
	}
	if err != nil {
		_ = options.Destroy()
		return nil, err
	}
	return options, nil
}

func appendCUDA(options *onnxruntime.SessionOptions) error {
	cuda, err := onnxruntime.NewCUDAProviderOptions()
	if err != nil {
		return fmt.Errorf("this ONNX Runtime library has no CUDA: %w", err)
	}
	defer func() { _ = cuda.Destroy() }()
	if err := options.AppendExecutionProviderCUDA(cuda); err != nil {
		return fmt.Errorf("CUDA cannot be used: %w", err)
	}
	return nil
}

// Layout implements [decoder.Model].
func (m *Model) Layout() decoder.Layout {
	return decoder.Layout{
		Vocabulary: m.layout.vocabulary, TokenBytes: 2 * 4 * m.layout.layers * m.layout.perToken(),
		WeightBytes: m.layout.fileBytes,
	}
}

// row is a sequence that has been prefilled.
type row struct {
	model  *Model
	cache  tensors
	filled int // tokens in the cache
}

// Release implements [decoder.Row].
func (r *row) Release() {
	m := r.model
	r.cache.free()
	kept := r.cache.capacity(m.layout)
	for _, f := range m.free {
		kept += f.cache.capacity(m.layout)
	}
	if len(m.free) == 0 || m.layout.inPlace && kept <= m.bound {
		m.free = append(m.free, r)
	}
}

// Prefill implements [decoder.Model].
func (m *Model) Prefill(prompt []int64) (decoder.Row, []float32, error) {
	r := &row{model: m}
	if last := len(m.free) - 1; last >= 0 {
		r, m.free = m.free[last], m.free[:last]
	}
	before, room := &r.cache, len(prompt)
	if !m.layout.inPlace {
		before, room = new(tensors), 0
		defer before.free()
	}
	err := before.reserve(m.layout, 1, room, room)
	var logits []float32
	if err == nil {
		logits, err = m.step(prompt, 1, before, []int{0}, &r.cache)
	}
	if err != nil {
		r.Release()
		return nil, nil, err
	}
	r.filled = len(prompt)
	return r, logits, nil
}

// Decode implements [decoder.Model].
func (m *Model) Decode(tokens []int64) ([]float32, error) {
	after := m.spare
	if m.layout.inPlace {
		after = m.batch
		if err := after.room(m.layout, len(m.filled), slices.Max(m.filled)+1, m.bound); err != nil {
			return nil, err
		}
	}
	logits, err := m.step(tokens, len(tokens), m.batch, m.filled, after)
	if err != nil {
		return nil, err
	}
	if after == m.spare {
		m.batch, m.spare = m.spare, m.batch
	}
	for i := range m.filled {
		m.filled[i]++
	}
	return logits, nil
}

// Bound implements [decoder.Model]. A cache that is written in place takes all of its
// memory here: to grow while sequences run would hold them up until all of them are
// copied. The system gives memory as it is first written to, so a batch's usual part of
// it is written to as well.
func (m *Model) Bound(rows, tokens int) error {
	m.bound = tokens
	if !m.layout.inPlace {
		return nil
	}
	if err := m.batch.take(m.layout, tokens); err != nil {
		return err
	}
	for _, data := range m.batch.data {
		clear(data[:min(tokens, rows*leastLength)*m.layout.perToken()])
	}
	return nil
}

// step runs the model on the tokens, row by row as many each, with their past of
// which so many tokens are filled, and writes the cache that comes of it. It
// returns the logits behind each row's last token.
func (m *Model) step(tokens []int64, rows int, before *tensors, filled []int, after *tensors) ([]float32, error) {
	length := len(tokens) / rows
	past := before.length
	if m.layout.inPlace {
		past = slices.Max(filled)
	}
	whole := past + length
	ids, mask, places := m.ids.of(rows*length), m.mask.of(rows*whole), m.places.of(rows*length)
	copy(ids, tokens)
	clear(mask)
	for r, n := range filled {
		line := mask[r*whole : (r+1)*whole]
		if m.layout.inPlace {
			line = line[:n+length]
		} else {
			line = line[past-n:]
		}
		for i := range line {
			line[i] = 1
		}
		for i := range length {
			places[r*length+i] = int64(n + i)
		}
	}
	if after != before {
		if err := after.reserve(m.layout, rows, whole, m.bound); err != nil {
			return nil, err
		}
	}
	size := rows * length * m.layout.vocabulary
	if cap(m.logits) < size {
		m.logits = make([]float32, size)
	}
	m.logits = m.logits[:size]
	if err := m.run(rows, length, whole, before, after); err != nil {
		return nil, err
	}
	if length == 1 {
		return m.logits, nil
	}
	return m.logits[size-m.layout.vocabulary:], nil
}

// run binds what step has prepared.
func (m *Model) run(rows, length, whole int, before, after *tensors) error {
	m.in, m.out = m.in[:0], m.out[:0]
	var own []onnxruntime.Value
	defer func() {
		for _, v := range own {
			_ = v.Destroy()
		}
	}()
	given := []struct {
		input
		columns int
	}{{m.ids, length}, {m.mask, whole}, {m.places, length}}
	if !m.layout.positions {
		given = given[:2]
	}
	for _, g := range given {
		v, err := onnxruntime.NewTensor(onnxruntime.NewShape(int64(rows), int64(g.columns)), g.input)
		if err != nil {
			return err
		}
		own, m.in = append(own, v), append(m.in, v)
	}
	logits, err := onnxruntime.NewTensor(onnxruntime.NewShape(int64(rows), int64(length), int64(m.layout.vocabulary)), m.logits)
	if err != nil {
		return err
	}
	own = append(own, logits)
	m.in = append(m.in, before.values...)
	m.out = append(append(m.out, logits), after.values...)
	return oneLine(m.session.Run(m.in, m.out))
}

// input is the memory of an input of numbers, kept from step to step.
type input []int64

// of makes it as long as that.
func (i *input) of(n int) []int64 {
	if cap(*i) < n {
		*i = make([]int64, n+n/4)
	}
	*i = (*i)[:n]
	return *i
}

// Compose implements [decoder.Model]. Rows that stay where they are cost nothing,
// unless the batch is to have more or longer rows than there is room for, or, of a model
// that concatenates, is mostly padding.
func (m *Model) Compose(stay []int, join []decoder.Row) error {
	rows, longest := len(stay)+len(join), 0
	for _, i := range stay {
		longest = max(longest, m.filled[i])
	}
	for _, j := range join {
		longest = max(longest, j.(*row).filled)
	}
	to := m.batch
	if !m.layout.inPlace && !to.holds(m.layout, rows, longest) {
		to = m.spare
		if err := to.reserve(m.layout, rows, longest, m.bound); err != nil {
			return err
		}
	}
	filled := make([]int, len(stay), rows)
	for k, i := range stay {
		if to != m.batch || k != i {
			to.copyRow(m.layout, k, m.batch, i, m.filled[i])
		}
		filled[k] = m.filled[i]
	}
	if err := m.fit(to, rows, longest); err != nil {
		return err
	}
	for _, j := range join {
		r := j.(*row)
		to.copyRow(m.layout, len(filled), &r.cache, 0, r.filled)
		filled = append(filled, r.filled)
		r.Release()
	}
	m.filled = filled
	if to == m.spare {
		m.batch, m.spare = m.spare, m.batch
	}
	return nil
}

// fit makes the cache one of so many rows, the first of which are there already.
func (m *Model) fit(to *tensors, rows, longest int) error {
	switch {
	case m.layout.inPlace:
		return to.room(m.layout, rows, longest, m.bound)
	case to == m.batch:
		return to.reserve(m.layout, rows, to.length, m.bound)
	}
	return nil
}

// Rest frees the cache, and all rows. Bound makes the model usable again.
func (m *Model) Rest() {
	m.batch.release()
	m.spare.release()
	m.free, m.filled = nil, nil
	returnFree()
}

// Close implements [decoder.Model].
func (m *Model) Close() {
	m.batch.release()
	m.spare.release()
	_ = m.session.Destroy()
	returnFree()
}
