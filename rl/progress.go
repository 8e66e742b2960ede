package rl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Progress is all that a run needs to continue as if it had never stopped. The
// environment is not in it: its episode is played again from its seed and the
// actions taken. A Progress handed to a Save hook is valid until the hook returns.
type Progress struct {
	Decisions     int     // taken in all
	GradientSteps int     // taken in all
	Episode       uint64  // the present one, counted from 0
	Actions       []int32 // taken in the present episode

	Exploration []byte // the generators, as rand.PCG encodes them
	Sampling    []byte
	Replay      []byte // as Replay encodes it
	Learner     []byte // as the learner encodes itself
	Best        []byte // the network of the best validation so far; empty before the first
	Average     []byte // the average network; empty where none is kept
	Seen        []byte // the largest inputs seen, as floats; empty before exploration has ended
	BestScore   float64
	Validated   int // Decisions at the last validation

	// What reports show; it influences nothing.
	Validations   int
	Score         float64 // of the last validation
	Utility       Average
	Loss, TDError Average
}

// Average is a mean that follows its latest values: plain over the first ones,
// then exponential.
type Average struct {
	Mean  float64
	Count uint64
}

// add takes a value into an average over about the last window values.
func (a *Average) add(v float64, window uint64) {
	a.Count = min(a.Count+1, window)
	a.Mean += (v - a.Mean) / float64(a.Count)
}

// progressVersion begins the encoding; another version is refused.
const progressVersion = 1

// MarshalBinary encodes the progress, little-endian: the version (32-bit), the
// numbers (64-bit), then each list with its length before it.
func (p *Progress) MarshalBinary() ([]byte, error) {
	size := 512 + 4*len(p.Actions)
	for _, s := range p.sections() {
		size += 8 + len(*s)
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, size), progressVersion)
	for _, n := range p.numbers() {
		out = binary.LittleEndian.AppendUint64(out, n.get())
	}
	out = binary.LittleEndian.AppendUint64(out, uint64(len(p.Actions)))
	for _, a := range p.Actions {
		out = binary.LittleEndian.AppendUint32(out, uint32(a))
	}
	for _, s := range p.sections() {
		out = binary.LittleEndian.AppendUint64(out, uint64(len(*s)))
		out = append(out, *s...)
	}
	return out, nil
}

// errCut is the error for an encoding that ends too early, or too late.
var errCut = errors.New("cannot decode training progress: its length does not fit its content")

// UnmarshalBinary decodes what MarshalBinary wrote. The lists refer to data. On
// error p is unchanged.
func (p *Progress) UnmarshalBinary(data []byte) error {
	if len(data) < 4 {
		return errCut
	}
	if v := binary.LittleEndian.Uint32(data); v != progressVersion {
		return fmt.Errorf("cannot decode training progress: version %d, %d expected", v, progressVersion)
	}
	var d Progress
	rest := data[4:]
	numbers := d.numbers()
	if len(rest) < 8*(len(numbers)+1) {
		return errCut
	}
	for i, n := range numbers {
		n.set(binary.LittleEndian.Uint64(rest[8*i:]))
	}
	if d.Decisions < 0 || d.GradientSteps < 0 || d.Validated < 0 || d.Validations < 0 {
		return errors.New("cannot decode training progress: a count is negative")
	}
	rest = rest[8*len(numbers):]
	count := binary.LittleEndian.Uint64(rest)
	rest = rest[8:]
	if count > uint64(len(rest)/4) {
		return errCut
	}
	d.Actions = make([]int32, count)
	for i := range d.Actions {
		d.Actions[i] = int32(binary.LittleEndian.Uint32(rest[4*i:]))
	}
	rest = rest[4*count:]
	for _, s := range d.sections() {
		if len(rest) < 8 {
			return errCut
		}
		length := binary.LittleEndian.Uint64(rest)
		rest = rest[8:]
		if length > uint64(len(rest)) {
			return errCut
		}
		*s, rest = rest[:length:length], rest[length:]
	}
	if len(rest) != 0 {
		return errCut
	}
	*p = d
	return nil
}

func (p *Progress) sections() []*[]byte {
	return []*[]byte{&p.Exploration, &p.Sampling, &p.Replay, &p.Learner, &p.Best, &p.Average, &p.Seen}
}

// numbers lists the scalar fields, in the order of the encoding.
func (p *Progress) numbers() []number {
	return []number{
		{i: &p.Decisions}, {i: &p.GradientSteps}, {u: &p.Episode}, {f: &p.BestScore}, {i: &p.Validated},
		{i: &p.Validations}, {f: &p.Score},
		{f: &p.Utility.Mean}, {u: &p.Utility.Count},
		{f: &p.Loss.Mean}, {u: &p.Loss.Count},
		{f: &p.TDError.Mean}, {u: &p.TDError.Count},
	}
}

// number refers to one scalar field.
type number struct {
	i *int
	u *uint64
	f *float64
}

func (n number) get() uint64 {
	switch {
	case n.i != nil:
		return uint64(*n.i)
	case n.u != nil:
		return *n.u
	}
	return math.Float64bits(*n.f)
}

func (n number) set(v uint64) {
	switch {
	case n.i != nil:
		*n.i = int(v)
	case n.u != nil:
		*n.u = v
	default:
		*n.f = math.Float64frombits(v)
	}
}
