package serving_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/admin/overview"
	"gearshift/serving/config"
)

// logged is a server with an access log, at a time that stands still.
func logged(t *testing.T, rt http.RoundTripper, access string, sample float64) *rig {
	t.Helper()
	return newRig(t, rt, func(o *serving.Options) {
		o.Config.Log.Access, o.Config.Log.Sample = access, sample
		o.Clock = func() time.Duration { return time.Hour }
	})
}

// lines are those of the access log.
func (g *rig) lines() (lines []string) {
	for line := range strings.Lines(g.logs.String()) {
		if strings.Contains(line, " msg=request ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func TestAccessLines(t *testing.T) {
	g := logged(t, says(http.StatusOK, jsonType, fine), config.AccessAll, 1)
	g.do("POST", chat, ask, "x-request-id", "one", "x-gearshift-task", "copy", "x-gearshift-explain", "1", "x-gearshift-tenant", "acme")
	g.do("POST", chat, `{"model":"huge"}`, "x-request-id", "two")
	g.do("POST", chat, `{"model":"`+strings.Repeat("ü", 1000)+`"}`, "x-request-id", "three")
	g.do("GET", "/v1/models", "")
	lines := g.lines()
	if len(lines) != 3 {
		t.Fatalf("%d lines: %q", len(lines), lines)
	}
	for _, want := range []string{
		"level=INFO", "id=one", "tenant=acme", "operation=chat", "asked=auto", "outcome=completed", "status=200", "task=copy", "variant=small", "replica=small@a",
		"policy=wants@3", "attempts=1", "prompt_tokens=8", "overhead_us=0", "tokens=4", "deadline_ms=80", "met=true", "utility=1.5", `explain="{\"variant\":\"small\",`,
	} {
		if !strings.Contains(lines[0]+" ", want) {
			t.Errorf("no %s in %s", want, lines[0])
		}
	}
	if !strings.Contains(lines[1], "id=two operation=chat asked=huge outcome=refused status=404 code=model_not_found") {
		t.Errorf("of a refused request: %s", lines[1])
	}
	if len(lines[2]) > 400 || !strings.Contains(lines[2], "üü…") {
		t.Errorf("of a long name: %s", lines[2])
	}
}

// By default only what went wrong gets a line, and an overload does not flood the log.
func TestAccessLinesOfErrors(t *testing.T) {
	if config.Default().Log.Access != config.AccessErrors {
		t.Fatal("another default")
	}
	status := http.StatusOK
	g := logged(t, transport(func(*http.Request) (*http.Response, error) {
		return reply(status, jsonType, io.NopCloser(strings.NewReader(fine))), nil
	}), config.AccessErrors, 1)
	g.do("POST", chat, ask)
	if lines := g.lines(); len(lines) != 0 {
		t.Fatalf("of a completed request: %q", lines)
	}
	status = http.StatusInternalServerError
	g.do("POST", chat, ask)
	if lines := g.lines(); len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "outcome=failed status=500") {
		t.Fatalf("of a failed one: %q", lines)
	}
	for range 300 {
		g.do("POST", chat, "{")
	}
	if n := len(g.lines()); n != 100 {
		t.Errorf("%d lines in one moment, want 100", n)
	}
	g.do("POST", chat, "{", "x-gearshift-explain", "1") // explains nothing
	if n := len(g.lines()); n != 100 {
		t.Errorf("%d lines: one that only asked to be explained is past the limit", n)
	}
	g.do("POST", chat, ask, "x-gearshift-explain", "1")
	if lines := g.lines(); !strings.Contains(lines[len(lines)-1], "explain=") || !strings.HasSuffix(lines[len(lines)-1], "lines_omitted=202") {
		t.Errorf("the last line: %s", lines[len(lines)-1])
	}
}

// An engine that fails all of its requests, and is not ejected, has no line for each.
func TestLinesOfFailedAttemptsAreBounded(t *testing.T) {
	h := &hand{}
	g := newRig(t, says(500, jsonType, theirError), func(o *serving.Options) { o.Clock, o.Config.Retries.Max = h.clock, 0 })
	for range 300 {
		g.do("POST", chat, ask)
	}
	if n := strings.Count(g.logs.String(), "replica failed"); n != 100 {
		t.Errorf("%d lines in one moment, want 100", n)
	}
	h.add(time.Second)
	g.do("POST", chat, ask)
	for line := range strings.Lines(g.logs.String()) {
		if strings.Contains(line, "replica failed") && strings.Contains(line, "lines_omitted=200") {
			return
		}
	}
	t.Error("no line says how many were left out")
}

// An answer that came whole did not break off: its status alone is what is wrong.
func TestALineOfAFailedAttemptHasNoEndOfFile(t *testing.T) {
	g := newRig(t, says(500, jsonType, theirError))
	g.do("POST", chat, ask)
	if text := g.logs.String(); !strings.Contains(text, "reason=status attempt=1 status=500\n") {
		t.Errorf("the log says %s", text)
	}
}

// The status is what went out, so 499 only where nothing had when the client left.
func TestAccessLinesOfClientsThatLeave(t *testing.T) {
	for want, at := range map[string]string{"outcome=cancelled status=499": "", "outcome=cancelled status=200": token} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, scripted(0, eventType, step{time.Second, token}, step{time.Hour, done}))
			ctx, leave := context.WithCancel(t.Context())
			client := &departing{ResponseRecorder: httptest.NewRecorder(), leave: leave, at: at}
			if at == "" {
				time.AfterFunc(time.Second/2, leave)
			}
			func() {
				defer func() { _ = recover() }() // the connection breaks
				g.Handler().ServeHTTP(client, httptest.NewRequestWithContext(ctx, "POST", chat, strings.NewReader(askStream)))
			}()
			if lines := g.lines(); len(lines) != 1 || !strings.Contains(lines[0], want) {
				t.Errorf("lines %q, want %s", lines, want)
			}
		})
	}
}

