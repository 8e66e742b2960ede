package limits

import (
	"fmt"

	"gearshift/internal/faults"
)

// This file bounds the bytes that requests hold, all together: their bodies from
// the first byte on, and what is buffered of their answers. Time is an argument.

// MemoryConfig sizes the budgets, in bytes. A zero is derived; see [MemoryConfig.Resolve].
type MemoryConfig struct {
	// Limit is the memory that the process may use.
	Limit int64 `yaml:"-"`
	// Bodies bounds the bodies of requests in flight, those that still arrive included.
	Bodies int64 `yaml:"-"`
	// Answers bounds what is buffered of answers.
	Answers int64 `yaml:"-"`
}

// SmallBody is the size up to which a body is charged to the reserve, which large bodies
// cannot use up.
const SmallBody = 64 << 10

// The shares of the limit that the budgets have by default, as divisors, and of the
// bodies' budget that is reserved for small ones.
const (
	bodiesShare  = 4
	answersShare = 8
	reserveShare = 4
)

// DefaultMemory is the limit where none is known.
const DefaultMemory = 1 << 30

// minAnswers is the least budget for answers: that of 32 requests at once.
const minAnswers = 1 << 20

// Resolve fills in what is zero: the limit that is known of the machine, and the shares
// of it. Whatever the shares are, one body of the largest size fits.
func (c MemoryConfig) Resolve(known, maxBody int64) MemoryConfig {
	if c.Limit == 0 {
		c.Limit = known
	}
	if c.Limit <= 0 {
		c.Limit = DefaultMemory
	}
	if c.Bodies == 0 {
		c.Bodies = max(c.Limit/bodiesShare, leastBodies(maxBody))
	}
	if c.Answers == 0 {
		c.Answers = max(c.Limit/answersShare, minAnswers)
	}
	return c
}

// leastBodies is the smallest budget with room for the reserve and one body of the largest
// size.
func leastBodies(maxBody int64) int64 {
	return (maxBody+SmallBody)*reserveShare/(reserveShare-1) + reserveShare
}

// Validate names every fault of the configuration, by its YAML key.
func (c MemoryConfig) Validate(maxBody int64) error {
	var found faults.List
	for _, x := range []struct {
		key   string
		value int64
	}{{"limit", c.Limit}, {"bodies", c.Bodies}, {"answers", c.Answers}} {
		found.If(x.value < 0, "memory.%s: %d is negative", x.key, x.value)
	}
	if least := leastBodies(maxBody); c.Bodies > 0 && c.Bodies < least {
		found.Add(fmt.Errorf("memory.bodies: %d bytes cannot hold a body of max_body, %d bytes, and the reserve for small ones; want at least %d, or a lower max_body", c.Bodies, maxBody, least))
	}
	found.If(c.Answers > 0 && c.Answers < minAnswers, "memory.answers: %d must be at least %d bytes", c.Answers, minAnswers)
	found.If(c.Limit > 0 && c.Bodies+c.Answers > c.Limit, "memory.limit: bodies and answers, %d bytes together, exceed it", c.Bodies+c.Answers)
	return found.Err()
}
