// Package faults gathers everything that is wrong with something, so that its author
// reads all of it at once.
package faults

import (
	"errors"
	"fmt"
)

// List is the faults that were found. Its zero value is empty.
type List []error

// If notes the fault that the format describes where the condition holds.
func (l *List) If(condition bool, format string, args ...any) {
	if condition {
		*l = append(*l, fmt.Errorf(format, args...))
	}
}

// Add notes errors. Those that are nil are none.
func (l *List) Add(errs ...error) { *l = append(*l, errs...) }

// Err joins the faults, a line each; it is nil without any.
func (l List) Err() error { return errors.Join(l...) }
