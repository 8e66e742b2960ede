package limits

import "gearshift/internal/faults"

// This file bounds how many clients are connected at once, in all and from
// each address, and what those may cost that have not sent a whole header yet.

// Config is the bounds. A zero is derived; see [Config.Resolve].
type Config struct {
	// Total bounds the connections of all clients.
	Total int `yaml:"total,omitempty"`
	// PerAddress bounds those of one IPv4 address, or of one /64 of IPv6. This
	// machine's own, and those of trusted proxies, are exempt: all clients may be behind one.
	PerAddress int `yaml:"per_address,omitempty"`
}

// The default bounds: memory for each connection that may wait, and the least and most
// of them. A connection with a request takes two files, its own and one to a replica.
const (
	connectionMemory = 96 << 10
	leastTotal       = 256
	mostTotal        = 1 << 16
	filesEach        = 2
	headersShare     = 16
)

// Resolve fills in what is zero, from the memory and the files that the process may
// use. Files of zero are unknown.
func (c Config) Resolve(memory int64, files int) Config {
	if c.Total == 0 {
		c.Total = int(min(max(memory/connectionMemory, leastTotal), mostTotal))
		if files > 0 {
			c.Total = min(c.Total, max(1, files/filesEach))
		}
	}
	if c.PerAddress == 0 {
		c.PerAddress = max(1, c.Total/2)
	}
	return c
}

// Validate names every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	found.If(c.Total < 0, "connections.total: %d is negative; 0 derives it from the memory", c.Total)
	found.If(c.PerAddress < 0, "connections.per_address: %d is negative; 0 is half of the total", c.PerAddress)
	found.If(c.Total > 0 && c.PerAddress > c.Total, "connections.per_address: %d exceeds the total of %d", c.PerAddress, c.Total)
	return found.Err()
}
