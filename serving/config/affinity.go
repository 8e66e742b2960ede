package config

import (
	"fmt"
	"math"

	"gearshift/internal/faults"
)

// Affinity is how requests of one session find the replica that served it
// before. What the header says is hashed, and goes no further than to the upstream.
type Affinity struct {
	// Header names a request's session. Empty: there is no affinity.
	Header string `yaml:"header"`
	// Bound is how much busier than the least busy its replica may be.
	Bound float64 `yaml:"bound"`
}

func defaultAffinity() Affinity { return Affinity{Bound: 1.25} }

// On reports whether sessions are distinguished.
func (a Affinity) On() bool { return a.Header != "" }

// Validate names every fault by its YAML key.
func (a Affinity) Validate() error {
	var found faults.List
	for _, c := range []byte(a.Header) {
		if c <= ' ' || c >= 0x7f || c == ':' {
			found.Add(fmt.Errorf("affinity.header: %q is not the name of a header; want one such as x-session-id", a.Header))
			break
		}
	}
	found.If(!(a.Bound >= 1) || math.IsInf(a.Bound, 1), "affinity.bound: want 1 or more, such as 1.25, not %v", a.Bound)
	return found.Err()
}
