package serving_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/config"
)

// BenchmarkProxy is one request through the server and back, over sockets of
// this machine, to an upstream that answers at once. Client and upstream
// allocate nothing, so what is allocated is the server's:
//
//	go test -run '^$' -bench Proxy ./serving
func BenchmarkProxy(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 220 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			send, length := sender(b, size)
			b.SetBytes(int64(length))
			b.ReportAllocs()
			for b.Loop() {
				send()
			}
		})
	}
}

// proxied is the address of a server before three replicas of one upstream.
func proxied(b testing.TB, upstream string) string {
	to, err := backend.NewUpstream(backend.UpstreamConfig{URL: "http://" + upstream})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(to.Close)
	s, err := serving.New(serving.Options{
		Config: config.Default(), Router: oneReplica(b), Backends: []serving.Backend{{Transport: to}},
	})
	if err != nil {
		b.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Serve(ctx, l) }()
	b.Cleanup(func() {
		cancel()
		<-done
	})
	return l.Addr().String()
}

// instantly is the address of an upstream that answers at once.
func instantly(b testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(fine)) + "\r\n\r\n" + fine)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				r := bufio.NewReaderSize(conn, 64<<10)
				for skipMessage(r) == nil {
					if _, err := conn.Write(answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

// skipMessage reads a message that says its length.
func skipMessage(r *bufio.Reader) error {
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) <= 2 {
			break
		}
		const name = "Content-Length: "
		if len(line) > len(name) && strings.EqualFold(string(line[:len(name)]), name) {
			for _, digit := range line[len(name) : len(line)-2] {
				length = 10*length + int(digit-'0')
			}
		}
	}
	_, err := r.Discard(length)
	return err
}
