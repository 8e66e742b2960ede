package checkpoints

import (
	"errors"
	"fmt"

	"gearshift/checkpoints/onnxfile"
)

// maxParts bounds how many of anything a file may list: nodes, tensors, inputs
// and so on. Few bytes can announce much.
const maxParts = 1000

var errTooMany = errors.New("too many parts for a policy")

func tooMany() error { return fmt.Errorf("%w: more than %d of one kind", errTooMany, maxParts) }

// add appends a part to a list.
func add[T any](list *[]T, part T) error {
	if len(*list) == maxParts {
		return tooMany()
	}
	*list = append(*list, part)
	return nil
}

// collect has a field be read and appended to a list.
func collect[T any](list *[]T, read func([]byte) (T, error)) func(onnxfile.Field) error {
	return func(f onnxfile.Field) error {
		part, err := read(f.Bytes)
		if err != nil {
			return err
		}
		return add(list, part)
	}
}
