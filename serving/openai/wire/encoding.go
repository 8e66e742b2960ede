package wire

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

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
