package onnxfile

import (
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// maxNumbers is how many bytes of a tensor's numbers an outline has.
const maxNumbers = 1 << 10

// The fields that an outline looks into.
const (
	graphField       = 7 // of a model
	initializerField = 5 // of a graph
)

// Outline reads a model file of so many bytes without the numbers of its initializers, which
// are nearly all of it. [Signature] and [Uses] find in the outline what they find in the
// file.
func Outline(file io.ReaderAt, size int64) ([]byte, error) {
	model, err := outline(file, 0, size, func(number protowire.Number) reader {
		if number != graphField {
			return nil
		}
		return func(file io.ReaderAt, at, end int64) (Message, error) {
			return outline(file, at, end, func(number protowire.Number) reader {
				if number != initializerField {
					return nil
				}
				return readTensor
			})
		}
	})
	if err != nil {
		return nil, fmt.Errorf("it is no whole ONNX file: %w", err)
	}
	return model, nil
}

// reader reads the part of a file from one offset to another as a message.
type reader func(file io.ReaderAt, at, end int64) (Message, error)

// outline copies a message. Fields of a length are read by the reader that into returns for
// them, or as they are.
func outline(file io.ReaderAt, at, end int64, into func(protowire.Number) reader) (m Message, err error) {
	for at < end {
		number, value, next, err := field(file, at, end)
		if err != nil {
			return nil, err
		}
		var read reader
		if value > 0 {
			read = into(number)
		}
		if read == nil {
			if m, err = appendPart(m, file, at, next); err != nil {
				return nil, err
			}
		} else {
			inner, err := read(file, value, next)
			if err != nil {
				return nil, err
			}
			m.Bytes(number, inner)
		}
		at = next
	}
	return m, nil
}

// readTensor copies a tensor without its numbers.
func readTensor(file io.ReaderAt, at, end int64) (m Message, err error) {
	for at < end {
		_, value, next, err := field(file, at, end)
		if err != nil {
			return nil, err
		}
		if value == 0 || next-value <= maxNumbers {
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
