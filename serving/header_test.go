package serving_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// A header that is too long is refused, and one that does not come to its end
// costs a connection only for a while; on both listeners.
func TestHeaderBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
			o.Config.MaxHeader, o.Config.HeaderTimeout = 8<<10, 3*time.Second
		})
		l, stop, ended := serve(t, g)
		for size, want := range map[int]int{4 << 10: http.StatusOK, 16 << 10: http.StatusRequestHeaderFieldsTooLarge} {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://x"+chat, strings.NewReader(ask))
			r.Header.Set("X-Long", strings.Repeat("x", size))
			response, err := l.client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			response.Body.Close()
			if response.StatusCode != want {
				t.Errorf("a header of %d bytes: status %d, want %d", size, response.StatusCode, want)
			}
		}
		conn, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		go func() { // a byte a second, for ever
			_, _ = io.WriteString(conn, "POST "+chat+" HTTP/1.1\r\n")
			for {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(time.Second)
			}
		}()
		answer := bufio.NewReader(conn)
		if response, err := http.ReadResponse(answer, nil); err == nil {
			if response.StatusCode < 400 {
				t.Errorf("a slow header: status %d", response.StatusCode)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		if _, err := answer.ReadByte(); err == nil || time.Since(start) > 4*time.Second {
			t.Errorf("a slow header holds the connection for %v", time.Since(start))
		}
		conn.Close()
		time.Sleep(2 * time.Second) // the client notices
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
