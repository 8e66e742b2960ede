package serving_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/config"
	"gearshift/serving/engines/gauges"
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
func proxied(b testing.TB, upstream string, change ...func(*serving.Options)) string {
	to, err := backend.NewUpstream(backend.UpstreamConfig{URL: "http://" + upstream})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(to.Close)
	o := serving.Options{Config: config.Default(), Router: oneReplica(b), Backends: []serving.Backend{{Transport: to}}}
	for _, f := range change {
		f(&o)
	}
	s, err := serving.New(o)
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

// instantly is the address of an upstream that answers at once, with some more lines in the header.
func instantly(b testing.TB, header string) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { l.Close() })
	answer := []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n" + header + "Content-Length: " + strconv.Itoa(len(fine)) + "\r\n\r\n" + fine)
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

// BenchmarkProxySignals compares requests whose answers bring the replica's load, which a balancer
// hears, with requests that have none of it, in turn and over the same upstream. Ratio is the median time
// of the first to that of the second:
//
//	go test -run '^$' -bench ProxySignals ./serving
func BenchmarkProxySignals(b *testing.B) {
	load := signals.Load{Requests: 3, Waiting: 1, Host: 5, Examples: 5, Work: 0.125, Cores: 8, KVUse: 0.5, KVTokens: 1000, CPU: 0.25, Utilization: 0.5, Rate: 120, Errors: 0.5, Answered: 1234, Model: 77, Instance: 99}
	upstream := instantly(b, "endpoint-load-metrics: "+gauges.WriteLoad(gauges.Text, &load)+"\r\n")
	off, _ := senderTo(b, proxied(b, upstream), 10<<10)
	on, _ := senderTo(b, proxied(b, upstream, withSignals(b, "sampled:2", nil)), 10<<10)
	for range 200 {
		off()
		on()
	}
	var with, without []time.Duration
	for b.Loop() {
		began := time.Now()
		on()
		middle := time.Now()
		off()
		with, without = append(with, middle.Sub(began)), append(without, time.Since(middle))
	}
	slices.Sort(with)
	slices.Sort(without)
	signals, none := float64(with[len(with)/2]), float64(without[len(without)/2])
	b.ReportMetric(signals/none, "ratio")
	b.ReportMetric(signals-none, "added-ns/op")
}
