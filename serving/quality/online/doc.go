// Package online has the predictor of quality in charge learn from the scores of answers: by the
// minute, with no key deciding for the others, and guarded by a comparison with the rows of tasks.
package online
