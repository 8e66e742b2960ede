//go:build linux

package main

import (
	"bytes"
	"strconv"
)

// frame finds the end of the HTTP/1.1 message at the start of b: the length of
// its head, and of the whole; zero as far as that has not arrived. It reads
// what the measured servers write, not all that HTTP allows.
func frame(b []byte) (head, whole int) {
	end := bytes.Index(b, []byte("\r\n\r\n"))
	if end < 0 {
		return 0, 0
	}
	head = end + 4
	if length, ok := field(b[:head], "content-length"); ok {
		n, err := strconv.Atoi(string(length))
		if err == nil && len(b) >= head+n {
			whole = head + n
		}
		return head, whole
	}
	if coding, ok := field(b[:head], "transfer-encoding"); ok && string(coding) == "chunked" {
		if last := bytes.Index(b[head:], []byte("0\r\n\r\n")); last >= 0 && (last == 0 || b[head+last-1] == '\n') {
			whole = head + last + 5
		}
		return head, whole
	}
	return head, head
}

// field is the value of a header field, by its name in lower case.
func field(head []byte, name string) ([]byte, bool) {
	for len(head) > 0 {
		line, rest, _ := bytes.Cut(head, []byte("\r\n"))
		head = rest
		if len(line) > len(name) && line[len(name)] == ':' && bytes.EqualFold(line[:len(name)], []byte(name)) {
			return bytes.TrimSpace(line[len(name)+1:]), true
		}
	}
	return nil, false
}
