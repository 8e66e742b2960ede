package failover_test

import (
	"fmt"
	"os"
	"strconv"
)

// traced is the seed of the only history that is played, and printed; −1 is none. It is that
// of the variable GEARSHIFT_TRACE.
var traced = func() int {
	if seed, err := strconv.Atoi(os.Getenv("GEARSHIFT_TRACE")); err == nil {
		return seed
	}
	return -1
}()

// trace prints what happens.
func (f *fake) trace(format string, args ...any) {
	if traced >= 0 {
		fmt.Printf("%v "+format+"\n", append([]any{f.now}, args...)...)
	}
}

// dump prints the hosts.
func (f *fake) dump() {
	if traced < 0 {
		return
	}
	for i, x := range f.c.Status().Hosts {
		f.trace("%s %s incarnation %d drill %v loaded %d loading %d %v dead %v mute %v", x.Name, x.Condition, x.Incarnation, x.Drill, x.Loaded, x.Loading, f.names(f.resident(i)), f.dead[i], f.mute[i])
	}
}
