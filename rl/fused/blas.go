//go:build !openblas

package fused

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// library multiplies the matrices.
var library blas.Float32Level3 = gonum.Implementation{}

// BLAS names the matrix library that this build trains with.
func BLAS() string { return "gonum" }
