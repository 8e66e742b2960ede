package rl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// Progress holds all that a run needs to continue as if it had never stopped. It does not
// contain the environments: their episodes are played again from their seeds and the actions
// taken. A Progress that a Save hook gets is valid until the hook returns.
type Progress struct {
	Decisions     int       // taken in all
	GradientSteps int       // taken in all
	Episodes      []Episode // the present one of each environment

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

// Episode is one episode of an environment, as far as it has gone.
type Episode struct {
	Number  uint64 // counted from 0, over all environments
	Actions []int32
}

// Average is a mean that follows its latest values: plain over the first ones,
// then exponential.
type Average struct {
	Mean  float64
	Count uint64
}

// add adds a value to an average over about the last window values.
func (a *Average) add(v float64, window uint64) {
	a.Count = min(a.Count+1, window)
	a.Mean += (v - a.Mean) / float64(a.Count)
}

// The versions that begin the encoding; others are refused.
const (
	ofOne     = 1 // of one environment
	ofSeveral = 2 // the episodes of the second and all further ones follow at the end
)

// MarshalBinary encodes the progress, little-endian: the version (32-bit), the
// numbers and that of the first episode (64-bit), then its actions and the other
// lists, each with its length before it. The further episodes follow, each with
// its number before its actions.
func (p *Progress) MarshalBinary() ([]byte, error) {
	if len(p.Episodes) == 0 {
		return nil, errors.New("cannot encode training progress: it has no episode")
	}
	size := 512
	for _, e := range p.Episodes {
		size += 16 + 4*len(e.Actions)
	}
	for _, s := range p.sections() {
		size += 8 + len(*s)
	}
	version, further := uint32(ofOne), p.Episodes[1:]
	if len(further) > 0 {
		version = ofSeveral
	}
	out := binary.LittleEndian.AppendUint32(make([]byte, 0, size), version)
	for _, n := range p.numbers() {
		out = binary.LittleEndian.AppendUint64(out, n.get())
	}
	out = appendActions(out, p.Episodes[0].Actions)
	for _, s := range p.sections() {
		out = binary.LittleEndian.AppendUint64(out, uint64(len(*s)))
		out = append(out, *s...)
	}
	for _, e := range further {
		out = binary.LittleEndian.AppendUint64(out, e.Number)
		out = appendActions(out, e.Actions)
	}
	return out, nil
}

func appendActions(out []byte, actions []int32) []byte {
	return appendInts(binary.LittleEndian.AppendUint64(out, uint64(len(actions))), actions)
}

// errCut is the error for an encoding that ends too early, or too late.
var errCut = errors.New("cannot decode training progress: its length does not fit its content")

// UnmarshalBinary decodes what MarshalBinary wrote. The lists of bytes refer to
// data. On error p is unchanged.
func (p *Progress) UnmarshalBinary(data []byte) error {
	if len(data) < 4 {
		return errCut
	}
	version := binary.LittleEndian.Uint32(data)
	if version != ofOne && version != ofSeveral {
		return fmt.Errorf("cannot decode training progress: version %d, %d or %d expected", version, ofOne, ofSeveral)
	}
	d := Progress{Episodes: make([]Episode, 1)}
	in := reader{rest: data[4:]}
	for _, n := range d.numbers() {
		n.set(in.number())
	}
	d.Episodes[0].Actions = in.actions()
	for _, s := range d.sections() {
		*s = in.list(1)
	}
	for version == ofSeveral && !in.cut && (len(in.rest) > 0 || len(d.Episodes) == 1) {
		d.Episodes = append(d.Episodes, Episode{Number: in.number(), Actions: in.actions()})
	}
	if in.cut || len(in.rest) > 0 {
		return errCut
	}
	if d.Decisions < 0 || d.GradientSteps < 0 || d.Validated < 0 || d.Validations < 0 {
		return errors.New("cannot decode training progress: a count is negative")
	}
	*p = d
	return nil
}

// reader decodes an encoding. Missing bytes read as zero, and set cut.
type reader struct {
	rest []byte
	cut  bool
}

func (r *reader) number() uint64 {
	if len(r.rest) < 8 {
		r.rest, r.cut = nil, true
		return 0
	}
	v := binary.LittleEndian.Uint64(r.rest)
	r.rest = r.rest[8:]
	return v
}

// list is that of as many items as the number before it says, of size bytes each.
func (r *reader) list(size int) []byte {
	count := r.number()
	if count > uint64(len(r.rest)/size) {
		r.rest, r.cut = nil, true
		return nil
	}
	length := int(count) * size
	list := r.rest[:length:length]
	r.rest = r.rest[length:]
	return list
}

func (r *reader) actions() []int32 {
	list := r.list(4)
	actions := make([]int32, len(list)/4)
	readInts(actions, list)
	return actions
}

func (p *Progress) sections() []*[]byte {
	return []*[]byte{&p.Exploration, &p.Sampling, &p.Replay, &p.Learner, &p.Best, &p.Average, &p.Seen}
}

// numbers lists the scalar fields, in the order of the encoding.
func (p *Progress) numbers() []number {
	return []number{
		{i: &p.Decisions}, {i: &p.GradientSteps}, {u: &p.Episodes[0].Number}, {f: &p.BestScore}, {i: &p.Validated},
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
