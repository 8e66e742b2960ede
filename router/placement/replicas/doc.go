// Package replicas counts how many replicas a model should have. A [Planner] expects the load of
// the next hours from that of past days, and has replicas started before they are needed. A
// [Reactive] scaler follows the load that there is, as most do. Loads are rates of examples, the
// unit of work: a request that carries ten examples counts ten times.
package replicas

import "time"

// Scaler says how many replicas there should be. It is asked at regular times, the first of
// which is one period after the start, and is not safe for concurrent use.
type Scaler interface {
	// Desired returns how many replicas there should be. The rate is the mean since the call
	// before, including examples that were refused. The replicas are those that are up or
	// starting.
	Desired(now time.Duration, rate float64, replicas int) int
}
