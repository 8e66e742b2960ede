package overview

import (
	"math"
	"strconv"
)

// This file writes numbers as people and JSON take them.

// Pointer is nil for what JSON has no number for.
func Pointer(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	x = Short(x)
	return &x
}

// Short rounds to four significant digits.
func Short(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	x, _ = strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64)
	return x
}
