//go:build unix

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"gearshift/serving/control/failover"
)

// samplesOf reads metrics, by name with labels.
func samplesOf(r io.Reader) map[string]float64 {
	text, _ := io.ReadAll(r)
	samples := map[string]float64{}
	for line := range strings.Lines(string(text)) {
		if i := strings.LastIndexByte(line, ' '); i > 0 && line[0] != '#' {
			samples[line[:i]], _ = strconv.ParseFloat(strings.TrimSpace(line[i+1:]), 64)
		}
	}
	return samples
}

// situation is the router's of applications.
func (c *chaos) situation() (*failover.Situation, error) {
	r, err := http.NewRequest(http.MethodGet, "http://"+c.admin+"/admin/failover", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+testToken)
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET /admin/failover: %s", response.Status)
	}
	var s failover.Situation
	return &s, json.NewDecoder(response.Body).Decode(&s)
}

// watch looks at what must always hold, a few times each second.
func (c *chaos) watch(ctx context.Context) {
	var term uint64
	for ctx.Err() == nil {
		if s, err := c.situation(); err == nil {
			if s.Term < term {
				c.fault("the term ran back from %d to %d", term, s.Term)
			}
			term = s.Term
			if !slices.ContainsFunc(s.Hosts, func(x failover.HostStatus) bool { return x.State != "lost" }) {
				c.mu.Lock()
				c.blind = append(c.blind, time.Now())
				c.mu.Unlock()
			}
			for _, x := range s.Hosts {
				for name, share := range x.Used {
					if share > 1+1e-9 {
						c.fault("%.3f of the %s of %s are taken by plan", share, name, x.Name)
					}
				}
			}
		}
		for _, f := range c.fronts {
			if held, bound, ok := f.memory(f.addr); ok && held > bound {
				c.fault("models on %s hold %.0f bytes of %.0f", f.host, held, bound)
			}
		}
		pause(ctx, 250*time.Millisecond)
	}
}

// blindBetween reports whether the router took every host for lost at some moment of a time, as on
// a machine that is so busy that no agent gets to report: then there is nothing to send requests to.
func (c *chaos) blindBetween(from, to time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.blind, func(at time.Time) bool { return at.After(from) && at.Before(to) })
}

// alarms says how many hosts were taken for lost that were not, and how soon others were.
func (c *chaos) alarms() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "false alarms without losses: %s\n", alarmRate(falseAlarms(c.notices, c.losses, c.begun, c.troubled), c.troubled.Sub(c.begun)))
	fmt.Fprintf(&b, "false alarms with losses: %s\n", alarmRate(falseAlarms(c.notices, c.losses, c.troubled, c.ended), c.ended.Sub(c.troubled)))
	seen := slices.DeleteFunc(slices.Clone(c.losses), func(o hostLoss) bool { // those that a router was there to see
		return slices.ContainsFunc(c.crashes, func(x crash) bool { return x.to.After(o.at) && x.from.Before(o.at.Add(time.Second)) })
	})
	for _, kind := range lossKinds[:2] {
		took, missed := detections(c.notices, seen, kind)
		fmt.Fprintf(&b, "%s: %d detected after %.1f ms in the mean, %.1f in the median, %.1f at most; %d were over before\n", kind,
			len(took), meanOf(took), quantile(took, 0.5), quantile(took, 1), missed)
	}
	return b.String()
}

// check holds what has to be so at the end, and prints a table.
func (c *chaos) check() {
	t := c.t
	var table strings.Builder
	fmt.Fprintf(&table, "\n%v, troubles %v\n", c.length, c.troubles)
	for _, row := range c.tally.rows() {
		fmt.Fprintln(&table, row)
	}
	table.WriteString(c.alarms())
	if s, err := c.situation(); err == nil {
		fmt.Fprintf(&table, "failover since the last crash: term %d, %+v\n", s.Term, s.Counts)
	}
	verdict := func(ok bool, format string, args ...any) {
		mark := "ok"
		if !ok {
			mark = "VIOLATED"
			t.Errorf(format, args...)
		}
		fmt.Fprintf(&table, "%-9s "+format+"\n", append([]any{mark}, args...)...)
	}
	router := &soak{t: t, url: "http://" + c.url}
	for end := time.Now().Add(30 * time.Second); router.inFlight() > 0 && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
	}
	verdict(router.inFlight() == 0, "in flight at the end: %v", router.inFlight())
	orders := 0
	for _, f := range c.fronts {
		running := (&engineProcess{url: "http://" + f.at}).settles(t)
		verdict(running == 0, "running at the end on %s: %d", f.host, running)
		f.kill() // which reads its log
		orders += f.orders
	}
	y := c.tally
	verdict(y.of(soakOdd) == 0, "requests that ended in no way of those that there are: %d", y.of(soakOdd))
	verdict(y.of(soakServed) > 0, "requests served: %d, refused %d, broken %d", y.of(soakServed), y.of(soakRefused), y.of(chaosBroken))
	fmt.Fprintf(&table, "%-9s requests that were given up since every host was taken for lost: %d\n", "–", y.of(chaosBlind))
	verdict(y.of(soakFailed) == 0, "requests lost that had not begun to be answered, while the router lived: %d", y.of(soakFailed))
	c.mu.Lock()
	defer c.mu.Unlock()
	verdict(len(c.faults) == 0, "loads, memory, terms and epochs at fault: %d, in %d orders", len(c.faults), orders)
	for i, text := range c.faults {
		if i < 20 {
			fmt.Fprintln(&table, text)
		}
	}
	if t.Failed() {
		fmt.Fprintf(&table, "the router's log ends:\n%s", lastLines(c.router.log.String(), 6000))
	}
	fmt.Println(table.String())
}
