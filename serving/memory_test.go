package serving_test

import (
	"bufio"
	"net"
	"runtime"
	"strconv"
	"strings"
	"testing"
)

// sender sends a request of about so many bytes through a server and back, each time
// that it is called, and allocates nothing itself.
func sender(t testing.TB, size int) (send func(), length int) {
	return senderTo(t, proxied(t, instantly(t, "")), size)
}

// senderTo is sender through the server at an address.
func senderTo(t testing.TB, server string, size int) (send func(), length int) {
	return senderOf(t, server, strings.Repeat("word ", size/5))
}

// senderOf is senderTo with a prompt, as JSON has it.
func senderOf(t testing.TB, server, prompt string) (send func(), length int) {
	conn, err := net.Dial("tcp", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	body := `{"model":"auto","messages":[{"role":"user","content":"` + prompt + `"}]}`
	request := []byte("POST " + chat + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
		strconv.Itoa(len(body)) + "\r\n\r\n" + body)
	r := bufio.NewReaderSize(conn, 4<<10)
	const answered = "HTTP/1.1 200 OK\r\n"
	return func() {
		if _, err := conn.Write(request); err != nil {
			t.Fatal(err)
		}
		if head, err := r.Peek(len(answered)); err != nil || string(head) != answered {
			t.Fatalf("the answer begins with %q, %v", head, err)
		}
		if err := skipMessage(r); err != nil {
			t.Fatal(err)
		}
	}, len(body)
}

// A long prompt is never copied, nor taken apart.
func TestALongRequestCostsNoMemoryOfItsOwn(t *testing.T) {
	send, length := sender(t, 220<<10)
	for range 20 {
		send()
	}
	const runs = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	count := testing.AllocsPerRun(runs, send)
	runtime.ReadMemStats(&after)
	if each := int(after.TotalAlloc-before.TotalAlloc) / (runs + 1); each > length || count > 400 {
		t.Errorf("a request of %d bytes costs %d bytes in %v allocations", length, each, count)
	}
}

// Nothing of a request stays once it is answered.
func TestRequestsLeaveNothingBehind(t *testing.T) {
	send, _ := sender(t, 1<<10)
	heap := func(requests int) int {
		for range requests {
			send()
		}
		runtime.GC()
		runtime.GC() // what pools hold goes with the second
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	const requests = 3000
	before := heap(requests / 3)
	if grown := heap(requests) - before; grown > 100*requests {
		t.Errorf("%d bytes more after %d requests", grown, requests)
	}
}
