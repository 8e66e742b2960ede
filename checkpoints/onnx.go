package checkpoints

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"gearshift/router/nn"
)

// The names of a written network's input, of shape (batch, inputs), and of its
// output, of shape (batch, outputs). Both are float32.
const (
	ONNXInput  = "observation"
	ONNXOutput = "values"
)

// MaxONNX is the largest file that [DecodeONNX] reads, in bytes.
const MaxONNX = 64 << 20

// The keys of the metadata: the description as JSON, and a digest of it and of
// the weights, so that what was changed since does not pass for what was judged.
const (
	metaKey   = "gearshift"
	digestKey = "gearshift.sha256"
	// signatureKey names a signature, see [Sign].
	signatureKey = "gearshift.signature"
)

// ONNXModel describes an ONNX file.
type ONNXModel struct {
	Network *nn.MLP
	// Meta describes the policy that [EncodeONNX] wrote; nil for a network from
	// elsewhere.
	Meta *Meta
	// Signature is what the file has of one, unchecked; empty if it has none.
	Signature string
}

// EncodeONNX makes the ONNX file of a policy: equal policies make equal bytes. It
// refuses what [Encode] refuses, and what is too large for [DecodeONNX].
func EncodeONNX(c *Checkpoint) ([]byte, error) { return EncodeSignedONNX(c, "") }

// EncodeSignedONNX is EncodeONNX with a signature of the policy.
func EncodeSignedONNX(c *Checkpoint, signature string) ([]byte, error) {
	if _, err := Encode(c); err != nil {
		return nil, fmt.Errorf("cannot write ONNX: %w", err)
	}
	meta := c.Meta
	meta.Format = Format
	description, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("cannot write ONNX: %w", err)
	}
	sum, err := digest(description, c.Network)
	if err != nil {
		return nil, fmt.Errorf("cannot write ONNX: %w", err)
	}
	m := writeONNX(c.Network)
	m.Property(metaKey, string(description))
	m.Property(digestKey, sum)
	if signature != "" {
		m.Property(signatureKey, signature)
	}
	if len(m) > MaxONNX {
		return nil, fmt.Errorf("cannot write ONNX: the file would be larger than the %d MiB that are read again", MaxONNX>>20)
	}
	return m, nil
}

// NetworkONNX makes the ONNX file of a network alone, for what only runs it.
func NetworkONNX(n *nn.MLP) []byte { return writeONNX(n) }

// DecodeONNX reads an ONNX file: what [EncodeONNX] wrote, or a chain of dense layers
// with ReLU between them. Its weights are as in the file, to the bit. With a
// description the policy passes the checks of [Encode]; without one
// the network's inputs and outputs are the caller's to check. The errors name
// the node at fault and say what is understood. The model shares no memory
// with data.
func DecodeONNX(data []byte) (*ONNXModel, error) {
	if len(data) > MaxONNX {
		return nil, fmt.Errorf("cannot read ONNX: the file is larger than the %d MiB that a policy may take", MaxONNX>>20)
	}
	f, err := parseONNX(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read ONNX: %w", err)
	}
	network, err := f.network()
	if err != nil {
		return nil, fmt.Errorf("cannot read ONNX: %w; %s", err, understood)
	}
	m := &ONNXModel{Network: network, Signature: f.properties[signatureKey]}
	if m.Meta, err = f.description(network); err != nil {
		return nil, fmt.Errorf("cannot read ONNX: %w", err)
	}
	return m, nil
}

// description is the policy's, checked; nil if there is none.
func (f *onnxModel) description(n *nn.MLP) (*Meta, error) {
	text, ok := f.properties[metaKey]
	if !ok {
		return nil, nil
	}
	sum, err := digest([]byte(text), n)
	if err != nil {
		return nil, err
	}
	if f.properties[digestKey] != sum {
		return nil, fmt.Errorf("its weights or its metadata %q are not those that were exported; without that metadata it is read as a network trained elsewhere", metaKey)
	}
	meta := new(Meta)
	if err := json.Unmarshal([]byte(text), meta); err != nil {
		return nil, fmt.Errorf("bad metadata %q: %w", metaKey, err)
	}
	if meta.Format > Format {
		return nil, fmt.Errorf("its metadata has the newer format %d, this gearshift reads formats up to %d", meta.Format, Format)
	}
	if _, err := Encode(&Checkpoint{Meta: *meta, Network: n}); err != nil {
		return nil, errors.Unwrap(err)
	}
	return meta, nil
}

// digest is the SHA-256 of a description and of the weights it belongs to.
func digest(description []byte, n *nn.MLP) (string, error) {
	weights, err := n.MarshalBinary()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	h.Write(description)
	h.Write(weights)
	return hex.EncodeToString(h.Sum(nil)), nil
}
