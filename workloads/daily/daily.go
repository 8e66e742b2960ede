// Package daily has the rate of a service's requests over a day, as it was recorded.
package daily

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Interval is how long each rate is the mean of.
const Interval = 10 * time.Minute

//go:embed day.csv
var csv string

// Rates returns the requests per second, from midnight on, one for each [Interval].
func Rates() []float64 {
	rates, err := parse(csv)
	if err != nil {
		panic(err) // the file is part of the binary, and a test reads it
	}
	return rates
}

// parse reads lines of a second and a rate, below a header.
func parse(csv string) (rates []float64, err error) {
	for i, line := range strings.Split(strings.TrimSpace(csv), "\n")[1:] {
		second, rate, _ := strings.Cut(line, ",")
		at, err := strconv.Atoi(second)
		if err != nil || at != i*int(Interval/time.Second) {
			return nil, fmt.Errorf("day.csv:%d: second %q, want %d", i+2, second, i*int(Interval/time.Second))
		}
		x, err := strconv.ParseFloat(rate, 64)
		if err != nil || !(x > 0) {
			return nil, fmt.Errorf("day.csv:%d: rate %q, want a number above 0", i+2, rate)
		}
		rates = append(rates, x)
	}
	return rates, nil
}
