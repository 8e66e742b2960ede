package streams

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Recording holds what a network carried, as it was recorded: of equal steps of time, from its start on.
type Recording struct {
	Step time.Duration
	// Up and Down are in Mbit/s, and RoundTrip is the time there and back. A list of one holds throughout.
	Up, Down  []float64
	RoundTrip []time.Duration
}

// At returns what the link carries then. After its end a recording begins again.
func (l *Recording) At(t time.Duration) (up, down float64, roundTrip time.Duration) {
	k := int(t / l.Step)
	return l.Up[k%len(l.Up)], l.Down[k%len(l.Down)], l.RoundTrip[k%len(l.RoundTrip)]
}

// Length returns how long the longest of the recordings is.
func (l *Recording) Length() time.Duration {
	return time.Duration(max(len(l.Up), len(l.Down), len(l.RoundTrip))) * l.Step
}

// What mahimahi records: when a packet of so many bytes could be delivered, in milliseconds. Rates are counted over
// mahimahiStep.
const (
	mahimahiPacket   = 1504
	mahimahiStep     = 100 * time.Millisecond
	longestRecording = 24 * time.Hour
)

// ReadMahimahi reads two traces of mahimahi, of which each line is a time in milliseconds at which a packet of 1,504
// bytes can be delivered, in order. Mahimahi has the round trip apart.
func ReadMahimahi(up, down io.Reader, roundTrip time.Duration) (*Recording, error) {
	l := &Recording{Step: mahimahiStep, RoundTrip: []time.Duration{roundTrip}}
	var err error
	if l.Up, err = mahimahi(up); err != nil {
		return nil, fmt.Errorf("cannot read the trace of the uplink: %w", err)
	}
	if l.Down, err = mahimahi(down); err != nil {
		return nil, fmt.Errorf("cannot read the trace of the downlink: %w", err)
	}
	return l, nil
}

// mahimahi returns the rates of a trace.
func mahimahi(r io.Reader) (rates []float64, err error) {
	const mbits = mahimahiPacket * 8 / 1e6
	last, line := int64(0), 0
	for s := bufio.NewScanner(r); ; {
		if !s.Scan() {
			if err := s.Err(); err != nil {
				return nil, err
			}
			break
		}
		line++
		text := strings.TrimSpace(s.Text())
		if text == "" {
			continue
		}
		ms, err := strconv.ParseInt(text, 10, 64)
		at := time.Duration(ms) * time.Millisecond
		if err != nil || ms < last || at > longestRecording {
			return nil, fmt.Errorf("line %d: want a time in milliseconds, none earlier than the one before, found %q", line, text)
		}
		last = ms
		k := int(max(0, at-1) / mahimahiStep)
		rates = append(rates, make([]float64, max(0, k+1-len(rates)))...)
		rates[k] += mbits / mahimahiStep.Seconds()
	}
	if len(rates) == 0 {
		return nil, errors.New("it has no lines")
	}
	return rates, nil
}

// The columns of a speed test: seconds since its start, Mbit/s, and milliseconds of a ping.
var speedTestColumns = []string{"time_s", "up_mbps", "down_mbps", "ping_ms"}

// ReadSpeedTest reads a table of speed tests as CSV with the columns time_s, up_mbps, down_mbps and ping_ms, in any
// order beside others. Rows are at equal distances, which are the steps.
func ReadSpeedTest(r io.Reader) (*Recording, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("cannot read speed tests: %w", err)
	}
	if len(rows) < 3 {
		return nil, fmt.Errorf("cannot read speed tests: %d lines; want a head and two rows at least", len(rows))
	}
	var at [4]int
	for i, name := range speedTestColumns {
		if at[i] = slices.Index(rows[0], name); at[i] < 0 {
			return nil, fmt.Errorf("cannot read speed tests: line 1: there is no column %s; want %s", name, strings.Join(speedTestColumns, ", "))
		}
	}
	l := &Recording{}
	before := 0.0
	for n, row := range rows[1:] {
		var x [4]float64
		for i, k := range at {
			if x[i], err = strconv.ParseFloat(strings.TrimSpace(row[k]), 64); err != nil || !(x[i] >= 0) || math.IsInf(x[i], 1) {
				return nil, fmt.Errorf("cannot read speed tests: line %d: %s: want a number from 0 on, found %q", n+2, speedTestColumns[i], row[k])
			}
		}
		step := time.Duration((x[0] - before) * float64(time.Second)).Round(time.Millisecond)
		switch {
		case n == 1:
			l.Step = step
		case n > 1 && step != l.Step:
			return nil, fmt.Errorf("cannot read speed tests: line %d: time_s: %v after the row before, and the first two are %v apart; want equal steps", n+2, step, l.Step)
		}
		if n > 0 && l.Step <= 0 {
			return nil, fmt.Errorf("cannot read speed tests: line %d: time_s: want a time after that of the row before", n+2)
		}
		before = x[0]
		l.Up, l.Down = append(l.Up, x[1]), append(l.Down, x[2])
		l.RoundTrip = append(l.RoundTrip, time.Duration(x[3]*float64(time.Millisecond)))
	}
	return l, nil
}
