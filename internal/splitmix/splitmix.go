// Package splitmix scatters numbers over all 64 bits: the steps of SplitMix64 (Steele et
// al. 2014).
package splitmix

// Next returns the step of the generator from a state: a bijection on 64 bits, whose results
// for neighbouring arguments look unrelated.
func Next(x uint64) uint64 { return Mix(x + 0x9e3779b97f4a7c15) }

// Mix returns the generator's finaliser, which is a bijection too. Zero stays zero.
func Mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Unit returns the number that the upper 53 bits make, from 0 to below 1.
func Unit(x uint64) float64 { return float64(x>>11) / (1 << 53) }
