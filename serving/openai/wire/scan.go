package wire

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"
)

// The scanner below finds values in JSON text without decoding it. It is exact
// on valid JSON; on anything else it may accept what a decoder would not, but
// it stays inside the text and always ends.

// Members calls f with the key and the bounds of each member's value in the
// object b, in order, until f returns false. It reports whether b looked like
// an object as far as it was read. The key is good until f returns.
func Members(b []byte, f func(key []byte, start, end int) bool) bool {
	return seen(nil).members(b, f)
}

func (s seen) members(b []byte, f func(key []byte, start, end int) bool) bool {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '{' {
		return false
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == '}' {
		return true
	}
	for {
		end := s.skipString(b, i)
		if end < 0 {
			return false
		}
		key, ok := name(b[i:end])
		if i = skipSpace(b, end); !ok || i >= len(b) || b[i] != ':' {
			return false
		}
		i = skipSpace(b, i+1)
		if end = s.skipValue(b, i); end < 0 {
			return false
		}
		if !f(key, i, end) {
			return true
		}
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			return i < len(b) && b[i] == '}'
		}
		i = skipSpace(b, i+1)
	}
}

// Elements calls f with each element of the array b. It reports whether b
// looked like an array.
func Elements(b []byte, f func(value []byte)) bool { return seen(nil).elements(b, f) }

func (s seen) elements(b []byte, f func(value []byte)) bool {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return false
	}
	if i = skipSpace(b, i+1); i < len(b) && b[i] == ']' {
		return true
	}
	for {
		end := s.skipValue(b, i)
		if end < 0 {
			return false
		}
		f(b[i:end])
		if i = skipSpace(b, end); i >= len(b) || b[i] != ',' {
			return i < len(b) && b[i] == ']'
		}
		i = skipSpace(b, i+1)
	}
}

// name decodes a JSON string, in place where it stands for itself.
func name(b []byte) ([]byte, bool) {
	if len(b) >= 2 && bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		return b[1 : len(b)-1], true
	}
	s, ok := text(b)
	return []byte(s), ok
}

// text decodes a JSON string.
func text(b []byte) (string, bool) {
	if len(b) < 2 || b[0] != '"' {
		return "", false
	}
	if bytes.IndexByte(b, '\\') < 0 && utf8.Valid(b) {
		return string(b[1 : len(b)-1]), true
	}
	var s string
	err := json.Unmarshal(b, &s)
	return s, err == nil
}

func isNull(b []byte) bool { return string(b) == "null" }

// empty says that the value says nothing: null, "", [] or {}.
func empty(b []byte) bool {
	switch string(b) {
	case "null", `""`, "[]", "{}":
		return true
	}
	return len(b) == 0
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\t' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns the index after the string that starts at i, or −1.
func (s seen) skipString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if l := s.find(&b[i]); l != nil {
		return i + l.length
	}
	for i++; i < len(b); {
		next := bytes.IndexByte(b[i:], '"')
		if next < 0 {
			return -1
		}
		// The quote ends the string unless an odd run of backslashes precedes it.
		end, run := i+next, 0
		for j := end - 1; j >= i && b[j] == '\\'; j-- {
			run++
		}
		if i = end + 1; run%2 == 0 {
			return i
		}
	}
	return -1
}

// skipValue returns the index after the value that starts at i, or −1.
func (s seen) skipValue(b []byte, i int) int {
	if i >= len(b) {
		return -1
	}
	switch b[i] {
	case '"':
		return s.skipString(b, i)
	case '{', '[':
		return s.skipNested(b, i)
	}
	start := i
	for i < len(b) && bytes.IndexByte([]byte(",]} \n\t\r:"), b[i]) < 0 {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

func (s seen) skipNested(b []byte, i int) int {
	for depth := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			if i = s.skipString(b, i); i < 0 {
				return -1
			}
			i--
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1
			}
		}
	}
	return -1
}
