//go:build onnx && cgo

package onnx

/*
#include <malloc.h>

// trim gives memory that is free back to the system.
static void trim(void) {
#ifdef __GLIBC__
	malloc_trim(0);
#endif
}
*/
import "C"

// returnFree gives the memory of a model that is closed back to the system. By itself glibc
// keeps what is freed of its heap, which most weights come from.
func returnFree() { C.trim() }
