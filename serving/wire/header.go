package wire

import (
	"net/http"
	"strings"
)

// betweenNeighbours are the headers of one connection only (RFC 9110, 7.6.1),
// and those that describe a body which each server frames anew. Names are as they
// stand in a header that was read, so that they need not be spelled anew.
var betweenNeighbours = []string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// StripHop drops from a header what concerns two neighbours alone, so that the
// rest can go on to the next.
func StripHop(h http.Header) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range betweenNeighbours {
		delete(h, name)
	}
}
