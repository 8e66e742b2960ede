package failover

// improve finds better variants for applications that run elsewhere than on their primary, for
// which backups become smaller.
func (c *Controller) improve() {
	var asks []ask
	for i := range c.apps {
		a := &c.apps[i]
		if a.active == nil || !a.moved || a.target != nil {
			continue
		}
		if better := c.better(i, a.active.Variant); len(better) > 0 {
			asks = append(asks, ask{app: i, variants: better})
		}
	}
	if len(asks) == 0 {
		return
	}
	for k, s := range c.solve(asks, c.yielded(), 0, ours) {
		if s.host >= 0 {
			c.apps[asks[k].app].target = c.want(asks[k].app, s.variant, s.host)
			c.version++
			c.yield(s.host, false)
		}
	}
}

// better lists the application's variants that are better than one, the smallest first.
func (c *Controller) better(i, than int) (list []int) {
	a := &c.problem.Applications[i]
	for _, v := range c.apps[i].sorted {
		if a.Variants[v].Quality > a.Variants[than].Quality {
			list = append(list, v)
		}
	}
	return list
}
