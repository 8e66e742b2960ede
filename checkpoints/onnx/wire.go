package onnx

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// A field's tag is its number, shifted, and how it stands on the wire.
const (
	varint  = int(protowire.VarintType)
	length  = int(protowire.BytesType)
	fixed32 = int(protowire.Fixed32Type)
)

// field is one field of a message. One that stands on the wire in another way
// than it should has another tag, and is passed over as an unknown one is.
type field struct {
	tag   int
	value uint64 // of a varint, or the bits of a fixed32
	bytes []byte // of what has a length: a text, a message or packed numbers
}

// each visits the fields of a message, in order.
func each(message []byte, visit func(f field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		f := field{tag: int(number)<<3 | int(kind)}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(message)
			f.value = uint64(bits)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return err
		}
	}
	return nil
}

// maxParts bounds how many of anything a file may list: nodes, tensors, inputs
// and so on. Few bytes can announce much.
const maxParts = 1000

var errTooMany = errors.New("too many parts for a policy")

// add appends a part to a list.
func add[T any](list *[]T, part T) error {
	if len(*list) == maxParts {
		return fmt.Errorf("%w: more than %d of one kind", errTooMany, maxParts)
	}
	*list = append(*list, part)
	return nil
}

// collect reads a part and appends it to a list.
func collect[T any](list *[]T, data []byte, read func([]byte) (T, error)) error {
	part, err := read(data)
	if err != nil {
		return err
	}
	return add(list, part)
}
