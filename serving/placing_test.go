package serving_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving/engines"
)

// A reload has a replica that the file wants cold drain and go cold, though nothing drives its
// engine, and has it up again when the file wants that; no request is lost.
func TestReloadPlacesReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{}
		g := newRig(t, takes(time.Second), withToken, withReloader(w))
		synctest.Wait()
		answered := make(chan int, 1)
		go func() { answered <- g.do("POST", chat, ask).Code }()
		time.Sleep(time.Millisecond)
		w.change.Places = []engines.Placed{{Replica: smallOnA, State: fleet.Cold}}
		w.change.Applied = []string{"replicas.small@a"}
		answer := g.order("POST", "/admin/reload", "")
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), `"changed":["replicas.small@a"]`) {
			t.Errorf("status %d, %s", answer.Code, answer.Body)
		}
		g.stands(t, smallOnA, "draining draining to cold")
		if w := g.do("POST", chat, ask); w.Header().Get("X-Gearshift-Replica") != "small@b" {
			t.Errorf("while it drains %s answers", w.Header().Get("X-Gearshift-Replica"))
		}
		if code := <-answered; code != http.StatusOK {
			t.Errorf("the request in flight got %d", code)
		}
		time.Sleep(time.Second)
		g.stands(t, smallOnA, "cold")
		status := g.Status()
		if epoch := status.Replicas[smallOnA].Lifecycle.Epoch; epoch == 0 || status.Placement != epoch || status.Replicas[smallOnB].Lifecycle.Epoch != 0 {
			t.Errorf("epoch %d of placement %d", epoch, status.Placement)
		}
		if got := g.metric(t, "gearshift_placement_epoch"); got != fmt.Sprint(status.Placement) {
			t.Errorf("the metric says placement %s, the status %d", got, status.Placement)
		}
		w.change.Places[0].State = fleet.Up
		g.order("POST", "/admin/reload", "")
		time.Sleep(time.Second)
		g.stands(t, smallOnA, "up")
		g.order("POST", "/admin/reload", "") // which changes nothing
		g.stands(t, smallOnA, "up")
	})
}

// What cannot be placed is an error of the reload, and does not hold up what can.
func TestReloadThatCannotPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{}
		e := newLoader("http://a", "UNAVAILABLE")
		g := newRig(t, takes(time.Second), withToken, withReloader(w), drivenBy(t, e, "triton"))
		g.stands(t, smallOnA, "cold")
		g.ordered(t, "load", http.StatusAccepted, `"target":"up"`)
		synctest.Wait()
		w.change.Places = []engines.Placed{{Replica: smallOnA, State: fleet.Cold}, {Replica: smallOnB, State: fleet.Cold}}
		answer := g.order("POST", "/admin/reload", "")
		want := "replicas.small@a: cannot be cold: small@a is being loaded already; wait until that has ended"
		if text, _, _, _ := readError(t, answer.Body.Bytes()); answer.Code != http.StatusUnprocessableEntity || !strings.Contains(text, want) {
			t.Errorf("status %d, %s", answer.Code, answer.Body)
		}
		time.Sleep(time.Second)
		g.stands(t, smallOnB, "cold")
		time.Sleep(3 * time.Second)
		g.stands(t, smallOnA, "up")
		g.order("POST", "/admin/reload", "")
		time.Sleep(time.Second)
		g.stands(t, smallOnA, "cold")
		if e.is() != "UNAVAILABLE" {
			t.Errorf("the engine has the model %s", e.is())
		}
	})
}
