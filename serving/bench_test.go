package serving_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

// BenchmarkCompletion is one request through the whole handler, before a
// replica that answers at once, at several lengths of the prompt:
//
//	go test -run '^$' -bench Completion ./serving
func BenchmarkCompletion(b *testing.B) {
	for _, words := range []int{10, 1_000, 40_000} {
		b.Run(fmt.Sprintf("words=%d", words), func(b *testing.B) {
			s, err := serving.New(serving.Options{
				Config: config.Default(), Router: oneReplica(b),
				Backends: []serving.Backend{{Transport: says(http.StatusOK, jsonType, fine)}},
			})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			body := `{"model":"auto","messages":[{"role":"user","content":"` + strings.Repeat("word ", words) + `"}]}`
			handler := s.Handler()
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				w := httptest.NewRecorder()
				handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, chat, strings.NewReader(body)))
				if w.Code != http.StatusOK {
					b.Fatal(w.Body)
				}
			}
		})
	}
}

// BenchmarkStream is a streamed answer of 200 events, each a piece of its own, through the
// whole handler:
//
//	go test -run '^$' -bench Stream ./serving
func BenchmarkStream(b *testing.B) {
	events := slices.Repeat([][]byte{[]byte(token)}, 200)
	events = append(events, []byte(done))
	s, err := serving.New(serving.Options{
		Config: config.Default(), Router: oneReplica(b),
		Backends: []serving.Backend{{Transport: transport(func(*http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, &inPieces{events}), nil
		})}},
	})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	handler := s.Handler()
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, chat, strings.NewReader(askStream)))
		if w.Code != http.StatusOK || !strings.HasSuffix(w.Body.String(), done) {
			b.Fatal(w.Body)
		}
	}
}

// inPieces is a body that comes in these pieces.
type inPieces struct{ left [][]byte }

func (p *inPieces) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	p.left = p.left[1:]
	return n, nil
}

func (p *inPieces) Close() error { return nil }

// oneReplica routes everything to the one replica that there is.
func oneReplica(b testing.TB) *router.Core {
	b.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 1, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "small@a"}})
	if err != nil {
		b.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
	if err != nil {
		b.Fatal(err)
	}
	if err := core.SetPolicy(chooses(small)); err != nil {
		b.Fatal(err)
	}
	return core
}
