package onnx

import (
	"errors"
	"fmt"
)

// maxParts bounds how many of anything a file may list: nodes, tensors, inputs
// and so on. Few bytes can announce much.
const maxParts = 1000

var errTooMany = errors.New("too many parts for a policy")

// add appends a part to a list.
func add[T any](list *[]T, part T) error {
	if len(*list) == maxParts {
		return fmt.Errorf("%w: more than %d of one kind", errTooMany, maxParts)
	}
	*list = append(*list, part)
	return nil
}

// collect reads a part and appends it to a list.
func collect[T any](list *[]T, data []byte, read func([]byte) (T, error)) error {
	part, err := read(data)
	if err != nil {
		return err
	}
	return add(list, part)
}
