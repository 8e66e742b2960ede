package onnxruntime

import (
	"runtime"
	"syscall"
)

// niceness is how much nicer than the process the thread is that loads a model: beside one
// that answers it gets a tenth of a core, and all of what is unused otherwise.
const niceness = 10

// aside runs what loads a model on a thread of its own, which yields to those that answer.
// Threads that the thread begins would inherit that for good, so that a model of several
// threads is loaded at the usual priority.
func aside(load func(), threads int) {
	if threads > 1 {
		load()
		return
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		// The thread is never unlocked, and so ends with the goroutine.
		runtime.LockOSThread()
		if p, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0); err == nil {
			const lowest = 19
			_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), min(lowest, 20-p+niceness)) // the system call adds 20, and turns it round
		}
		load()
	}()
	<-done
}
