package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/serving/control/failover"
)

// hostLoss is a time in which a host was lost, which a test did.
type hostLoss struct {
	host, kind string
	at, back   time.Time // back is zero while it lasts
}

// covers reports whether a router that loses the host at the time is right. A host that is back is
// given a moment to report.
func (o *hostLoss) covers(host string, at time.Time) bool {
	const moment = 50 * time.Millisecond
	return o.host == host && !at.Before(o.at) && (o.back.IsZero() || at.Before(o.back.Add(moment)))
}

// follow hands on what the router tells of failovers, from its start until it ends.
func follow(t *testing.T, router string, to func(failover.Notice)) {
	t.Helper()
	response, err := http.Get(router + "/v1/gearshift/events?after=0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = response.Body.Close() })
	go func() {
		lines := bufio.NewScanner(response.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			var n failover.Notice
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok && json.Unmarshal([]byte(text), &n) == nil {
				to(n)
			}
		}
	}()
}

// falseAlarms counts the losses that the router saw in a time of hosts that nothing had befallen.
func falseAlarms(notices []failover.Notice, outages []hostLoss, from, to time.Time) (n int) {
	for _, x := range notices {
		if x.Kind == "lost" && x.Time.After(from) && x.Time.Before(to) &&
			!slices.ContainsFunc(outages, func(o hostLoss) bool { return o.covers(x.Host, x.Time) }) {
			n++
		}
	}
	return n
}

// alarmRate says how many false alarms there were in a time, and how many that is in an hour.
func alarmRate(n int, d time.Duration) string {
	return fmt.Sprintf("%d in %v, %.1f per hour", n, d.Round(time.Second), float64(n)/max(d.Hours(), 1e-9))
}

// detections holds how long after outages of a kind the router lost their hosts, in ms, and how many it
// did not lose at all.
func detections(notices []failover.Notice, outages []hostLoss, kind string) (took []float64, missed int) {
	for _, o := range outages {
		if o.kind != kind {
			continue
		}
		i := slices.IndexFunc(notices, func(x failover.Notice) bool { return x.Kind == "lost" && o.covers(x.Host, x.Time) })
		if i < 0 {
			missed++
			continue
		}
		took = append(took, ms(notices[i].Time.Sub(o.at)))
	}
	return took, missed
}

// keepBusy keeps processors busy with as many other processes as GEARSHIFT_BUSY says, until the test
// ends.
func keepBusy(t *testing.T) {
	text := os.Getenv("GEARSHIFT_BUSY")
	if text == "" {
		return
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		t.Fatalf("GEARSHIFT_BUSY=%s: want a number of processes", text)
	}
	for range n {
		// It ends by itself if the test is killed.
		c := exec.Command("sh", "-c", "while kill -0 "+strconv.Itoa(os.Getpid())+"; do i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; done")
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
}

func TestFalseAlarmsAreCounted(t *testing.T) {
	begin := time.Unix(0, 0)
	at := func(s float64) time.Time { return begin.Add(time.Duration(s * float64(time.Second))) }
	outages := []hostLoss{{"h1", "stop", at(10), at(12)}, {"h2", "stop", at(11), at(13)}, {"h2", "stop", at(20), time.Time{}}}
	lost := func(host string, s float64) failover.Notice {
		return failover.Notice{Kind: "lost", Host: host, Time: at(s)}
	}
	notices := []failover.Notice{lost("h1", 5), lost("h1", 10.1), lost("h2", 10.5), lost("h1", 12.04), lost("h1", 12.5), lost("h2", 30)}
	if n := falseAlarms(notices, outages, at(0), at(100)); n != 3 {
		t.Errorf("%d false alarms, want those at 5, 10.5 and 12.5 s", n)
	}
	if n := falseAlarms(notices, outages, at(11), at(100)); n != 1 {
		t.Errorf("%d false alarms after 11 s, want one", n)
	}
	if took, missed := detections(notices, outages, "stop"); len(took) != 2 || missed != 1 || took[1] != 10000 {
		t.Errorf("detected after %v ms, %d not; want 100 and 10,000, and one not", took, missed)
	}
	if text := alarmRate(3, 30*time.Minute); text != "3 in 30m0s, 6.0 per hour" {
		t.Error(text)
	}
}
