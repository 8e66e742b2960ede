// Package archtest holds the shape of the module as tests: which package may
// import which, which library stays in which room, who may read a clock, what the
// binary links, and where the links of the documentation lead. Each ban stands
// with its reason. It exports nothing.
package archtest
