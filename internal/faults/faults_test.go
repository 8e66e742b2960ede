package faults_test

import (
	"errors"
	"testing"

	"gearshift/internal/faults"
)

func TestList(t *testing.T) {
	var found faults.List
	found.If(false, "not a fault: %d", 1)
	found.Add(nil)
	if err := found.Err(); err != nil {
		t.Errorf("no fault, and the error %v", err)
	}
	cause := errors.New("a cause")
	found.If(true, "the first: %d", 1)
	found.Add(cause)
	if err := found.Err(); err == nil || err.Error() != "the first: 1\na cause" || !errors.Is(err, cause) {
		t.Errorf("the error %v", err)
	}
}
