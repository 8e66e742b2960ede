package checkpoints

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"

	"gearshift/router/nn"
)

// Format is the version of the encoding that Encode writes. Decode reads it and
// every one before it.
const Format = 1

// A checkpoint's bytes, integers little-endian:
//
//	magic            8 bytes
//	format           uint32
//	length of meta   uint32
//	length of network uint64
//	meta             JSON
//	network          see nn.MLP.MarshalBinary
//	CRC-32C          uint32, of all the bytes before it
const (
	magic      = "GEARSHFT"
	headerSize = len(magic) + 4 + 4 + 8
	crcSize    = 4
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Encode makes the bytes of a checkpoint: equal checkpoints make equal bytes.
// It refuses one that makes no policy (see [Decode]), and one whose SpecHash is
// not its Spec's. Meta.Format is written as [Format], whatever c holds.
func Encode(c *Checkpoint) ([]byte, error) {
	m := c.Meta
	m.Format = Format
	meta, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("cannot encode checkpoint: %w", err)
	}
	if err := check(c); err != nil {
		return nil, fmt.Errorf("cannot encode checkpoint: %w", err)
	}
	if h := m.Spec.Hash(); m.SpecHash != h {
		return nil, fmt.Errorf("cannot encode checkpoint: %w",
			&fault{ErrContent, fmt.Sprintf("its Spec hash is %q, its Spec's hash is %q", m.SpecHash, h)})
	}
	network, err := c.Network.MarshalBinary()
	if err != nil {
		return nil, fmt.Errorf("cannot encode checkpoint: %w", err)
	}
	return seal(assemble(meta, network)), nil
}

// assemble joins the parts of a checkpoint, all but the CRC.
func assemble(meta, network []byte) []byte {
	out := make([]byte, 0, headerSize+len(meta)+len(network)+crcSize)
	out = append(out, magic...)
	out = binary.LittleEndian.AppendUint32(out, Format)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(meta)))
	out = binary.LittleEndian.AppendUint64(out, uint64(len(network)))
	out = append(out, meta...)
	return append(out, network...)
}

// Decode reads what Encode wrote. Its errors are [ErrNotCheckpoint],
// [ErrNewerFormat], [ErrTruncated], [ErrChecksum] and [ErrContent]: a network
// that is malformed, does not fit its Spec's observations and variants, or
// holds a weight that is not finite. Whether the Spec fits a fleet is its
// Match's to say. The checkpoint shares no memory with data.
func Decode(data []byte) (*Checkpoint, error) {
	meta, network, err := split(data)
	if err != nil {
		return nil, fmt.Errorf("cannot decode checkpoint: %w", err)
	}
	c := &Checkpoint{Network: new(nn.MLP)}
	if err := json.Unmarshal(meta, &c.Meta); err != nil {
		return nil, fmt.Errorf("cannot decode checkpoint: %w",
			&fault{ErrContent, fmt.Sprintf("bad metadata: %v", err)})
	}
	if err := c.Network.UnmarshalBinary(network); err != nil {
		return nil, fmt.Errorf("cannot decode checkpoint: %w", &fault{ErrContent, err.Error()})
	}
	if err := check(c); err != nil {
		return nil, fmt.Errorf("cannot decode checkpoint: %w", err)
	}
	return c, nil
}

// split finds the parts of a checkpoint and verifies everything about the bytes
// that can be verified without reading the parts.
func split(data []byte) (meta, network []byte, err error) {
	if n := min(len(data), len(magic)); n == 0 || !bytes.Equal(data[:n], []byte(magic[:n])) {
		return nil, nil, &fault{ErrNotCheckpoint, "this is not a checkpoint"}
	}
	if len(data) >= len(magic)+4 { // a newer format may have another header from here on
		format := binary.LittleEndian.Uint32(data[len(magic):])
		if format > Format {
			return nil, nil, &fault{ErrNewerFormat,
				fmt.Sprintf("it is written in the newer format %d, this gearshift reads formats up to %d", format, Format)}
		}
	}
	if len(data) < headerSize {
		return nil, nil, &fault{ErrTruncated, fmt.Sprintf("it is truncated: its %d bytes do not even hold its header", len(data))}
	}
	metaSize := uint64(binary.LittleEndian.Uint32(data[len(magic)+4:]))
	networkSize := binary.LittleEndian.Uint64(data[len(magic)+8:])
	rest := uint64(len(data) - headerSize)
	switch want := metaSize + networkSize + crcSize; {
	case networkSize > math.MaxInt64 || want > rest:
		return nil, nil, &fault{ErrTruncated,
			fmt.Sprintf("it is truncated: %d bytes follow its header, which announces %d", rest, want)}
	case want < rest:
		return nil, nil, &fault{ErrChecksum,
			fmt.Sprintf("it has grown: %d bytes follow its header, which announces %d", rest, want)}
	}
	body, err := unseal(data)
	if err != nil {
		return nil, nil, err
	}
	body = body[headerSize:]
	return body[:metaSize], body[metaSize:], nil
}

