package scenario

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Bytes is a size: a plain number of bytes, or one with a unit, as in 24GiB
// (powers of 1024) or 500MB (powers of 1000).
type Bytes int64

// byteUnits are tried in order: a suffix of another comes after it.
var byteUnits = []struct {
	suffix string
	bytes  float64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
}

// UnmarshalText reads a size.
func (b *Bytes) UnmarshalText(text []byte) error {
	number, unit := string(text), 1.0
	for _, u := range byteUnits {
		if n, ok := strings.CutSuffix(number, u.suffix); ok {
			number, unit = n, u.bytes
			break
		}
	}
	n, err := positive(number)
	// Above 2⁵³ a float no longer counts single bytes, and no host has that many.
	if size := n * unit; err == nil && size >= 1 && size <= 1<<53 {
		*b = Bytes(size)
		return nil
	}
	return fmt.Errorf("want a size such as 24GiB, 500MB or a number of bytes, found %q", text)
}

// MarshalText writes the number of bytes.
func (b Bytes) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(b), 10), nil }

// String returns the size for people: gibibytes, and the bytes next to them since
// two sizes that differ may round to the same.
func (b Bytes) String() string {
	return fmt.Sprintf("%.2f GiB (%d bytes)", float64(b)/(1<<30), int64(b))
}

// Share is a part of a host's memory in percent, written 90%.
type Share float64

// UnmarshalText reads a share above 0% and up to 100%.
func (s *Share) UnmarshalText(text []byte) error {
	number, ok := strings.CutSuffix(string(text), "%")
	n, err := positive(number)
	if !ok || err != nil || n > 100 {
		return fmt.Errorf("want a share such as 90%%, above 0%% and at most 100%%, found %q", text)
	}
	*s = Share(n)
	return nil
}

// MarshalText writes the share as it is read.
func (s Share) MarshalText() ([]byte, error) {
	return append(strconv.AppendFloat(nil, float64(s), 'g', -1, 64), '%'), nil
}

// Of returns the share's part of so many bytes, rounded down.
func (s Share) Of(host Bytes) Bytes { return Bytes(float64(host) * float64(s) / 100) }

// Memory is what a replica takes: a size, or a share of its host's memory.
type Memory struct {
	Size  Bytes
	Share Share // where Size is zero
}

// UnmarshalText reads a [Bytes] or a [Share].
func (m *Memory) UnmarshalText(text []byte) error {
	if strings.HasSuffix(string(text), "%") {
		*m = Memory{}
		return m.Share.UnmarshalText(text)
	}
	if m.Size.UnmarshalText(text) != nil {
		return fmt.Errorf("want a size such as 5GiB or a share of the host such as 20%%, found %q", text)
	}
	return nil
}

// MarshalText writes what was read.
func (m Memory) MarshalText() ([]byte, error) {
	if m.Size > 0 {
		return m.Size.MarshalText()
	}
	return m.Share.MarshalText()
}

// On returns the number of bytes on a host with so much memory.
func (m Memory) On(host Bytes) Bytes {
	if m.Size > 0 {
		return m.Size
	}
	return m.Share.Of(host)
}

// positive reads a decimal number above zero; underscores may part its digits.
func positive(s string) (float64, error) {
	n, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(s), "_", ""), 64)
	if err != nil || !(n > 0) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is not a positive number", s)
	}
	return n, nil
}

// Scale is a factor whose default is 1. As a default it leaves no trace in the
// hash, so that scenarios from before it was known keep theirs.
type Scale float64

// IsZero reports whether the factor is the default, for omitempty.
func (s Scale) IsZero() bool { return s == 1 }
