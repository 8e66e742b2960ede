//go:build onnx && cgo && unix

package onnx

import (
	"fmt"
	"syscall"
	"unsafe"
)

// takeMemory is memory for so many numbers, above 0, straight from the system: it gives
// pages as they are first written to, takes all back at once, and none of it counts as the
// heap, which would be collected the later the larger it is.
func takeMemory(numbers int) ([]float32, error) {
	bytes, err := syscall.Mmap(-1, 0, 4*numbers, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("the system gives no %d bytes of memory: %w", 4*numbers, err)
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&bytes[0])), numbers), nil
}

// returnMemory gives back what takeMemory took.
func returnMemory(taken []float32) {
	_ = syscall.Munmap(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(taken))), 4*cap(taken)))
}
