package main

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"gearshift/internal/race"
)

// check holds what has to be so once the load is off, and prints a table.
func (s *soak) check() {
	t := s.t
	for end := time.Now().Add(30 * time.Second); s.inFlight() > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	m := s.metrics()
	b := countsOf(m)
	var table strings.Builder
	fmt.Fprintf(&table, "\n%v, seed %d, troubles %v\n", s.length, s.seed, s.troubles)
	for _, row := range s.tally.rows() {
		fmt.Fprintln(&table, row)
	}
	fmt.Fprintf(&table, "router:  %+v\n", b)
	verdict := func(ok bool, format string, args ...any) {
		mark := "ok"
		if !ok {
			mark = "VIOLATED"
			t.Errorf(format, args...)
		}
		fmt.Fprintf(&table, "%-9s "+format+"\n", append([]any{mark}, args...)...)
	}
	y := s.tally
	left := y.of(soakLeft)
	// A client that leaves may do so before the router has read its request, or
	// just as the answer ends; for all others both count the same.
	agree := func(what string, client, router int) {
		verdict(client <= router && router <= client+left, "%s: %d by the clients, %d by the router, %d of clients that left", what, client, router, left)
	}
	verdict(y.of(soakOdd) == 0, "requests that ended in no way of those that there are: %d", y.of(soakOdd))
	verdict(y.of(soakServed) > 0, "requests served: %d, failed: %d", y.of(soakServed), y.of(soakFailed))
	agree("requests", y.of(soakServed, soakRefused, soakFailed, soakOdd), b.all())
	agree("served", y.of(soakServed), b.completed)
	agree("refused", y.of(soakRefused), b.refused)
	agree("failed", y.of(soakFailed), b.failed)
	verdict(s.inFlight() == 0, "in flight at the end: %v", s.inFlight())
	for _, e := range s.engines {
		running := (&engineProcess{url: "http://" + e.addr}).settles(t)
		verdict(running == 0, "running at the end on %s: %d", e.host, running)
	}
	if len(s.held) < soakMemory {
		fmt.Fprintf(&table, "%-9s memory: not judged in less than %d s\n", "–", soakMemory)
	} else {
		s.checkMemory(verdict)
	}
	s.checkGoroutines(verdict)
	for _, e := range s.engines {
		e.process.stop(t)
	}
	s.router.stop(t)
	verdict(s.router.log.races == 0, "races reported: %d", s.router.log.races)
	if t.Failed() {
		fmt.Fprintf(&table, "the router's log ends:\n%s", lastLines(s.router.log.String(), 4000))
	}
	fmt.Println(table.String())
}

func lastLines(text string, n int) string { return text[max(0, len(text)-n):] }

// counts are the router's own, from its metrics.
type counts struct{ completed, cancelled, refused, failed int }

func (b counts) all() int { return b.completed + b.cancelled + b.refused + b.failed }

func countsOf(metrics map[string]float64) (b counts) {
	for sample, value := range metrics {
		name, labels, _ := strings.Cut(sample, "{")
		n := int(value)
		switch {
		case name == "gearshift_rejections_total" || name == "gearshift_refusals_total":
			b.refused += n
		case name != "gearshift_requests_total":
		case strings.Contains(labels, `outcome="completed"`):
			b.completed += n
		case strings.Contains(labels, `outcome="cancelled"`):
			b.cancelled += n
		case strings.Contains(labels, `outcome="refused"`):
			b.refused += n
		default:
			b.failed += n
		}
	}
	return b
}

// metrics are the router's samples, by name with labels.
func (s *soak) metrics() map[string]float64 {
	s.t.Helper()
	samples := map[string]float64{}
	for line := range strings.Lines(s.get("/metrics")) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			samples[line[:i]], _ = strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
		}
	}
	return samples
}

// inFlight is the sum over the router's replicas.
func (s *soak) inFlight() (n float64) {
	for sample, value := range s.metrics() {
		if strings.HasPrefix(sample, "gearshift_in_flight{") {
			n += value
		}
	}
	return n
}

func (s *soak) get(path string) string {
	s.t.Helper()
	response, err := http.Get(s.url + path)
	if err != nil {
		s.t.Error(err)
		return ""
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Error(err)
	}
	return string(text)
}

// memory is the router's resident size or, under the race detector, which takes most of
// that and gives nothing back, what the Go runtime has of the system.
func (s *soak) memory() float64 {
	if race.Enabled {
		return s.metrics()["go_memstats_sys_bytes"]
	}
	return s.router.resident()
}

// soakMemory is how many seconds a run needs for its memory to be judged.
const soakMemory = 360

// checkMemory holds the last minute's memory to that of minute five.
func (s *soak) checkMemory(verdict func(bool, string, ...any)) {
	mean := func(from, to int) (sum float64) {
		for _, x := range s.held[from:to] {
			sum += x / float64(to-from) / 1e6
		}
		return sum
	}
	n := len(s.held) // a second each
	early, late := mean(270, 330), mean(n-60, n)
	verdict(0 < late && late <= 1.1*early, "memory: %.1f MB in minute 5, %.1f MB in the last", early, late)
}

// checkGoroutines holds their number to that before the load, once connections
// to the engines that nobody uses have been given up.
func (s *soak) checkGoroutines(verdict func(bool, string, ...any)) {
	http.DefaultClient.CloseIdleConnections()
	for _, e := range s.engines {
		e.process.kill()
		e.start() // whatever probes the engines finds them as before the load
	}
	const slack = 8
	var now float64
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if now = s.metrics()["go_goroutines"]; now <= s.goroutines+slack || time.Now().After(end) {
			break
		}
	}
	verdict(now <= s.goroutines+slack, "goroutines: %v before the load, %v after it", s.goroutines, now)
}
