package onnxfile

import "google.golang.org/protobuf/encoding/protowire"

// A field's tag is its number, shifted, and how it stands on the wire.
const (
	Varint  = int(protowire.VarintType)
	Length  = int(protowire.BytesType)
	Fixed32 = int(protowire.Fixed32Type)
)

// Field is one field of a message. One that stands on the wire in another way than
// it should has another tag, and is passed over as an unknown one is.
type Field struct {
	Tag   int
	Value uint64 // of a varint, or the bits of a fixed32
	Bytes []byte // of what has a length: a text, a message or packed numbers
}

// Each visits the fields of a message, in order.
func Each(message []byte, visit func(f Field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		f := Field{Tag: int(number)<<3 | int(kind)}
		switch kind {
		case protowire.VarintType:
			f.Value, n = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(message)
			f.Value = uint64(bits)
		case protowire.BytesType:
			f.Bytes, n = protowire.ConsumeBytes(message)
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