// check says why c makes no policy, or nil if it does.
func check(c *Checkpoint) error {
	s := &c.Meta.Spec
	inputs, outputs := s.Inputs(), s.Outputs()
	if j := c.Meta.Jobs; j != nil {
		inputs, outputs = j.Inputs, j.Actions
	}
	if p := c.Meta.Placement; p != nil {
		inputs, outputs = p.Inputs, cmp.Or(p.Outputs, 1) // version 1 had one
	}
	switch {
	case c.Network == nil || len(c.Network.Sizes) < 2:
		return &fault{ErrContent, "it has no network"}
	case !whole(c.Network):
		return &fault{ErrContent, fmt.Sprintf("its network's weights and biases are not those of layers of %v", c.Network.Sizes)}
	case c.Network.Inputs() != inputs:
		return &fault{ErrContent, fmt.Sprintf("its network takes %d inputs, its Spec's observations hold %d", c.Network.Inputs(), inputs)}
	case s.Places() && c.Network.Outputs() != 1:
		return &fault{ErrContent, fmt.Sprintf("its network has %d outputs, its Spec wants 1 for a candidate", c.Network.Outputs())}
	case c.Meta.Caution < 0:
		return &fault{ErrContent, fmt.Sprintf("its caution is %v, which is below 0", c.Meta.Caution)}
	case c.Meta.Jobs != nil && (len(s.Features) > 0 || len(s.Variants) > 0):
		return &fault{ErrContent, "it is for jobs, and has a Spec of requests"}
	case c.Meta.Placement != nil && (c.Meta.Jobs != nil || len(s.Features) > 0 || len(s.Variants) > 0):
		return &fault{ErrContent, "it is for placement, and has a Spec of requests, or one of jobs"}
	case !c.fits(outputs):
		return &fault{ErrContent, fmt.Sprintf("its network has %d outputs, its Spec %d variants", c.Network.Outputs(), outputs)}
	}
	for i := range c.Network.Weights {
		if !finite(c.Network.Weights[i]) || !finite(c.Network.Biases[i]) {
			return &fault{ErrContent, fmt.Sprintf("layer %d of its network holds a weight that is not finite", i)}
		}
	}
	return nil
}

// fits reports whether the network has so many outputs, or with caution some such.
func (c *Checkpoint) fits(outputs int) bool {
	got := c.Network.Outputs()
	return got == outputs || c.Meta.Caution > 0 && outputs > 0 && got%outputs == 0
}

// whole reports whether n has the weights and biases that its sizes announce.
func whole(n *nn.MLP) bool {
	layers := len(n.Sizes) - 1
	if len(n.Weights) != layers || len(n.Biases) != layers {
		return false
	}
	for i, out := range n.Sizes[1:] {
		if out < 1 || len(n.Weights[i]) != n.Sizes[i]*out || len(n.Biases[i]) != out {
			return false
		}
	}
	return n.Sizes[0] > 0
}

func finite(v []float32) bool {
	for _, x := range v {
		if x-x != 0 { // NaN for NaN and the infinities
			return false
		}
	}
	return true
}

// seal appends the CRC of data.
func seal(data []byte) []byte {
	return binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, castagnoli))
}

// unseal verifies and cuts off what seal appended.
func unseal(data []byte) ([]byte, error) {
	if len(data) < crcSize {
		return nil, &fault{ErrChecksum, "its checksum is missing"}
	}
	body := data[:len(data)-crcSize]
	want := binary.LittleEndian.Uint32(data[len(body):])
	if got := crc32.Checksum(body, castagnoli); got != want {
		return nil, &fault{ErrChecksum, fmt.Sprintf("its CRC-32C is %08x, recorded is %08x", got, want)}
	}
	return body, nil
}

// Digest is the SHA-256 of an encoded checkpoint, in hex: equal digests mean
// the same policy.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
