package etcdtest

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/embed"
)

// Main runs a server with etcd's own defaults, in a process that the test may kill: it syncs its files, in a folder
// that stays. It prints its address, like gearshift's commands, and returns only if it cannot start.
func Main(dir, endpoint string) {
	s := &Server{Endpoint: endpoint, dir: dir, configure: func(c *embed.Config) {
		c.UnsafeNoFsync, c.TickMs, c.ElectionMs = false, 100, 1000
	}}
	if err := s.start(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintf(os.Stderr, "msg=listening addr=%s\n", s.Endpoint)
	fmt.Fprintln(os.Stderr, <-s.etcd.Err())
}
