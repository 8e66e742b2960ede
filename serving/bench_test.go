package serving_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
)

// BenchmarkCompletion is one request through the whole handler, before a
// replica that answers at once, at several lengths of the prompt:
//
//	go test -run '^$' -bench Completion ./serving
func BenchmarkCompletion(b *testing.B) {
	for _, words := range []int{10, 1_000, 40_000} {
		b.Run(fmt.Sprintf("words=%d", words), func(b *testing.B) {
			s, err := serving.New(serving.Options{
				Config: serving.DefaultConfig(), Router: oneReplica(b),
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
