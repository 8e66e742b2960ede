// Package onnx writes a policy's network as an ONNX file and reads one, its own
// or that of another trainer, without an ONNX library: a chain of dense layers
// needs little of the format.
//
// A file that [Encode] writes carries the policy's whole description in its
// metadata, so that the policy comes back as it was; any other ONNX program
// sees a plain network.
package onnx

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"

	"gearshift/checkpoints"
	"gearshift/router/nn"
)

// The names of a written network's input, of shape (batch, inputs), and of its
// output, of shape (batch, outputs). Both are float32.
const (
	Input  = "observation"
	Output = "values"
)

// MaxSize is the largest file that [Decode] reads, in bytes.
const MaxSize = 64 << 20

// The keys of the metadata: the description as JSON, and a digest of it and of
// the weights, so that what was changed since does not pass for what was judged.
const (
	metaKey   = "gearshift"
	digestKey = "gearshift.sha256"
	// signatureKey is that of a signature, see [checkpoints.Sign].
	signatureKey = "gearshift.signature"
)

// Model is what an ONNX file holds.
type Model struct {
	Network *nn.MLP
	// Meta describes the policy that [Encode] wrote; nil for a network from
	// elsewhere.
	Meta *checkpoints.Meta
	// Signature is what the file has of one, unchecked; empty if it has none.
	Signature string
}

// Encode makes the ONNX file of a policy: equal policies make equal bytes. It
// refuses what [checkpoints.Encode] refuses, and what is too large for [Decode].
func Encode(c *checkpoints.Checkpoint) ([]byte, error) { return EncodeSigned(c, "") }

// EncodeSigned is Encode with a signature of the policy.
func EncodeSigned(c *checkpoints.Checkpoint, signature string) ([]byte, error) {
	if _, err := checkpoints.Encode(c); err != nil {
		return nil, fmt.Errorf("cannot write ONNX: %w", err)
	}
	meta := c.Meta
	meta.Format = checkpoints.Format
	description, err := json.Marshal(meta)
	if err != nil {
		return nil, fmt.Errorf("cannot write ONNX: %w", err)
	}
	sum, err := digest(description, c.Network)
	if err != nil {
		return nil, fmt.Errorf("cannot write ONNX: %w", err)
	}
	m := encode(c.Network)
	m.Property(metaKey, string(description))
	m.Property(digestKey, sum)
	if signature != "" {
		m.Property(signatureKey, signature)
	}
	if len(m) > MaxSize {
		return nil, fmt.Errorf("cannot write ONNX: the file would be larger than the %d MiB that are read again", MaxSize>>20)
	}
	return m, nil
}

// EncodeNetwork makes the ONNX file of a network alone, for what only runs it.
func EncodeNetwork(n *nn.MLP) []byte { return encode(n) }

// Decode reads an ONNX file: what [Encode] wrote, or a chain of dense layers
// with ReLU between them. Its weights are as in the file, to the bit. With a
// description the policy passes the checks of [checkpoints.Encode]; without one
// the network's inputs and outputs are the caller's to check. The errors name
// the node at fault and say what is understood. The model shares no memory
// with data.
func Decode(data []byte) (*Model, error) {
	if len(data) > MaxSize {
		return nil, fmt.Errorf("cannot read ONNX: the file is larger than the %d MiB that a policy may take", MaxSize>>20)
	}
	f, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("cannot read ONNX: %w", err)
	}
	network, err := f.network()
	if err != nil {
		return nil, fmt.Errorf("cannot read ONNX: %w; %s", err, understood)
	}
	m := &Model{Network: network, Signature: f.properties[signatureKey]}
	if m.Meta, err = f.description(network); err != nil {
		return nil, fmt.Errorf("cannot read ONNX: %w", err)
	}
	return m, nil
}

// description is the policy's, checked; nil if there is none.
func (f *file) description(n *nn.MLP) (*checkpoints.Meta, error) {
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
	meta := new(checkpoints.Meta)
	if err := json.Unmarshal([]byte(text), meta); err != nil {
		return nil, fmt.Errorf("bad metadata %q: %w", metaKey, err)
	}
	if meta.Format > checkpoints.Format {
		return nil, fmt.Errorf("its metadata has the newer format %d, this gearshift reads formats up to %d", meta.Format, checkpoints.Format)
	}
	if _, err := checkpoints.Encode(&checkpoints.Checkpoint{Meta: *meta, Network: n}); err != nil {
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
