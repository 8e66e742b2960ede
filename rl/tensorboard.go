package rl

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Field numbers of TensorFlow's event.proto and summary.proto.
const (
	eventWallTime    = 1 // double
	eventStep        = 2 // int64
	eventFileVersion = 3 // string
	eventSummary     = 5 // Summary
	summaryValue     = 1 // repeated Value
	valueTag         = 1 // string
	valueSimple      = 2 // float
)

// TensorBoardWriter writes reports as a TensorBoard event file. TensorBoard finds
// the file by its name; see EventFileName.
type TensorBoardWriter struct {
	w       io.Writer
	begun   bool
	written int // validations
}

// EventFileName is a name by which TensorBoard finds an event file begun at the
// given time.
func EventFileName(begun time.Time) string {
	return fmt.Sprintf("events.out.tfevents.%d.gearshift", begun.Unix())
}

// NewTensorBoardWriter writes to w, which may be unbuffered: each call of Write
// writes once, the first one the file's version besides.
func NewTensorBoardWriter(w io.Writer) *TensorBoardWriter { return &TensorBoardWriter{w: w} }

// Write writes one event with a report's numbers, the validation's only if it is
// new.
func (b *TensorBoardWriter) Write(r Report, t Timing) error {
	var out []byte
	if !b.begun {
		version := appendWallTime(nil, t.Wall)
		version = protowire.AppendTag(version, eventFileVersion, protowire.BytesType)
		version = protowire.AppendString(version, "brain.Event:2")
		out = appendRecord(out, version)
	}
	var summary []byte
	for _, m := range r.metrics(t.FPS) {
		if m.absent || (m.name == "eval/mean_reward" && r.Validations == b.written) {
			continue
		}
		summary = appendScalar(summary, m.name, m.value)
	}
	event := appendWallTime(nil, t.Wall)
	event = protowire.AppendTag(event, eventStep, protowire.VarintType)
	event = protowire.AppendVarint(event, uint64(r.Decisions))
	event = protowire.AppendTag(event, eventSummary, protowire.BytesType)
	event = protowire.AppendBytes(event, summary)
	if _, err := b.w.Write(appendRecord(out, event)); err != nil {
		return fmt.Errorf("cannot write TensorBoard events: %w", err)
	}
	b.begun, b.written = true, r.Validations
	return nil
}

func appendWallTime(out []byte, t time.Time) []byte {
	out = protowire.AppendTag(out, eventWallTime, protowire.Fixed64Type)
	return protowire.AppendFixed64(out, math.Float64bits(float64(t.UnixNano())/1e9))
}

// appendScalar appends a Summary's value.
func appendScalar(out []byte, name string, v float64) []byte {
	value := protowire.AppendTag(nil, valueTag, protowire.BytesType)
	value = protowire.AppendString(value, name)
	value = protowire.AppendTag(value, valueSimple, protowire.Fixed32Type)
	value = protowire.AppendFixed32(value, math.Float32bits(float32(v)))
	out = protowire.AppendTag(out, summaryValue, protowire.BytesType)
	return protowire.AppendBytes(out, value)
}

// appendRecord frames data as a TFRecord: the length and its checksum, the data
// and its checksum.
func appendRecord(out, data []byte) []byte {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	out = append(out, length...)
	out = binary.LittleEndian.AppendUint32(out, maskedCRC(length))
	out = append(out, data...)
	return binary.LittleEndian.AppendUint32(out, maskedCRC(data))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// maskedCRC is TFRecord's checksum: CRC-32C, rotated and shifted, so that data
// which holds checksums has an unlike one itself.
func maskedCRC(data []byte) uint32 {
	c := crc32.Checksum(data, castagnoli)
	return (c>>15 | c<<17) + 0xa282ead8
}
