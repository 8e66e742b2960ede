package main

import (
	"bufio"
	"fmt"
	"net"
	"net/url"
	"os"
	"runtime"
	"strconv"
	"strings"
)

// machineOf describes this machine, if the engine at the URL is on it.
func machineOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return unsaid
	}
	host, ip := u.Hostname(), net.ParseIP(u.Hostname())
	if name, err := os.Hostname(); host != "localhost" && (ip == nil || !ip.IsLoopback()) && (err != nil || host != name) {
		return unsaid
	}
	return thisMachine()
}

const unsaid = "not said"

// thisMachine is its processor, cores, memory and system, as far as it tells.
func thisMachine() string {
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

// field is the value of the first line of a file that begins with the key.
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
