package main

import (
	"bytes"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// process is a gearshift command in a process of its own.
type process struct {
	command *exec.Cmd
	log     *processLog
	ended   chan struct{} // closed once it has; then err is how
	err     error
}

// startProcess starts the command. It ends with the test.
func startProcess(t *testing.T, args ...string) *process {
	t.Helper()
	return startPrefixed(t, nil, args...)
}

// startPrefixed starts the command by another, such as one that enters a network namespace.
func startPrefixed(t *testing.T, prefix []string, args ...string) *process {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	line := slices.Concat(prefix, []string{self}, args)
	command := exec.Command(line[0], line[1:]...)
	if group := os.Getenv("GEARSHIFT_TEST_CGROUP"); group != "" { // a folder under /sys/fs/cgroup
		command = exec.Command("sh", slices.Concat([]string{"-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group}, line)...)
	}
	p := &process{command: command, log: &processLog{addrs: make(chan string, 8)}, ended: make(chan struct{})}
	p.start(t)
	return p
}

// start starts the command as gearshift.
func (p *process) start(t *testing.T) {
	t.Helper()
	p.command.Env = append(os.Environ(), "GEARSHIFT_TEST_MAIN=1")
	p.command.Stderr = p.log
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.command.Wait()
		close(p.ended)
	}()
	t.Cleanup(p.kill)
}

// listens is the next address that the process says it listens on.
func (p *process) listens(t *testing.T) string { return p.listensWithin(t, 30*time.Second) }

// listensWithin is listens for a process that may take its time.
func (p *process) listensWithin(t *testing.T, limit time.Duration) string {
	t.Helper()
	select {
	case addr := <-p.log.addrs:
		return addr
	case <-p.ended:
		t.Fatalf("%v ended with %v: %s", p.command.Args[1:], p.err, p.log)
	case <-time.After(limit):
		t.Fatalf("%v does not listen: %s", p.command.Args[1:], p.log)
	}
	return ""
}

// kill ends it at once.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	<-p.ended
}

// stop asks it to end in order, which it must.
func (p *process) stop(t *testing.T) {
	t.Helper()
	_ = p.command.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		if p.err != nil {
			t.Errorf("%v ended with %v: %s", p.command.Args[1:], p.err, p.log)
		}
	case <-time.After(time.Minute):
		t.Errorf("%v does not end: %s", p.command.Args[1:], p.log)
	}
}

// resident is the size of the process in memory, in bytes; zero where the system
// does not say.
func (p *process) resident() float64 {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(p.command.Process.Pid) + "/statm")
	if err != nil {
		return 0
	}
	pages, _ := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	return pages * float64(os.Getpagesize())
}

// processLog keeps the end of what a process prints, and tells the addresses.
type processLog struct {
	mu    sync.Mutex
	text  bytes.Buffer
	races int // reported by the race detector
	addrs chan string
}

var processListens = regexp.MustCompile(`msg=listening (?:host=\S+ )?addr=(\S+)`)

// logKept bounds what is kept, in bytes.
const logKept = 1 << 20

func (l *processLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, m := range processListens.FindAllSubmatch(p, -1) {
		select {
		case l.addrs <- string(m[1]):
		default: // nobody asks
		}
	}
	l.races += bytes.Count(p, []byte("WARNING: DATA RACE"))
	if l.text.Len() > logKept {
		l.text.Next(logKept / 2)
	}
	return l.text.Write(p)
}

func (l *processLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
