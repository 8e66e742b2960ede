package modality

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
)

// Fingerprint identifies what a table is made of: the options with their times and
// qualities, the mixing, and the size. Tables of equal fingerprints are equal.
func Fingerprint(options []Option, mixing Mixing, size int) string {
	text, err := json.Marshal(struct {
		Format  int
		Options []Option
		Mixing  Mixing
		Size    int
	}{tableFormat, options, mixing, size})
	if err != nil {
		return "" // a number that is none, of which no table is made
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// tableFormat is the version of what Append writes.
const tableFormat = 1

// nodeBytes is the length of a node.
const nodeBytes = 24

// Append appends the strategies of the table, without its options. ReadTable reads them.
func (t *Table) Append(dst []byte) []byte {
	for _, level := range t.levels {
		for _, nodes := range level {
			dst = binary.LittleEndian.AppendUint32(dst, uint32(len(nodes)))
			for _, p := range nodes {
				dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.cost))
				dst = binary.LittleEndian.AppendUint64(dst, math.Float64bits(p.value))
				dst = binary.LittleEndian.AppendUint32(dst, uint32(p.from))
				dst = binary.LittleEndian.AppendUint32(dst, uint32(p.batch))
			}
		}
	}
	return dst
}

// errNoTable says that what was read is not a table of the options.
var errNoTable = errors.New("what is stored is not a table of these options")

// ReadTable reads what Append wrote of a table of the options. Each strategy is held against
// their times and qualities, so that what was written of others is an error.
func ReadTable(data []byte, options []Option, mixing Mixing, size int) (*Table, error) {
	if err := validate(options); err != nil {
		return nil, fmt.Errorf("cannot read table of strategies: %w", err)
	}
	t := &Table{options: options, mixing: mixing}
	below := make([][]node, size+1)
	below[0] = []node{{}}
	for k := range options {
		level := make([][]node, size+1)
		for n := range level {
			var err error
			if level[n], data, err = t.readNodes(data, k, n, below); err != nil {
				return nil, fmt.Errorf("cannot read table of strategies: %w", err)
			}
		}
		t.levels = append(t.levels, level)
		below = level
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("cannot read table of strategies: %w", errNoTable)
	}
	t.summarise()
	return t, nil
}

// readNodes reads the strategies of the first k+1 options for n requests.
func (t *Table) readNodes(data []byte, k, n int, below [][]node) ([]node, []byte, error) {
	if len(data) < 4 {
		return nil, nil, errNoTable
	}
	count := int(binary.LittleEndian.Uint32(data))
	if data = data[4:]; count > len(data)/nodeBytes {
		return nil, nil, errNoTable
	}
	nodes := make([]node, count)
	for i := range nodes {
		p := &nodes[i]
		p.cost = math.Float64frombits(binary.LittleEndian.Uint64(data))
		p.value = math.Float64frombits(binary.LittleEndian.Uint64(data[8:]))
		p.from = int32(binary.LittleEndian.Uint32(data[16:]))
		p.batch = int32(binary.LittleEndian.Uint32(data[20:]))
		if data = data[nodeBytes:]; !t.follows(p, k, n, below) {
			return nil, nil, errNoTable
		}
	}
	return nodes, data, nil
}

// follows reports whether the strategy is one of fewer options and a batch of option k.
func (t *Table) follows(p *node, k, n int, below [][]node) bool {
	o := &t.options[k]
	batch := int(p.batch)
	if batch < 0 || batch > n || batch > len(o.Latency) || p.from < 0 || int(p.from) >= len(below[n-batch]) {
		return false
	}
	from := below[n-batch][p.from]
	if batch == 0 {
		return p.cost == from.cost && p.value == from.value
	}
	return p.cost == from.cost+o.Latency[batch-1] && p.value == from.value+o.Quality*float64(batch)
}
