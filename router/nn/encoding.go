package nn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// maxParameters bounds what a decoder will allocate for bytes from outside.
const maxParameters = 1 << 27

// MarshalBinary encodes the network: the number of sizes, the sizes, then each
// layer's weights and biases, all little-endian 32-bit.
func (m *MLP) MarshalBinary() ([]byte, error) {
	out := make([]byte, 0, 4*(1+len(m.Sizes)+m.Parameters()))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(m.Sizes)))
	for _, s := range m.Sizes {
		out = binary.LittleEndian.AppendUint32(out, uint32(s))
	}
	for i := range m.Weights {
		out = appendFloats(out, m.Weights[i])
		out = appendFloats(out, m.Biases[i])
	}
	return out, nil
}

// UnmarshalBinary decodes what MarshalBinary wrote. On error m is unchanged.
func (m *MLP) UnmarshalBinary(data []byte) error {
	word := func() (uint32, bool) {
		if len(data) < 4 {
			return 0, false
		}
		v := binary.LittleEndian.Uint32(data)
		data = data[4:]
		return v, true
	}
	count, ok := word()
	if !ok || count < 2 || count > 64 {
		return errors.New("cannot decode network: bad number of layers")
	}
	sizes := make([]int, count)
	params := 0
	for i := range sizes {
		v, ok := word()
		if !ok || v == 0 || v > maxParameters {
			return errors.New("cannot decode network: bad layer size")
		}
		sizes[i] = int(v)
		if i > 0 {
			params += (sizes[i-1] + 1) * sizes[i]
		}
		if params > maxParameters {
			return errors.New("cannot decode network: too many parameters")
		}
	}
	if len(data) != 4*params {
		return fmt.Errorf("cannot decode network: %d bytes of parameters, %d expected", len(data), 4*params)
	}
	decoded, err := New(sizes...)
	if err != nil {
		return err
	}
	for i := range decoded.Weights {
		data = readFloats(decoded.Weights[i], data)
		data = readFloats(decoded.Biases[i], data)
	}
	*m = *decoded
	return nil
}

func appendFloats(out []byte, v []float32) []byte {
	for _, f := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
	}
	return out
}

func readFloats(dst []float32, data []byte) []byte {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return data[4*len(dst):]
}
