package picker_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	modepb "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"

	"gearshift/router/health"
	"gearshift/serving"
	"gearshift/serving/work"
)

// TestAnswersThatAreNotSeen: if the gateway sends no answers through the router, a place is kept for the expected time
// of an answer, and the stream does not wait for it.
func TestAnswersThatAreNotSeen(t *testing.T) {
	for name, silent := range map[string]bool{"said": false, "not said": true} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, nil)
			way := g.gateway()
			way.Blind, way.Silent = true, silent
			w := send(way, "POST", chat, ask)
			if w.Code != 200 || w.Body.String() != fine {
				t.Fatalf("got %d %s", w.Code, w.Body)
			}
			r := <-g.ended
			if r.Outcome != work.Completed || !r.Reported || r.Tokens != 8 {
				t.Errorf("the work ended as %+v, want the mean answer of 8 tokens, marked as reported", r)
			}
			if want := 8 * 40e6; float64(r.Latency) < want {
				t.Errorf("its place was kept for %v, want the 320 ms that its answer may take", r.Latency)
			}
			g.idle(t)
		})
	}
}

// TestAnswersWithoutTokensThatAreNotSeen keeps the place for the time of one token.
func TestAnswersWithoutTokensThatAreNotSeen(t *testing.T) {
	g := newRig(t, nil)
	way := g.gateway()
	way.Blind = true
	if w := send(way, "POST", "/v1/embeddings", `{"model":"large","input":"hi"}`); w.Code != 200 {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if r := <-g.ended; r.Outcome != work.Completed || r.Latency < 40*time.Millisecond || r.Latency > 300*time.Millisecond {
		t.Errorf("the work ended as %+v, want completed after 40 ms", r)
	}
	g.idle(t)
}

// await waits for one of the states of large@a.
func (g *rig) await(t *testing.T, states ...health.State) {
	t.Helper()
	for late := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
		state := g.Engines().Statuses(0)[largeA].State
		if slices.ContainsFunc(states, func(s health.State) bool { return s.String() == state }) {
			return
		}
		if time.Now().After(late) {
			t.Fatalf("large@a is %s, want one of %v", state, states)
		}
	}
}

// TestTrialsEndWithoutAnswersToSee gives a replica that comes back its share again after two estimated answers.
func TestTrialsEndWithoutAnswersToSee(t *testing.T) {
	g := newRig(t, func(o *serving.Options) { o.Config.Cooldown, o.OutputTokens = time.Millisecond, 1 })
	g.core.Ledger().SetUp(largeB, false)
	g.Engines().Controller().Failed(largeA, health.Connect, time.Hour)
	g.await(t, health.HalfOpen)
	way := g.gateway()
	way.Blind = true
	for range 2 {
		if w := send(way, "POST", chat, strings.Replace(ask, "auto", "large", 1)); w.Code != 200 {
			t.Fatalf("got %d %s", w.Code, w.Body)
		}
		<-g.ended
	}
	g.await(t, health.SlowStart, health.Up)
	g.idle(t)
}

// TestAnswersThatAreNotSeenAreNoSilence does not eject a replica whose answers pass elsewhere, while another shows progress.
func TestAnswersThatAreNotSeenAreNoSilence(t *testing.T) {
	g := newRig(t, func(o *serving.Options) { o.Config.Health.SilentAfter = 40 * time.Millisecond })
	way := g.gateway()
	way.Blind = true
	if w := send(way, "POST", chat, ask); w.Code != 200 || w.Result().Header.Get("X-Engine") != "large@a" {
		t.Fatalf("got %d %v", w.Code, w.Result().Header)
	}
	for ended := false; !ended; {
		w := send(g.gateway(), "POST", chat, ask)
		if at := w.Result().Header.Get("X-Engine"); w.Code != 200 || at != "large@b" && g.core.Ledger().InFlightOn(largeA) > 0 {
			t.Fatalf("got %d from %s", w.Code, at)
		}
		if state := g.Engines().Statuses(0)[largeA].State; state != health.Up.String() {
			t.Fatalf("large@a is %s, want up", state)
		}
		r := <-g.ended
		ended = r.Reported
	}
	<-g.ended
	g.idle(t)
}

// TestAGatewayThatLeaves ends the work as cancelled, if the gateway shows answers and ends the stream without one: its client
// has left, or it has answered itself.
func TestAGatewayThatLeaves(t *testing.T) {
	g := newRig(t, nil)
	way := g.gateway()
	way.Local = true
	g.engines[largeA].Close()
	g.engines[largeB].Close()
	if w := send(way, "POST", chat, ask); w.Code != 503 || !strings.HasPrefix(w.Body.String(), "upstream connect error") {
		t.Fatalf("got %d %s, want the gateway's own answer", w.Code, w.Body)
	}
	if r := <-g.ended; r.Outcome != work.Cancelled || r.Reported {
		t.Errorf("the work ended as %+v, want cancelled", r)
	}
	g.idle(t)
}

// TestAGatewayThatLeavesWithinAnAnswer does not blame the replica.
func TestAGatewayThatLeavesWithinAnAnswer(t *testing.T) {
	g := newRig(t, nil)
	first := asks(false)
	first.ProtocolConfig = &pb.ProtocolConfiguration{RequestBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED}
	stream := strings.Replace(ask, `"model"`, `"stream":true,"model"`, 1)
	for range 8 {
		_, _ = play(t, g, first, body(stream, true), answers(false, ":status", "200", "content-type", "text/event-stream"), said("data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"a\"}}]}\n\n", false))
		if r := <-g.ended; r.Outcome != work.Cancelled {
			t.Fatalf("the work ended as %+v, want cancelled", r)
		}
	}
	g.await(t, health.Up)
	g.idle(t)
}

