package env

import "gearshift/router/profile"

// SlowGPU makes the GPU part of every step take factor times as long as the profiles say,
// to show what a wrong estimate does. Rules and policies that were made of the declared
// profiles keep those.
func (c *Config) SlowGPU(factor float64) {
	slowed := map[*profile.Profile]*profile.Profile{} // replicas may share one
	profiles := make([]*profile.Profile, len(c.Profiles))
	for i, p := range c.Profiles {
		if slowed[p] == nil {
			slowed[p] = p.SlowerGPU(factor)
		}
		profiles[i] = slowed[p]
	}
	c.Profiles = profiles
}

// SlowVariants makes the engines of each variant slower than the profiles say, by the
// factor at the variant's index. Rules and policies that were made of the declared profiles
// keep those.
func (c *Config) SlowVariants(factors []float64) {
	profiles := make([]*profile.Profile, len(c.Profiles))
	for i, p := range c.Profiles {
		profiles[i] = p.Slower(factors[c.Table.Replicas[i].Variant])
	}
	c.Profiles = profiles
}
