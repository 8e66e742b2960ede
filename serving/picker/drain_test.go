package picker_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

// A server that ends finishes the requests of gateways, which are on no connection of its own.
func TestEndFinishesRequestsOfGateways(t *testing.T) {
	g := newRig(t, func(o *serving.Options) {
		o.Config.Addr, o.Config.ReadyGrace = config.AdminOff, 0
	})
	release, asked := make(chan struct{}), make(chan struct{}, 8)
	g.answer = func(w http.ResponseWriter, r *http.Request) {
		asked <- struct{}{}
		<-release
		whole(w, r)
	}
	l, err := g.Listen(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		ended <- g.Serve(t.Context(), l)
		close(ended)
	}()
	way, answers := g.gateway(), make(chan string, 2)
	request := func() {
		w := send(way, http.MethodPost, chat, strings.Replace(ask, "auto", "small", 1))
		answers <- fmt.Sprint(w.Code, w.Body)
	}
	go request()
	go request()
	<-asked
	<-asked
	g.Drain()
	<-g.Closing()
	select {
	case err := <-ended:
		t.Errorf("the server ends (%v) while gateways' requests are in flight", err)
	case <-time.After(100 * time.Millisecond):
	}
	close(release)
	for range cap(answers) {
		if got := <-answers; !strings.HasPrefix(got, "200") {
			t.Errorf("a request is answered with %s", got)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
