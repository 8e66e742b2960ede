package workloads

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// DailyInterval is how long each rate is the mean of.
const DailyInterval = 10 * time.Minute

//go:embed daily/day.csv
var dayText string

// DailyRates returns the requests per second, from midnight on, one for each [DailyInterval].
func DailyRates() []float64 {
	rates, err := parseDay(dayText)
	if err != nil {
		panic(err) // the file is part of the binary, and a test reads it
	}
	return rates
}

// parseDay reads lines of a second and a rate, below a header.
func parseDay(csv string) (rates []float64, err error) {
	for i, line := range strings.Split(strings.TrimSpace(csv), "\n")[1:] {
		second, rate, _ := strings.Cut(line, ",")
		at, err := strconv.Atoi(second)
		if err != nil || at != i*int(DailyInterval/time.Second) {
			return nil, fmt.Errorf("day.csv:%d: second %q, want %d", i+2, second, i*int(DailyInterval/time.Second))
		}
		x, err := strconv.ParseFloat(rate, 64)
		if err != nil || !(x > 0) {
			return nil, fmt.Errorf("day.csv:%d: rate %q, want a number above 0", i+2, rate)
		}
		rates = append(rates, x)
	}
	return rates, nil
}
