// Package shadow has a second size answer some requests too, off their clients' way and only while
// there is room. How far the smaller size's answer agrees with the largest's is a score that the
// predictor of quality learns from.
package shadow
