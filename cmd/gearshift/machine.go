package main

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

	"gearshift/cmd/gearshift/scenario"
	"gearshift/serving/measure"
)

// machineOf describes this machine, if the engine at the URL is on it.
func machineOf(address string) string {
	if !here(address) {
		return unsaid
	}
	return thisMachine()
}

// here says whether the server at the URL is on this machine, as far as the URL
// tells.
func here(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	host, ip := u.Hostname(), net.ParseIP(u.Hostname())
	name, err := os.Hostname()
	return host == "localhost" || ip != nil && ip.IsLoopback() || err == nil && host == name
}

// processorsOf reads what this machine's processors did, if all of the targets are
// on it and its system tells; else nothing.
func processorsOf(targets ...measure.Target) func() measure.Processors {
	if slices.ContainsFunc(targets, func(t measure.Target) bool { return !here(t.URL) }) {
		return unknownProcessors
	}
	return measure.ReadProcessors
}

func unknownProcessors() measure.Processors { return measure.Processors{} }

// upstreamTargets are the servers of a scenario's replicas, of which it has none where
// the router computes.
func upstreamTargets(s *scenario.Scenario) (list []measure.Target) {
	if s.Serving.Backend == scenario.Upstream {
		for _, at := range s.Serving.Upstreams {
			list = append(list, measure.Target{URL: at.URL})
		}
	}
	return list
}

// stolenWords says what a share of the processors' time was stolen by, for a note.
func stolenWords(share float64) string {
	return fmt.Sprintf("the host of this virtual machine gave %.0f %% of its processors to others", 100*share)
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
