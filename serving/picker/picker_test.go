package picker_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"gearshift/serving/work"
)

// TestARequestIsPickedAndAnswered sends one request through gateway, router and engine.
func TestARequestIsPickedAndAnswered(t *testing.T) {
	g := newRig(t, nil)
	w := send(g.gateway(), "POST", chat, ask, "Authorization", "Bearer client")
	if w.Code != http.StatusOK || w.Body.String() != fine {
		t.Fatalf("got %d %s, want 200 and the engine's answer", w.Code, w.Body)
	}
	h := w.Result().Header
	for name, want := range map[string]string{
		"X-Engine": "large@a", "X-Gearshift-Variant": "large", "X-Gearshift-Policy": "largest",
		"X-Got": strings.Replace(ask, "auto", "served-large", 1), "X-Got-Authorization": "",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	r := <-g.ended
	if r.Outcome != work.Completed || r.Tokens != 4 || r.Reported {
		t.Errorf("the work ended as %+v, want 4 tokens that the router has seen", r)
	}
	g.idle(t)
}

// TestBodiesInPieces sends bodies of several sizes, in pieces of several sizes.
func TestBodiesInPieces(t *testing.T) {
	g := newRig(t, nil)
	g.answer = func(w http.ResponseWriter, r *http.Request) {
		n, _ := io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("X-Got-Size", fmt.Sprint(n))
		_, _ = io.WriteString(w, fine)
	}
	for _, size := range []int{1, 61_000, 62_000, 200_000, 8<<20 - 100} {
		for _, piece := range []int{7_919, 65_536, 1 << 20} {
			for _, twice := range []bool{false, true} {
				text := strings.Replace(ask, "hi", strings.Repeat("a", size), 1)
				way := g.gateway()
				way.Piece, way.Twice = piece, twice
				w := send(way, "POST", chat, text)
				want := fmt.Sprint(len(text) + len("served-large") - len("auto"))
				if got := w.Result().Header.Get("X-Got-Size"); w.Code != 200 || got != want {
					t.Fatalf("%d bytes in pieces of %d: status %d, the engine got %s bytes, want %s: %.200s", size, piece, w.Code, got, want, w.Body)
				}
				<-g.ended
			}
		}
	}
	g.idle(t)
}