func TestAccessLinesCanBeSampledOrOff(t *testing.T) {
	g := logged(t, says(http.StatusOK, jsonType, fine), config.AccessAll, 0.3)
	for range 100 {
		g.do("POST", chat, ask)
	}
	if n := len(g.lines()); n != 30 {
		t.Errorf("%d lines of 100, want 30", n)
	}
	g = logged(t, says(http.StatusOK, jsonType, fine), config.AccessOff, 1)
	g.do("POST", chat, "{", "x-gearshift-explain", "1")
	if lines := g.lines(); len(lines) != 0 {
		t.Errorf("lines %q", lines)
	}
}

// Which requests get a line may change while the server runs.
func TestReloadOfTheAccessLog(t *testing.T) {
	w := &ward{}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withReloader(w))
	for _, c := range []struct {
		access string
		sample float64
		lines  int // of a hundred that are fine and one that is not
	}{
		{config.AccessErrors, 1, 1}, {config.AccessAll, 1, 101}, {config.AccessAll, 0.3, 31}, {config.AccessOff, 1, 0}, {config.AccessErrors, 1, 1},
	} {
		w.change.Config.Log.Access, w.change.Config.Log.Sample = c.access, c.sample
		if out, err := g.Reload("test"); err != nil || len(out.NeedRestart) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		before := strings.Count(g.logs.String(), "msg=request")
		for range 100 {
			g.do("POST", chat, ask)
		}
		g.do("POST", chat, "{")
		if n := strings.Count(g.logs.String(), "msg=request") - before; n != c.lines {
			t.Errorf("%s, %v: %d lines, want %d", c.access, c.sample, n, c.lines)
		}
	}
}

// A lease of the route endpoint is one request: its line comes at its end.
func TestAccessLineOfALease(t *testing.T) {
	g := logged(t, nil, config.AccessAll, 1)
	w := g.do("POST", "/v1/gearshift/route", "{}", "x-request-id", "lease", "x-gearshift-explain", "1")
	if explanation(t, w).Variant != "small" || len(g.lines()) != 0 {
		t.Fatalf("%s, then %q", w.Header(), g.lines())
	}
	var out struct{ Lease string }
	if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil {
		t.Fatal(err)
	}
	g.do("POST", "/v1/gearshift/route/"+out.Lease+"/end", `{"output_tokens":3}`, "x-request-id", "other")
	if lines := g.lines(); len(lines) != 1 || !strings.Contains(lines[0], "id=lease operation=route outcome=completed status=200") || !strings.Contains(lines[0], "tokens=3") {
		t.Errorf("lines %q", lines)
	}
}

func TestJSONLogsHoldObjects(t *testing.T) {
	var text strings.Builder
	c := config.DefaultLog()
	c.Format, c.Access = config.LogJSON, config.AccessAll
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		o.Config.Log, o.Log = c, c.Logger(&text, c.Least())
	})
	g.do("POST", chat, ask, "x-gearshift-explain", "1")
	var line struct {
		Level, Msg string
		Utility    float64
		Explain    overview.Explanation
	}
	if err := json.Unmarshal([]byte(text.String()), &line); err != nil || line.Level != "INFO" || line.Utility != 0.5 || line.Explain.Policy != "wants@3" {
		t.Errorf("%v, %+v: %s", err, line, text.String())
	}
}

func TestLogConfigFaults(t *testing.T) {
	for want, change := range map[string]func(*config.Log){
		`log.format: unknown format "xml"; want text or json`: func(c *config.Log) { c.Format = "xml" },
		`log.level: unknown level "loud"; want debug`:         func(c *config.Log) { c.Level = "loud" },
		`log.access: "some" is none of all, errors and off`:   func(c *config.Log) { c.Access = "some" },
		"log.sample: 0 must be above 0":                       func(c *config.Log) { c.Sample = 0 },
		"log.sample: 1.5 must be above 0 and at most 1":       func(c *config.Log) { c.Sample = 1.5 },
		"<nil>": func(c *config.Log) {
			c.Format, c.Level, c.Access, c.Sample = config.LogJSON, "debug", config.AccessOff, 0.5
		},
	} {
		c := config.DefaultLog()
		change(&c)
		if err := c.Validate(); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
