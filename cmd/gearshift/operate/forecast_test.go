package operate

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
)

// forecast runs the command with a history.
func forecast(t *testing.T, history string, args ...string) (string, error) {
	t.Helper()
	return execute(t, newReplicaForecast(), history, append([]string{"--history", "-", "--capacity", "10"}, args...)...)
}

// twoDays is a load that swings between 50 and 150 each day, each ten minutes, until noon of the
// third day.
func twoDays() string {
	var b strings.Builder
	b.WriteString("second,requests_per_s\n")
	for i := range 144*2 + 72 {
		fmt.Fprintf(&b, "%d,%.3f\n", i*600, 100-50*math.Cos(2*math.Pi*float64(i)/144))
	}
	return b.String()
}

// TestReplicasAreForecast: at noon the load is at its height, and falls within two hours by as much
// as it did on the days before.
func TestReplicasAreForecast(t *testing.T) {
	out, err := forecast(t, twoDays(), "--target", "1", "--quantile", "0.5", "--format", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list []struct {
		InS      float64 `json:"in_s"`
		Expected float64 `json:"expected_per_s"`
		Replicas int     `json:"replicas"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	if n := len(list); n != 12 {
		t.Fatalf("%d times within two hours, want 12", n)
	}
	last := list[11]
	want := 100 - 50*math.Cos(2*math.Pi*float64(72+11)/144)
	if last.InS != 7200 || math.Abs(last.Expected-want) > 1 || last.Replicas != int(math.Ceil(want/10)) {
		t.Errorf("in %v s %.2f are expected with %d replicas, want %.2f", last.InS, last.Expected, last.Replicas, want)
	}
	if out, err = forecast(t, twoDays()); err != nil || strings.Count(out, "\n") != 16 || !strings.Contains(out, "2h0m0s") ||
		!strings.Contains(out, "Replicas: the rate with margin divided by 8 (a capacity of 10 at a utilisation of 0.8), rounded up") {
		t.Errorf("the table is %q, the error %v", out, err)
	}
}

// TestAMarginSaysWhatItWasJudgedOn: a day of the history at most.
func TestAMarginSaysWhatItWasJudgedOn(t *testing.T) {
	for history, want := range map[string]string{twoDays(): "of the last day with", "0,1\n600,2\n1200,1\n": "of the history with"} {
		if out, err := forecast(t, history); err != nil || !strings.Contains(out, want) {
			t.Errorf("no %q in %q, the error %v", want, out, err)
		}
	}
}

func TestBadHistories(t *testing.T) {
	for history, want := range map[string]string{
		"0,1\n":                  "1 rates; want at least 2",
		"0,1\n60,x\n":            `line 2: want a time in seconds and a rate`,
		"0,1\n60,-1\n":           `line 2: want a time in seconds and a rate`,
		"0,1\n60,NaN\n":          `line 2: want a time in seconds and a rate`,
		"0,1\n60,1\n180,1\n":     "line 3: 120 s after the line before; want 60",
		"0,1\n3600,1\n7200,1\n":  "rates are 3600 s apart",
		"0,1,2\n":                "wrong number of fields",
		"time,rate\ntime,rate\n": "line 2: want a time",
	} {
		if _, err := forecast(t, history); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q", history, err, want)
		}
	}
	if _, err := forecast(t, twoDays(), "--target", "2"); err == nil || !strings.Contains(err.Error(), "a target of 2") {
		t.Errorf("the error is %v", err)
	}
}
