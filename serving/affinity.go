package serving

import (
	"errors"
	"fmt"
	"math"
	"net/http"
)

// AffinityConfig is how requests of one session find the replica that served it
// before. What the header says is hashed, and goes no further than to the upstream.
type AffinityConfig struct {
	// Header names a request's session. Empty: there is no affinity.
	Header string `yaml:"header"`
	// Bound is how much busier than the least busy its replica may be.
	Bound float64 `yaml:"bound"`
}

func defaultAffinity() AffinityConfig { return AffinityConfig{Bound: 1.25} }

// routersFault is of the number of routers that share the fleet.
func (c Config) routersFault() error {
	if c.Routers < 1 {
		return fmt.Errorf("routers: want how many share the fleet, 1 or more, not %d", c.Routers)
	}
	return nil
}

// On says whether sessions are told apart.
func (a AffinityConfig) On() bool { return a.Header != "" }

// Validate names every fault by its YAML key.
func (a AffinityConfig) Validate() error {
	var faults []error
	for _, c := range []byte(a.Header) {
		if c <= ' ' || c >= 0x7f || c == ':' {
			faults = append(faults, fmt.Errorf("affinity.header: %q is not the name of a header; want one such as x-session-id", a.Header))
			break
		}
	}
	if !(a.Bound >= 1) || math.IsInf(a.Bound, 1) {
		faults = append(faults, fmt.Errorf("affinity.bound: want 1 or more, such as 1.25, not %v", a.Bound))
	}
	return errors.Join(faults...)
}

// session is the hash of the session that the headers name; zero if they name none.
// It is FNV-1a, so that every router comes to the same.
func (a AffinityConfig) session(h http.Header) uint64 {
	if !a.On() {
		return 0
	}
	name := h.Get(a.Header)
	if name == "" {
		return 0
	}
	hash := uint64(0xcbf29ce484222325)
	for _, c := range []byte(name) {
		hash = (hash ^ uint64(c)) * 0x100000001b3
	}
	return max(hash, 1)
}
