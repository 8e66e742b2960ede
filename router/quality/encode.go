package quality

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// encoding is the version of the form that Encode writes.
const encoding = 1

// magic begins an encoded model.
const magic = "GSQP"

// ErrEncoding means that bytes are no encoded model, or one of another version.
var ErrEncoding = errors.New("not a quality predictor of this version")

// Encode returns the model as bytes, 1 MB at most. Equal models make equal bytes.
func (m *Regression) Encode() []byte {
	w := writer{b: make([]byte, 0, 2*len(m.weights)+2*Buckets+len(m.seen)*8+4096)}
	w.b = append(w.b, magic...)
	w.number(encoding)
	w.b = binary.LittleEndian.AppendUint64(w.b, m.key)
	w.number(m.labels)
	w.number(len(m.columns))
	w.floats(m.center[:]...)
	w.floats(m.spread[:]...)
	w.floats(m.sparse, m.dense)
	for i := range m.columns {
		w.column(&m.columns[i])
	}
	w.number(len(m.drawn))
	w.b = append(w.b, m.drawn...)
	for _, x := range m.seen {
		w.b = binary.LittleEndian.AppendUint64(w.b, x)
	}
	for _, x := range m.idf {
		w.b = binary.LittleEndian.AppendUint16(w.b, x)
	}
	for _, x := range m.weights {
		w.b = binary.LittleEndian.AppendUint16(w.b, uint16(x))
	}
	return w.b
}

// writer appends the parts of a model.
type writer struct{ b []byte }

func (w *writer) number(n int) { w.b = binary.LittleEndian.AppendUint32(w.b, uint32(n)) }

func (w *writer) floats(list ...float32) {
	for _, x := range list {
		w.b = binary.LittleEndian.AppendUint32(w.b, math.Float32bits(x))
	}
}

func (w *writer) column(c *column) {
	w.number(len(c.name))
	w.b = append(w.b, c.name...)
	w.number(c.count)
	w.floats(c.mean, c.scale, c.bias, c.slope, c.shift, c.floor)
	w.floats(c.form[:]...)
	w.number(len(c.bins))
	for _, b := range c.bins {
		w.floats(b.upTo, b.drop, b.at, b.is)
	}
}

// Decode reads what Encode wrote. It returns [ErrEncoding], with what is wrong, for anything
// else.
func Decode(data []byte) (*Regression, error) {
	r := reader{b: data}
	if string(r.take(len(magic))) != magic {
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrEncoding, magic)
	}
	if v := r.number(1 << 16); v != encoding {
		return nil, fmt.Errorf("%w: it has version %d, not %d", ErrEncoding, v, encoding)
	}
	m := &Regression{key: r.long(), labels: r.number(1 << 31)}
	n := r.number(MostColumns)
	r.floats(m.center[:])
	r.floats(m.spread[:])
	var limits [2]float32
	r.floats(limits[:])
	m.sparse, m.dense = limits[0], limits[1]
	for range n {
		m.columns = append(m.columns, r.column())
	}
	m.drawn = append(m.drawn, r.take(r.number(mostDrawn*MostColumns))...)
	m.seen, m.idf, m.weights = make([]uint64, 1<<wordBits/64), make([]uint16, Buckets), make([]int16, Buckets*n)
	for i := range m.seen {
		m.seen[i] = r.long()
	}
	for i := range m.idf {
		m.idf[i] = r.short()
	}
	for i := range m.weights {
		m.weights[i] = int16(r.short())
	}
	switch {
	case r.bad || n == 0 || len(m.drawn)%n != 0:
		return nil, fmt.Errorf("%w: it is cut off or damaged", ErrEncoding)
	case len(r.b) > 0:
		return nil, fmt.Errorf("%w: %d bytes follow its end", ErrEncoding, len(r.b))
	case !m.sound():
		return nil, fmt.Errorf("%w: a number in it is not finite", ErrEncoding)
	}
	return m, nil
}

// sound reports whether all numbers are finite, and each column has bins.
func (m *Regression) sound() bool {
	sum := m.sparse + m.dense
	for j := range forms {
		sum += m.center[j] + m.spread[j]
	}
	for i := range m.columns {
		c := &m.columns[i]
		sum += c.mean + c.scale + c.bias + c.slope + c.shift + c.floor
		for _, x := range c.form {
			sum += x
		}
		for _, b := range c.bins {
			sum += b.upTo + b.drop + b.at + b.is
		}
		if len(c.bins) == 0 {
			return false
		}
	}
	return sum-sum == 0
}

// reader takes the parts of a model off the beginning. Once bad, it returns zeros.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if r.bad = r.bad || n > len(r.b); r.bad {
		return nil
	}
	part := r.b[:n]
	r.b = r.b[n:]
	return part
}

// number takes a count, which is bad above most.
func (r *reader) number(most int) int {
	part := r.take(4)
	if part == nil {
		return 0
	}
	n := int(binary.LittleEndian.Uint32(part))
	if n > most {
		r.bad, n = true, 0
	}
	return n
}

func (r *reader) long() uint64 {
	if part := r.take(8); part != nil {
		return binary.LittleEndian.Uint64(part)
	}
	return 0
}

func (r *reader) short() uint16 {
	if part := r.take(2); part != nil {
		return binary.LittleEndian.Uint16(part)
	}
	return 0
}

func (r *reader) floats(dst []float32) {
	for i := range dst {
		if part := r.take(4); part != nil {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(part))
		}
	}
}

func (r *reader) column() column {
	c := column{name: string(r.take(r.number(1 << 10)))}
	c.count = r.number(1 << 31)
	var list [6]float32
	r.floats(list[:])
	c.mean, c.scale, c.bias, c.slope, c.shift, c.floor = list[0], list[1], list[2], list[3], list[4], list[5]
	r.floats(c.form[:])
	for range r.number(mostBins) {
		var b [4]float32
		r.floats(b[:])
		c.bins = append(c.bins, bin{b[0], b[1], b[2], b[3]})
	}
	return c
}
