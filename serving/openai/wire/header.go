package wire

import (
	"net/http"
	"strings"
)

// betweenNeighbours says of a field that it is of one connection only (RFC 9110,
// 7.6.1), or describes a body which each server frames for itself. The name is as it
// stands in a header that was read.
func betweenNeighbours(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// StripHop drops from a header what concerns two neighbours alone, so that the
// rest can go on to the next, and the fields that are also to go.
func StripHop(h http.Header, also func(name string) bool) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		if betweenNeighbours(name) || also(name) {
			delete(h, name)
		}
	}
}
