package loadgen

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// sample is a tally of known outcomes.
func sample(t *testing.T) ReplayReport {
	y := newTally(testTable(t))
	for i := range 100 {
		y.add(outcome{
			task: i % 2, variant: "large", tokens: 10,
			first: time.Duration(i+1) * time.Millisecond, total: time.Duration(i+1) * 100 * time.Millisecond,
			ended: time.Duration(i) * time.Second, late: time.Millisecond / 2,
		})
	}
	y.add(outcome{task: patient, variant: "small", tokens: 1, first: 1, total: 1})
	y.add(outcome{task: patient, fault: "status 429"})
	return y.report()
}

func TestPercentilesAreValuesThatOccurred(t *testing.T) {
	r := sample(t)
	if want := (Percentiles{P50: 50, P90: 90, P99: 99}); r.TTFT != want {
		t.Errorf("TTFT %+v, want %+v", r.TTFT, want)
	}
	if want := (Percentiles{P50: 500, P90: 900, P99: 990}); r.TPOT != want {
		t.Errorf("TPOT %+v, want %+v", r.TPOT, want)
	}
	if p := percentiles(nil); p != (Percentiles{}) {
		t.Errorf("of nothing: %+v", p)
	}
}

func TestWriteTable(t *testing.T) {
	var b strings.Builder
	if err := sample(t).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	const want = `requests             102 in 99.0 s, 101 completed
utility              0.495
deadlines met        50.0 %
time to first token  p50 50 ms     p90 90 ms     p99 99 ms
time per token       p50 500.0 ms  p90 900.0 ms  p99 990.0 ms
sent late            by at most 0 ms
errors: status 429   1

task     requests  utility  in time  large    small
patient  52        0.971    98.1 %   98.0 %   2.0 %
hasty    50        0.000    0.0 %    100.0 %  0.0 %
all      102       0.495    50.0 %   99.0 %   1.0 %
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestReportOfNothingIsJSON(t *testing.T) {
	b, err := json.Marshal(newTally(testTable(t)).report())
	if err != nil {
		t.Fatal(err) // a share of nothing must not be NaN
	}
	if !strings.Contains(string(b), `"requests":0`) {
		t.Errorf("got %s", b)
	}
}

// Where nothing was answered the table has no latencies, which would be the best of all.
func TestTableWithoutAnswers(t *testing.T) {
	var b strings.Builder
	if err := (ReplayReport{Requests: 5}).WriteTable(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "0 completed") || strings.Contains(b.String(), "p50") {
		t.Error(b.String())
	}
}
