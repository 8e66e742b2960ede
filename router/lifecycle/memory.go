package lifecycle

import (
	"fmt"
	"strconv"
	"strings"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// MemoryError says that a host has no room for a replica.
type MemoryError struct {
	Host, Variant string
	// Memory is the host's, Free what is left of it once all that is under way has ended,
	// and Needs what the replica takes, in bytes.
	Memory, Free, Needs int64
}

// Error implements error.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("host %s has %s, %s of them free; %s takes %s: %s are missing",
		e.Host, bytes(e.Memory), bytes(e.Free), e.Variant, bytes(e.Needs), bytes(e.Needs-e.Free))
}

// bytes writes a size to a tenth of its unit.
func bytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size {
			return strings.TrimSuffix(strconv.FormatFloat(float64(n)/float64(unit.size), 'f', 1, 64), ".0") + " " + unit.name
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// Free is what the replicas on the host leave of its memory now, in bytes; 0 if its size
// is unknown.
func (c *Controller) Free(host int) int64 { return c.free(host, -1, c.holds) }

// fits reports whether the replica can be loaded in addition to what is loaded now.
func (c *Controller) fits(i int) bool {
	host := c.table.Replicas[i].Host
	return c.table.Hosts[host].Memory == 0 || c.free(host, i, c.holds) >= c.table.MemoryOf(i)
}

// lack is a [MemoryError] if the replica could not be loaded for the rank even once all that is under
// way has ended.
func (c *Controller) lack(i int, rank Rank) error {
	r := &c.table.Replicas[i]
	host := &c.table.Hosts[r.Host]
	if host.Memory == 0 {
		return nil
	}
	free, needs := c.free(r.Host, i, c.willHold)-c.reserved(r.Host, i, rank), c.table.MemoryOf(i)
	if needs <= free {
		return nil
	}
	return &MemoryError{Host: host.Name, Variant: c.table.Variants[r.Variant].Name, Memory: host.Memory, Free: max(0, free), Needs: needs}
}

// free is what the host's replicas, without one of them, leave of its memory.
func (c *Controller) free(host, without int, of func(replica int) int64) int64 {
	free := c.table.Hosts[host].Memory
	for _, j := range c.table.ReplicasOn(host) {
		if j != without {
			free -= of(j)
		}
	}
	return free
}

// holds is what the replica takes now.
func (c *Controller) holds(i int) int64 {
	if r := &c.replicas[i]; r.phase == acting || r.doubt != 0 {
		return c.duringAction(i)
	}
	return c.takes(i, c.ledger.Placed(i))
}

// duringAction is what the replica takes during the last action on it: all of its memory,
// unless it sleeps until it is unloaded.
func (c *Controller) duringAction(i int) int64 {
	if r := &c.replicas[i]; r.verb == control.Unload && r.from == fleet.Warm {
		return c.takes(i, fleet.Warm)
	}
	return c.takes(i, fleet.Up)
}

// willHold is what the replica takes once its order has been followed.
func (c *Controller) willHold(i int) int64 {
	switch r := &c.replicas[i]; {
	case r.phase != settled:
		return c.takes(i, r.target)
	case r.doubt != 0:
		return c.duringAction(i)
	}
	return c.takes(i, c.leaving(i))
}

// takes is what the replica takes in the state.
func (c *Controller) takes(i int, s fleet.State) int64 {
	if s == fleet.Cold || s == fleet.Warm { // what sleeps has given its memory back
		return 0
	}
	return c.table.MemoryOf(i)
}
