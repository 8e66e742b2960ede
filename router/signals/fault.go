package signals

// Fault is what is wrong with what an engine says. All but the last three leave the rest of the
// Load in use.
type Fault uint8

// The faults.
const (
	Fine Fault = iota
	// Restarted: a counter that only grows went back, or the process is another one.
	Restarted
	// Implausible: a value jumped further than requests can come, or is below the router's own.
	// It is bounded.
	Implausible
	// Frozen: the counters stand still while the router's own requests come and go.
	Frozen
	// Another: it is said of another model.
	Another
	// Impossible: no value is a number that a counter can have.
	Impossible
)

// Faults lists all faults, for metrics.
var Faults = [...]Fault{Restarted, Implausible, Frozen, Another, Impossible}

// String returns the fault's name.
func (f Fault) String() string {
	return [...]string{"fine", "restarted", "implausible", "frozen", "another model", "impossible"}[f]
}

// Refused reports whether what has the fault is not used.
func (f Fault) Refused() bool { return f >= Frozen }
