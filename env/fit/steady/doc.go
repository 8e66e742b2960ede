// Package steady fits the latency model of an engine to samples taken under
// controlled loads: what a decode step of so many sequences and so much context
// takes, and the first token of a prompt, alone and beside busy neighbours. Such
// samples tell the parameters apart far better than a log of requests does.
package steady
