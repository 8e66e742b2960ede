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

// Fields are the fields of a message that are read, by their tags, and what is done with each.
type Fields map[int]func(f Field) error

// Text has a field's text be stored.
func Text(to *string) func(Field) error {
	return func(f Field) error { *to = string(f.Bytes); return nil }
}

// Number has a field's number be stored.
func Number(to *int64) func(Field) error {
	return func(f Field) error { *to = int64(f.Value); return nil }
}

// Message has a field be read as a message.
func (fields Fields) Message(f Field) error { return Read(f.Bytes, fields) }

// Read reads a message, field by field in its order. Fields that are not listed are passed over.
func Read(message []byte, fields Fields) error {
	return each(message, func(f Field) error {
		if read := fields[f.Tag]; read != nil {
			return read(f)
		}
		return nil
	})
}

// each visits the fields of a message, in order.
func each(message []byte, visit func(f Field) error) error {
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
