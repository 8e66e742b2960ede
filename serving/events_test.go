package serving_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"gearshift/serving"
)

// gathering passes streams on with the content of so many events in one, as engines do that
// guess tokens ahead or lag behind their own output: its words, or no spaces between them,
// as in many a script.
func gathering(to http.RoundTripper, n int, between string) transport {
	return func(r *http.Request) (*http.Response, error) {
		response, err := to.RoundTrip(r)
		if err != nil || response.Header.Get("Content-Type") != "text/event-stream" {
			return response, err
		}
		from := response.Body
		body, w := io.Pipe()
		response.Body = body
		go func() {
			defer from.Close()
			w.CloseWithError(gather(w, from, n, between))
		}()
		return response, nil
	}
}

func gather(to io.Writer, from io.Reader, n int, between string) error {
	var words []string
	for lines := bufio.NewScanner(from); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var event struct {
			Choices []struct{ Delta struct{ Content string } }
		}
		_ = json.Unmarshal([]byte(data), &event) // the last is none
		if len(event.Choices) == 1 && event.Choices[0].Delta.Content != "" {
			if words = append(words, strings.TrimSpace(event.Choices[0].Delta.Content)); len(words) < n {
				continue
			}
			data = fmt.Sprintf(`{"choices":[{"delta":{"content":%q}}]}`, strings.Join(words, between))
			words = nil
		}
		if _, err := fmt.Fprintf(to, "data: %s\n\n", data); err != nil {
			return err
		}
	}
	return io.EOF
}

// What an event holds counts as the tokens that it is, so that an engine that puts several
// into one does not seem slow, nor its answers late: by their words, or as answers tell
// that state their usage.
func TestEventsOfSeveralTokens(t *testing.T) {
	for _, c := range []struct {
		name, between string
		stated        int // requests that ask for the usage, before those that do not
	}{
		{"words", " ", 0},
		{"no words", "", 60},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				engines := simulatedEngines(t, 100, declared())
				d := newDrifting(t, func(o *serving.Options) {
					for i := range o.Backends {
						o.Backends[i].Transport = gathering(engines.Replica(i), 5, c.between)
					}
				})
				stream := `{"model":"small","stream":true,%s"messages":[{"role":"user","content":"why"}]}`
				for range c.stated {
					d.do("POST", chat, fmt.Sprintf(stream, `"stream_options":{"include_usage":true},`))
				}
				late := func() float64 {
					return d.figure(t, `gearshift_deadlines_total{result="missed",task="chat",variant="small"}`)
				}
				before := late()
				for range 40 {
					if w := d.do("POST", chat, fmt.Sprintf(stream, "")); w.Code != http.StatusOK {
						t.Fatalf("status %d: %s", w.Code, w.Body)
					}
				}
				if missed := late() - before; missed != 0 {
					t.Errorf("%v of 40 answers are late that take a quarter of their time", missed)
				}
				if r := d.Status().Replicas[smallOnA]; r.Slowdown != nil {
					t.Errorf("reckoned to be slow by %v", *r.Slowdown)
				}
			})
		})
	}
}
