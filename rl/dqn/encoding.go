package dqn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
)

// encodingVersion begins a learner's encoding; another version is refused.
const encodingVersion = 1

// MarshalBinary encodes, little-endian: the version, the number of layer sizes
// and the sizes (32-bit); Adam's step count (64-bit); then the online network,
// the target network, and Adam's first and second moments (32-bit floats, layer
// by layer, weights before biases).
func (l *Learner) MarshalBinary() ([]byte, error) {
	out := make([]byte, 0, l.encodedSize())
	for _, v := range l.header() {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	out = binary.LittleEndian.AppendUint64(out, l.adam.Steps)
	for _, block := range l.blocks() {
		for _, f := range block {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
		}
	}
	return out, nil
}

// UnmarshalBinary restores what MarshalBinary wrote, from a learner of the same
// layer sizes. On error the learner is unchanged.
func (l *Learner) UnmarshalBinary(data []byte) error {
	header := l.header()
	if len(data) < 4 {
		return errors.New("cannot decode learner: no version")
	}
	if v := binary.LittleEndian.Uint32(data); v != encodingVersion {
		return fmt.Errorf("cannot decode learner: version %d, %d expected", v, encodingVersion)
	}
	got := make([]uint32, 0, len(header))
	for i := range header {
		if len(data) >= 4*(i+1) {
			got = append(got, binary.LittleEndian.Uint32(data[4*i:]))
		}
	}
	if !slices.Equal(got, header) {
		return fmt.Errorf("cannot decode learner: it is not of layer sizes %v", l.online.Sizes)
	}
	if len(data) != l.encodedSize() {
		return fmt.Errorf("cannot decode learner: %d bytes, %d expected", len(data), l.encodedSize())
	}
	data = data[4*len(header):]
	l.adam.Steps = binary.LittleEndian.Uint64(data)
	data = data[8:]
	for _, block := range l.blocks() {
		for i := range block {
			block[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		data = data[4*len(block):]
	}
	l.online.fold()
	l.target.fold()
	return nil
}

func (l *Learner) header() []uint32 {
	h := []uint32{encodingVersion, uint32(len(l.online.Sizes))}
	for _, s := range l.online.Sizes {
		h = append(h, uint32(s))
	}
	return h
}

func (l *Learner) blocks() [4][]float32 {
	return [4][]float32{l.online.flat, l.target.flat, l.adam.First, l.adam.Second}
}

func (l *Learner) encodedSize() int {
	return 4*len(l.header()) + 8 + 4*4*len(l.online.flat)
}