// TestFallbacksGetTheirOwnCredentials lists no replica that the router authorizes otherwise.
func TestFallbacksGetTheirOwnCredentials(t *testing.T) {
	for other, want := range map[string]int{"Bearer a": 2, "Bearer b": 1} {
		g := newRig(t, func(o *serving.Options) {
			for i, bearer := range map[int]string{largeA: "Bearer a", largeB: other} {
				e := o.Backends[i].Transport.(engine)
				e.bearer = bearer
				o.Backends[i].Transport = e
			}
		})
		way := g.gateway()
		p, err := way.Ask(t.Context(), newRequest("POST", chat, ask))
		if err != nil || len(p.Endpoints) != want || p.Header.Get("Authorization") != "Bearer a" {
			t.Errorf("with %s at large@b the pick is %+v, %v; want %d endpoints", other, p, err, want)
		}
		<-g.ended
	}
}

// TestPassedPaths sends requests to listed paths to a replica, with its credentials and without the client's, and no others.
func TestPassedPaths(t *testing.T) {
	g := newRig(t, nil)
	for _, c := range [][2]string{{"GET", ""}, {"POST", `{"any": "thing"}`}} {
		w := send(g.gateway(), c[0], "/custom?x=1", c[1], "Authorization", "Bearer client")
		if h := w.Result().Header; w.Code != 200 || h.Get("X-Engine") == "" || h.Get("X-Got") != c[1] || h.Get("X-Got-Authorization") != "" {
			t.Errorf("%s of a listed path is answered by %q with %d %v, want a replica's answer", c[0], h.Get("X-Engine"), w.Code, h)
		}
	}
	if w := send(g.gateway(), "GET", "/other", ""); w.Code != 404 || w.Result().Header.Get("X-Engine") != "" {
		t.Errorf("another path is answered by %d %s, want 404", w.Code, w.Body)
	}
	way := g.gateway()
	way.Subset = []string{}
	if w := send(way, "GET", "/custom", ""); w.Code != 503 {
		t.Errorf("a listed path without an endpoint is answered by %d, want 503", w.Code)
	}
	g.idle(t)
}

// TestAnAnswerBeforeTheRequestsEnd passes it on.
func TestAnAnswerBeforeTheRequestsEnd(t *testing.T) {
	g := newRig(t, nil)
	first := &pb.ProcessingRequest{Request: &pb.ProcessingRequest_RequestHeaders{RequestHeaders: header(false, ":method", "POST", ":path", "/custom", ":authority", "models")}}
	stream, err := g.client.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("a", 62_000)
	for _, m := range []*pb.ProcessingRequest{first, body(long, false), answers(false, ":status", "413"), body(long, false), said("too long", true)} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	var heard []string
	for range 4 {
		m, err := stream.Recv()
		if err != nil {
			t.Fatalf("%v after %v", err, heard)
		}
		heard = append(heard, reply(m))
	}
	if want := "[pick body 62000 answer said 8 end]"; fmt.Sprint(heard) != want {
		t.Errorf("replies %v, want %s", heard, want)
	}
	g.idle(t)
}

// TestASlowRequestIsRefused once its body has taken body_timeout.
func TestASlowRequestIsRefused(t *testing.T) {
	g := newRig(t, func(o *serving.Options) { o.Config.BodyTimeout = 20 * time.Millisecond })
	stream, err := g.client.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(asks(false)); err != nil {
		t.Fatal(err)
	}
	m, err := stream.Recv()
	if err != nil || reply(m) != fmt.Sprint("immediate ", http.StatusRequestTimeout) {
		t.Errorf("got %v, %v; want 408", m, err)
	}
}

// TestHeadersOfAnswersThatAreNotSeen reads the status where a gateway shows headers alone.
func TestHeadersOfAnswersThatAreNotSeen(t *testing.T) {
	for code, want := range map[string]work.Outcome{"200": work.Completed, "500": work.Failed} {
		g := newRig(t, nil)
		first := asks(false)
		first.ProtocolConfig = &pb.ProtocolConfiguration{RequestBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: modepb.ProcessingMode_NONE}
		heard, err := play(t, g, first, body(ask, true), answers(false, ":status", code, "content-type", "application/json"))
		if r := <-g.ended; err != nil || r.Outcome != want || r.Reported != (want == work.Completed) {
			t.Errorf("an answer with status %s: replies %v, %v; the work ended as %+v", code, heard, err, r)
		}
		g.idle(t)
	}
}

// TestAStreamThatStaysOpenWithoutAnswers is no timeout of the replica: an answer that is not seen may take any time.
func TestAStreamThatStaysOpenWithoutAnswers(t *testing.T) {
	g := newRig(t, func(o *serving.Options) { o.Config.Timeouts.Header = 20 * time.Millisecond })
	stream, err := g.client.Process(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	first := asks(false)
	first.ProtocolConfig = &pb.ProtocolConfiguration{RequestBodyMode: modepb.ProcessingMode_FULL_DUPLEX_STREAMED, ResponseBodyMode: modepb.ProcessingMode_NONE}
	for _, m := range []*pb.ProcessingRequest{first, body(ask, true)} {
		if err := stream.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	if r := <-g.ended; r.Outcome != work.Completed || !r.Reported {
		t.Errorf("the work ended as %+v, want completed as reported", r)
	}
	g.idle(t)
}
