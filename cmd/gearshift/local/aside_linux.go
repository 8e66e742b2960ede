package local

import (
	"runtime"
	"syscall"
)

// niceness of the thread that loads a model: beside one that answers, at 0, it gets a
// tenth of a core, and all of what nobody else uses.
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
		_ = syscall.Setpriority(syscall.PRIO_PROCESS, syscall.Gettid(), niceness)
		load()
	}()
	<-done
}
