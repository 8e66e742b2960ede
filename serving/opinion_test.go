package serving_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// refusesWord answers requests that contain the word with the status, and all others well.
func refusesWord(word string, status int) transport {
	return func(r *http.Request) (*http.Response, error) {
		if text, _ := io.ReadAll(r.Body); strings.Contains(string(text), word) {
			return says(status, jsonType, theirError)(r)
		}
		return good(r)
	}
}

// A replica that alone answers with errors what others of its variant answer is out, and named. Its
// clients get the others' answers from the third error on: an empty replica would attract them.
func TestAReplicaThatAloneRefusesIsOut(t *testing.T) {
	for _, status := range []int{400, 422, 500, 501} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, says(status, jsonType, theirError), good, good), func(o *serving.Options) {
				o.Config.Retries.BudgetPercent, o.Config.Retries.BudgetMin = 100, 100
			})
			failed := 0
			for range 40 {
				if g.do("POST", chat, ask).Code != http.StatusOK {
					failed++
				}
			}
			if failed > 2 || !strings.HasPrefix(g.states(), "ejected/error_alone up") {
				t.Errorf("%d: %d of 40 failed; the replicas are %s", status, failed, g.states())
			}
			time.Sleep(6 * time.Second) // on trial it refuses again, and no client sees that
			asked = nil
			for range 10 {
				if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
					t.Errorf("%d: a trial's client got %d", status, w.Code)
				}
			}
			if !slices.Contains(asked, "small@a") || !strings.HasPrefix(g.states(), "ejected/error_alone up") {
				t.Errorf("%d: asked %v; the replicas are %s", status, asked, g.states())
			}
		})
	}
}

// An error that all give to a request is the request's: no client can have replicas ejected by what
// it asks, in whatever way they fail, alone or between others' requests.
func TestErrorsThatAllGiveEjectNone(t *testing.T) {
	for _, status := range []int{400, 403, 500, 502, 503, 504, 520} {
		for _, between := range []int{0, 1, 3} {
			t.Run(fmt.Sprint(status, " with ", between, " good ones between"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asked []string
					bad := refusesWord("poison", status)
					g := newRig(t, nil, fleetOf(&asked, bad, bad, bad))
					for range 60 {
						if w := g.do("POST", chat, strings.Replace(ask, "hi", "poison", 1)); w.Code < 400 {
							t.Fatalf("status %d", w.Code)
						}
						for range between {
							if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
								t.Fatalf("a good request got %d", w.Code)
							}
						}
						time.Sleep(100 * time.Millisecond)
					}
					if states := g.states(); states != "up up up" {
						t.Errorf("the replicas are %s", states)
					}
				})
			})
		}
	}
}
