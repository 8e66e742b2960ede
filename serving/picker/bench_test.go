package picker_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
)

// BenchmarkPick times a pick from the request's header to the end of its body as the engine gets it, over gRPC on
// loopback, for so many clients at a time and prompts of so many bytes:
//
//	go test ./serving/picker -run '^$' -bench Pick -benchtime 5s
func BenchmarkPick(b *testing.B) {
	for _, c := range []struct {
		name    string
		clients int
		prompt  int
	}{{"1KB/1", 1, 1 << 10}, {"1KB/16", 16, 1 << 10}, {"220KB/1", 1, 220 << 10}, {"220KB/20", 20, 220 << 10}} {
		b.Run(c.name, func(b *testing.B) { benchmarkPicks(b, c.clients, c.prompt) })
	}
}

// loopback connects a gateway to the rig over TCP.
func loopback(b *testing.B, g *rig) pb.ExternalProcessorClient {
	b.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	return g.serve(b, l, func(ctx context.Context, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "tcp", l.Addr().String())
	})
}

// instant answers at once, without a network.
type instant struct{}

// RoundTrip implements [http.RoundTripper].
func (instant) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(fine))}, nil
}

func benchmarkPicks(b *testing.B, clients, prompt int) {
	g := newRigOf(b, 0, nil)
	way := g.gateway()
	way.Picker, way.Transport, way.Piece = loopback(b, g), instant{}, 32<<10
	text := strings.Replace(ask, "hi", strings.Repeat("a", prompt), 1)
	go func() {
		for range g.ended {
		}
	}()
	var mu sync.Mutex
	var all []time.Duration
	var wg sync.WaitGroup
	work := make(chan struct{})
	for range clients {
		wg.Go(func() {
			var took []time.Duration
			for range work {
				r := httptest.NewRequest("POST", chat, strings.NewReader(text))
				r.Header.Set("Content-Type", "application/json")
				w := httptest.NewRecorder()
				began := time.Now()
				way.ServeHTTP(w, r)
				took = append(took, time.Since(began))
				if w.Code != 200 {
					b.Errorf("status %d %s", w.Code, w.Body)
				}
			}
			mu.Lock()
			all = append(all, took...)
			mu.Unlock()
		})
	}
	b.ResetTimer()
	for range b.N {
		work <- struct{}{}
	}
	close(work)
	wg.Wait()
	b.StopTimer()
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
}
