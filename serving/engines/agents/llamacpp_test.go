package agents

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/control"
)

// The server answers an order before it is done: Do returns once the model is there, or says why it is not.
func TestLlamaLoadsAndUnloads(t *testing.T) {
	for name, c := range map[string]struct {
		verb    control.Verb
		after   []string // statuses, one for each question
		want    string   // the error
		asked   int
		ordered string
	}{
		"a load":           {control.Load, []string{"unloaded", "loading", "loaded"}, "", 3, `POST /models/load {"model":"large"}`},
		"an unload":        {control.Unload, []string{"loaded", "unloaded"}, "", 2, `POST /models/unload {"model":"large"}`},
		"a load that ends": {control.Load, []string{"loading", `unloaded","failed":true,"x":"`}, "the load has failed, with exit code 0", 2, `POST /models/load {"model":"large"}`},
		"another's":        {control.Load, []string{""}, `the engine has no model "large"`, 1, `POST /models/load {"model":"large"}`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				e := &engine{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if r.Method == http.MethodPost {
						fmt.Fprint(w, `{"success":true}`)
						return
					}
					id := "large"
					if c.after[asked] == "" {
						id = "other"
					}
					fmt.Fprintf(w, `{"data":[{"id":%q,"status":{"value":"%s"}}]}`, id, c.after[asked])
					asked++
				})}
				began := time.Now()
				err := llamacpp{}.Do(t.Context(), e, "large", Order{Verb: c.verb})
				if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
					t.Errorf("%v, want %q", err, c.want)
				}
				if asked != c.asked || time.Since(began) != time.Duration(c.asked-1)*llamaEvery || !slices.Contains(e.all(), c.ordered) {
					t.Errorf("asked %d times in %v: %q", asked, time.Since(began), e.all())
				}
			})
		})
	}
}
