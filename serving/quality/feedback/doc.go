// Package feedback takes scores of answers from the clients who asked for them: it remembers the
// prompts' features of answered requests for a while, and joins them with the scores.
package feedback
