package rl_test

import (
	"testing"

	"gearshift/rl/rltest"
)

func TestLinearLearner(t *testing.T) { rltest.TestLearner(t, rltest.NewLinear) }
