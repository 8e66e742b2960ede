package durable

import "runtime/debug"

// Guard runs op and returns what it panicked with, if it did. A fault of the
// mapped file counts as a panic too: a file that shrinks under its map would
// otherwise end the process.
func Guard(op func() error) (panicked any, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() { panicked = recover() }()
	return nil, op()
}
