package workloads

import (
	"math/rand/v2"

	"gearshift/internal/splitmix"
)

// Domain is a purpose that seeds are drawn for. Seeds of two domains never
// meet, so nothing is ever evaluated on a workload that it was trained on.
type Domain uint8

// The domains. Zero is none of them: a bare small number is the seed of none.
const (
	Training   Domain = iota + 1 // what a policy learns from
	Validation                   // what chooses among a training run's checkpoints
	Evaluation                   // what reports are made of
	Serving                      // replay against a live router, and its simulated backends
)

// Seed returns the n-th seed of a domain: the domain in the top byte, n below it.
// Distinct n under 2⁵⁶ give distinct seeds; higher bits of n are ignored.
// Seeds are consecutive on purpose, as [source] hashes them before use.
func Seed(d Domain, n uint64) uint64 { return uint64(d)<<56 | n&(1<<56-1) }

// Number returns the number of a seed in its domain.
func Number(seed uint64) uint64 { return seed & (1<<56 - 1) }

// Seeds returns the first n of a domain.
func Seeds(d Domain, n int) []uint64 {
	list := make([]uint64, n)
	for i := range list {
		list[i] = Seed(d, uint64(i))
	}
	return list
}

// part separates the random sources under one seed.
type part uint64

const (
	arrivalPart part = iota + 1
	taskPart
	promptPart
	outputPart
	textPart
	blockPart
)

// source returns the random source of one part of a workload. The seed alone fixes
// the upper half of the generator's 128 bits, and mix is a bijection, so two
// seeds never share a source; nor do two parts, by the lower half.
func source(seed uint64, p part) *rand.Rand {
	return rand.New(rand.NewPCG(splitmix.Next(seed), splitmix.Next(seed^splitmix.Next(uint64(p)))))
}
