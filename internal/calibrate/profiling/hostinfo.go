package profiling

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/serving/engines/address"
)

// This file is the machine that measures: which it is, whether a server is on it,
// and what its processors did meanwhile.

// Unsaid stands for what is not known of a machine or a model.
const Unsaid = "not said"

// MachineOf describes this machine, if the engine at the URL is on it; else it is [Unsaid].
func MachineOf(address string) string {
	if !here(address) {
		return Unsaid
	}
	return this()
}

// here reports whether the server at the URL is on this machine, as far as the URL
// shows.
func here(at string) bool {
	if address.IsSocket(at) {
		return true
	}
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	host, ip := u.Hostname(), net.ParseIP(u.Hostname())
	name, err := os.Hostname()
	return host == "localhost" || ip != nil && ip.IsLoopback() || err == nil && host == name
}

// Processors reads what this machine's processors did, if all of the targets are on it
// and its system reports it; else nothing.
func Processors(targets ...loadgen.Target) func() loadgen.Processors {
	if slices.ContainsFunc(targets, func(t loadgen.Target) bool { return !here(t.URL) }) {
		return func() loadgen.Processors { return loadgen.Processors{} }
	}
	return loadgen.ReadProcessors
}

// StolenWords says, for a note, who took this share of the processors' time, 0 to 1.
func StolenWords(share float64) string {
	return fmt.Sprintf("the host of this virtual machine gave %.0f %% of its processors to others", 100*share)
}

// this is this machine by its processor, cores, memory and system, as far as they are known.
func this() string {
	parts := []string{fmt.Sprintf("%d cores", runtime.NumCPU())}
	if model := field("/proc/cpuinfo", "model name", ":"); model != "" {
		parts = append([]string{model}, parts...)
	}
	if kB, err := strconv.ParseFloat(strings.TrimSuffix(field("/proc/meminfo", "MemTotal", ":"), " kB"), 64); err == nil {
		parts = append(parts, fmt.Sprintf("%.1f GiB", kB/(1<<20)))
	}
	system := runtime.GOOS + "/" + runtime.GOARCH
	if name := field("/etc/os-release", "PRETTY_NAME", "="); name != "" {
		system = strings.Trim(name, `"`) + ", " + system
	}
	return strings.Join(append(parts, system), ", ")
}

// field returns the value of the first line of a file that begins with the key.
func field(path, key, separator string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), separator); ok && strings.TrimSpace(name) == key {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
