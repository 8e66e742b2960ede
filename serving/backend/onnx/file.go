//go:build onnx && cgo

package onnx

import (
	"fmt"
	"io"
	"os"
	"unsafe"
)

// readFile reads a whole file into memory that the system gives for it and takes back
// at once when it is freed. On the heap, the file of a model would be collected late, and
// have everything that is allocated meanwhile scanned for it.
func readFile(path string) (data []byte, free func(), err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	if info.Size() == 0 || !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is empty, or no regular file", path)
	}
	numbers, err := takeMemory(int(info.Size()+3) / 4)
	if err != nil {
		return nil, nil, err
	}
	free = func() { returnMemory(numbers) }
	data = unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(numbers))), info.Size())
	if _, err := io.ReadFull(f, data); err != nil {
		free()
		return nil, nil, fmt.Errorf("%s has become shorter while it was read: %w", path, err)
	}
	return data, free, nil
}
