package streaming

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Child is the client that a process of its own emulates, and when the first one begins: INDEX@MILLISECONDS of Unix time.
type Child struct {
	index int
	begin int64
}

// Set implements the value of a flag.
func (c *Child) Set(text string) error {
	_, err := fmt.Sscanf(text, "%d@%d", &c.index, &c.begin)
	return err
}

// Type implements the value of a flag.
func (c *Child) Type() string { return "INDEX@MS" }

// Given reports whether this process is one of a client.
func (c *Child) Given() bool { return c.begin > 0 }

// String implements the value of a flag.
func (c *Child) String() string { return fmt.Sprintf("%d@%d", c.index, c.begin) }

// startup is how long processes may take to start before the first client begins.
const startup = 2 * time.Second

// inProcesses has each client emulated by a process of its own. One that fails says so in what it has measured.
func (o *Options) inProcesses(ctx context.Context, args []string) ([]*Measured, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot start clients: %w", err)
	}
	begin := time.Now().Add(startup + time.Duration(o.Clients)*20*time.Millisecond).UnixMilli()
	measured, done := make([]*Measured, o.Clients), make(chan int)
	for i := range o.Clients {
		go func() {
			measured[i] = childMeasured(ctx, self, append(args, "--child", (&Child{i, begin}).String()))
			done <- i
		}()
	}
	for range o.Clients {
		<-done
	}
	return measured, ctx.Err()
}

// childMeasured runs a process until it ends, or the context does, and returns what its client has measured.
func childMeasured(ctx context.Context, self string, args []string) *Measured {
	c := exec.CommandContext(ctx, self, args...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 5 * time.Second
	var out, said bytes.Buffer
	c.Stdout, c.Stderr = &out, &said
	m := &Measured{}
	if err := c.Run(); err != nil {
		last := strings.TrimSpace(said.String())
		m.Failed = strings.TrimSuffix(fmt.Sprintf("a client's process: %v: %s", err, last[strings.LastIndexByte(last, '\n')+1:]), ": ")
	} else if err := json.Unmarshal(out.Bytes(), m); err != nil {
		m.Failed = fmt.Sprintf("a client's process: %v", err)
	}
	return m
}
