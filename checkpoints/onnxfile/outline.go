package onnxfile

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxNumbers is how many bytes of a tensor's numbers an outline has.
const maxNumbers = 1 << 10

// part says what of a message an outline has.
type part struct {
	inside map[protowire.Number]*part // fields that are messages to look into; others are copied whole
	tensor bool                       // long fields are numbers, and left out
}

var (
	tensorPart    = &part{tensor: true}
	attributePart = &part{inside: map[protowire.Number]*part{5: tensorPart}}
	nodePart      = &part{inside: map[protowire.Number]*part{5: attributePart}}
	graphPart     = &part{inside: map[protowire.Number]*part{1: nodePart, 5: tensorPart}}
	modelPart     = &part{inside: map[protowire.Number]*part{7: graphPart}}
)

// Outline reads a model file of so many bytes without the numbers of its initializers and
// Constant nodes, which are nearly all of it. [Signature] and [Uses] find in the outline what
// they find in the file.
func Outline(file io.ReaderAt, size int64) ([]byte, error) {
	m, err := modelPart.outline(file, 0, size)
	if err != nil {
		return nil, fmt.Errorf("it is no whole ONNX file: %w", err)
	}
	return m, nil
}

// outline copies the message between two offsets of the file. It looks into long fields alone:
// each look is a read.
func (p *part) outline(file io.ReaderAt, at, end int64) (m Message, err error) {
	for at < end {
		number, value, next, err := field(file, at, end)
		if err != nil {
			return nil, err
		}
		long, inside := value > 0 && next-value > maxNumbers, p.inside[number]
		switch {
		case long && inside != nil:
			inner, err := inside.outline(file, value, next)
			if err != nil {
				return nil, err
			}
			m.Bytes(number, inner)
		case !long || !p.tensor:
			if m, err = appendPart(m, file, at, next); err != nil {
				return nil, err
			}
		}
		at = next
	}
	return m, nil
}

// field reads the head of the field at the offset: its number, where its value begins if
// it has a length, and where the next field begins.
func field(file io.ReaderAt, at, end int64) (number protowire.Number, value, next int64, err error) {
	var buffer [20]byte // a tag and a varint
	head := buffer[:min(int64(len(buffer)), end-at)]
	if _, err := file.ReadAt(head, at); err != nil {
		return 0, 0, 0, err
	}
	number, kind, n := protowire.ConsumeTag(head)
	if n < 0 {
		return 0, 0, 0, protowire.ParseError(n)
	}
	head, at = head[n:], at+int64(n)
	if kind != protowire.BytesType {
		if n = protowire.ConsumeFieldValue(number, kind, head); n < 0 {
			return 0, 0, 0, protowire.ParseError(n)
		}
		return number, 0, at + int64(n), nil
	}
	length, n := protowire.ConsumeVarint(head)
	if n < 0 {
		return 0, 0, 0, protowire.ParseError(n)
	}
	value = at + int64(n)
	if length > uint64(end-value) {
		return 0, 0, 0, io.ErrUnexpectedEOF
	}
	return number, value, value + int64(length), nil
}

// appendPart appends a part of the file.
func appendPart(m Message, file io.ReaderAt, at, end int64) (Message, error) {
	before := len(m)
	m = append(m, make([]byte, end-at)...)
	_, err := file.ReadAt(m[before:], at)
	return m, err
}
