package workloads

import (
	"math"
	"strings"
	"testing"
	"testing/fstest"
	"time"
)

func clients(t *testing.T, files ...string) *JobClients {
	t.Helper()
	folder := fstest.MapFS{"0-dataset.json": {Data: []byte("{}")}}
	for i, text := range files {
		folder[string(rune('a'+i))+"-trace.csv"] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := ReadJobClients(folder)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestClients: rates of two clients, one of which pauses; the gaps have the coefficient of
// variation of their distribution, and the means that the rates say.
func TestClients(t *testing.T) {
	c := clients(t, "0,2,0.577,Gamma,3,0.1\n600,0,0,,0,0\n1200,4,0.577,Gamma,3,0.2\n", "0,0,0,,0,0\n")
	if got := c.Rate(); math.Abs(got-2) > 1e-9 {
		t.Errorf("rate %v, want 2", got)
	}
	l := day()
	l.Length = 30 * time.Minute
	all, err := l.DrawFrom(c, 20, 4)
	if err != nil {
		t.Fatal(err)
	}
	requests, paused := 0, 0
	var gaps []float64
	for i, a := range all {
		requests += a.Size
		if a.At >= 600*time.Second && a.At < 1200*time.Second {
			paused++
		}
		if i > 0 && a.At < 600*time.Second && a.At > all[i-1].At {
			gaps = append(gaps, (a.At - all[i-1].At).Seconds())
		}
	}
	var mean, square float64
	for _, g := range gaps {
		mean, square = mean+g/float64(len(gaps)), square+g*g/float64(len(gaps))
	}
	variation := math.Sqrt(square-mean*mean) / mean
	if rate := float64(requests) / 1800; math.Abs(rate-20) > 1.5 || paused != 0 || math.Abs(variation-0.577) > 0.05 {
		t.Errorf("%.2f requests per second, %d jobs in the pause, gaps vary by %.3f", rate, paused, variation)
	}
}

func TestClientsThatAreNone(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "it is empty",
		"0,1,1,Gamma,1\n":                      "line 1: 5 fields",
		"0,1,1,Gamma,1,x\n":                    `line 1: field 6: "x" is not a number`,
		"0,-1,1,Gamma,1,1\n":                   `line 1: field 2: "-1" is not a number`,
		"0,1,1,Pareto,1,1\n":                   `line 1: distribution: "Pareto"`,
		"0,1,1,Gamma,1,1\n0,1,1,Weibull,1,1\n": "line 2: it begins at 0",
	} {
		_, err := ReadJobClients(fstest.MapFS{"a-trace.csv": {Data: []byte(text)}})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v; want %s", text, err, want)
		}
	}
	if _, err := ReadJobClients(fstest.MapFS{}); err == nil || !strings.Contains(err.Error(), "there is no file") {
		t.Error(err)
	}
	l := day()
	l.Length = time.Hour
	if _, err := l.DrawFrom(clients(t, "0,2,0.577,Gamma,3,0.1\n"), 20, 1); err == nil || !strings.Contains(err.Error(), "longer than the clients' day, 600 s") {
		t.Error(err)
	}
}
