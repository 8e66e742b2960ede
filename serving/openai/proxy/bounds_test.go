package proxy_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/serving/work"
)

// TestStatusesThatAreNone: they are the replica's failure, and another one answers.
func TestStatusesThatAreNone(t *testing.T) {
	for _, status := range []int{0, 101, 199, 600, 999} {
		f := newFixture(t, [2]says{{status, fine}, {200, fine}}, 1)
		recorder, outcome, _ := f.serve(0, func() {})
		if want := []string{"dispatched", "failed 0 broken", "retried broken true", "succeeded 1"}; recorder.Code != 200 || outcome != work.Completed || !slices.Equal(f.reports.events, want) {
			t.Errorf("%d: status %d, %v, reported %q", status, recorder.Code, outcome, f.reports.events)
		}
		f = newFixture(t, [2]says{{status, fine}, {status, fine}}, 1)
		if recorder, outcome, _ = f.serve(0, func() {}); recorder.Code != http.StatusBadGateway || outcome != work.Failed {
			t.Errorf("%d of both: status %d, %v", status, recorder.Code, outcome)
		}
	}
}

// later is a replica that says when to come back.
type later struct {
	says
	after string
}

func (l later) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := l.says.RoundTrip(r)
	if err == nil {
		response.Header.Set("Retry-After", l.after)
	}
	return response, err
}

// TestRetryAfter: a time that no client can wait for is a day, and what is no time is left out.
func TestRetryAfter(t *testing.T) {
	const form = http.TimeFormat
	soon, far, past := time.Now().UTC().Add(time.Hour).Format(form), time.Now().UTC().AddDate(100, 0, 0).Format(form), time.Unix(0, 0).UTC().Format(form)
	for after, want := range map[string]string{
		"30": "30", "0": "0", "86400": "86400", "1.5": "1.5", "99999999999": "86400", strings.Repeat("9", 400): "86400",
		"-1": "", "soon": "", "NaN": "", "-Inf": "", "0x10": "", "1e3": "", soon: soon, far: "", past: past,
	} {
		for _, status := range []int{429, 503} {
			f := newFixture(t, [2]says{{status, broken}, {status, broken}}, 0)
			for i := range f.Backends {
				f.Backends[i].Transport = later{says{status, broken}, after}
			}
			if recorder, _, _ := f.serve(0, func() {}); recorder.Code != status || recorder.Header().Get("Retry-After") != want {
				t.Errorf("%.40s: %d, %q; want %q", after, recorder.Code, recorder.Header().Get("Retry-After"), want)
			}
		}
	}
}
