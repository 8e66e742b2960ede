package wire

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode/utf8"
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

// encoded says where text stops being UTF-8, which JSON has to be: a decoder
// that is strict, as the replicas' may be, would take what passes here for a
// fault of the router.
func encoded(body []byte) error {
	if utf8.Valid(body) {
		return nil
	}
	at := 0
	for at < len(body) {
		r, n := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	line := 1 + bytes.Count(body[:at], []byte("\n"))
	return Error{
		Type: InvalidRequest, Code: "invalid_json",
		Message: fmt.Sprintf("malformed JSON at line %d, column %d (byte %d): the text is not UTF-8", line, at-bytes.LastIndexByte(body[:at], '\n'), at),
	}
}

// Refusal is an error with the status that says so to the client.
type Refusal struct {
	Status int
	Error
}

// Bad refuses a request that is itself at fault.
func Bad(status int, param, code, message string) *Refusal {
	return &Refusal{status, Error{Type: InvalidRequest, Param: Optional(param), Code: Optional(code), Message: message}}
}

// RefusalOf answers to an error of reading JSON; nil to none.
func RefusalOf(err error) *Refusal {
	if err == nil {
		return nil
	}
	var e Error
	if !errors.As(err, &e) {
		e = Error{Type: InvalidRequest, Message: err.Error()}
	}
	return &Refusal{http.StatusBadRequest, e}
}
