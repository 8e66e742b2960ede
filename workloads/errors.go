package workloads

import (
	"errors"
	"fmt"

	"gearshift/internal/faults"
)

// KeyError is a fault of one key of a configuration. Validate methods join all
// that they find, so a caller can walk them and place each in its file.
type KeyError struct {
	// Key is the YAML key, dotted where it is nested: "prompt_tokens.max".
	Key string
	// Reason says what is wrong and what would be right.
	Reason string
}

// Error implements error: "key: reason".
func (e *KeyError) Error() string { return e.Key + ": " + e.Reason }

// keyFaults gathers key errors.
type keyFaults struct{ faults.List }

func (f *keyFaults) add(key, format string, args ...any) {
	f.Add(&KeyError{Key: key, Reason: fmt.Sprintf(format, args...)})
}

// addIf is add where bad holds.
func (f *keyFaults) addIf(bad bool, key, format string, args ...any) {
	if bad {
		f.add(key, format, args...)
	}
}

// nest adds the faults of a part under its key.
func (f *keyFaults) nest(key string, err error) {
	var one *KeyError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			f.nest(key, e)
		}
	} else if errors.As(err, &one) {
		f.add(key+"."+one.Key, "%s", one.Reason)
	}
}
