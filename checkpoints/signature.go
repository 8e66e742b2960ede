package checkpoints

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// Subject identifies what an evaluation is of: the network, and all that decides what it
// chooses, as well as the world that it was judged in.
func (c *Checkpoint) Subject() (string, error) {
	behaviour := struct {
		ScenarioHash, SpecHash string
		AdviceMargin, Caution  float64
		Seen                   []float32
	}{c.Meta.ScenarioHash, c.Meta.Spec.Hash(), c.Meta.AdviceMargin, c.Meta.Caution, c.Meta.Seen}
	text, err := json.Marshal(behaviour)
	if err != nil {
		return "", err
	}
	network, err := c.Network.MarshalBinary()
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	sum.Write(text)
	sum.Write(network)
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Evaluated gives the checkpoint an evaluation of what it is.
func (c *Checkpoint) Evaluated(evaluation json.RawMessage) error {
	subject, err := c.Subject()
	if err != nil {
		return err
	}
	c.Meta.Evaluation, c.Meta.Judged = evaluation, subject
	return nil
}

// CheckEvaluation returns an error for an evaluation of something else. It accepts an
// evaluation of an earlier version, which does not say what it is of.
func (c *Checkpoint) CheckEvaluation() error {
	if len(c.Meta.Evaluation) == 0 || c.Meta.Judged == "" {
		return nil
	}
	subject, err := c.Subject()
	if err == nil && subject != c.Meta.Judged {
		err = errors.New("its evaluation belongs to another network, or to other settings of it")
	}
	return err
}

// signed is what stands before the digest that a signature is of.
const signed = "gearshift policy\n"

// keyPrefix begins a public key as text, and the text of a signature.
const keyPrefix = "ed25519:"

// Sign makes a signature of a checkpoint: of all of it, its evaluation included.
func Sign(c *Checkpoint, key ed25519.PrivateKey) (string, error) {
	data, err := Encode(c)
	if err != nil {
		return "", err
	}
	signature := ed25519.Sign(key, []byte(signed+Digest(data)))
	return keyPrefix + base64.StdEncoding.EncodeToString(signature), nil
}

// Signed reports whether the signature of a checkpoint is by one of the keys. The error is
// of a text that is no signature.
func Signed(c *Checkpoint, signature string, keys []ed25519.PublicKey) (bool, error) {
	sum, err := unprefixed(signature, ed25519.SignatureSize)
	if err != nil {
		return false, fmt.Errorf("the signature %w", err)
	}
	data, err := Encode(c)
	if err != nil {
		return false, err
	}
	for _, key := range keys {
		if ed25519.Verify(key, []byte(signed+Digest(data)), sum) {
			return true, nil
		}
	}
	return false, nil
}

// PublicKeyText writes a public key as [ParsePublicKey] reads it.
func PublicKeyText(key ed25519.PublicKey) string {
	return keyPrefix + base64.StdEncoding.EncodeToString(key)
}

// ParsePublicKey reads a public key.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	key, err := unprefixed(text, ed25519.PublicKeySize)
	if err != nil {
		return nil, fmt.Errorf("the key %w; want one that gearshift policy keygen prints", err)
	}
	return key, nil
}

func unprefixed(text string, size int) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, keyPrefix)
	if !ok {
		return nil, fmt.Errorf("does not begin with %q", keyPrefix)
	}
	b, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil || len(b) != size {
		return nil, fmt.Errorf("is not %d bytes in base64", size)
	}
	return b, nil
}
