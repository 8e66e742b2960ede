package rollout

// Newer lists the replicas that have the version which a roll under way leads to.
func (c *Controller) Newer() (list []int) {
	for i := range c.models {
		m := &c.models[i]
		for j := range m.locations {
			for k, version := range m.locations[j].versions {
				if r := c.replica(i, j, k); m.rolling && r >= 0 && version == m.wanted {
					list = append(list, r)
				}
			}
		}
	}
	return list
}

// mark has views show which replicas have a new version.
func (x *Replicas) mark() {
	newer := x.Newer()
	if len(newer) > 0 || x.marked {
		x.ledger.MarkNewer(newer)
	}
	x.marked = len(newer) > 0
}
