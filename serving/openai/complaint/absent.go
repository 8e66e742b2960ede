package complaint

import (
	"encoding/json"
	"net/http"
	"strings"
)

// Absent reports whether an engine's error says that it does not have what it was asked
// for at the path. What could be about something that the request names, such as a model or
// an earlier response, does not say so.
func Absent(status int, body []byte, path string) bool {
	switch status {
	case http.StatusMethodNotAllowed:
		return true
	case http.StatusNotFound, http.StatusNotImplemented:
	default:
		return false
	}
	e := read(body)
	text := strings.ToLower(e.message)
	if status == http.StatusNotImplemented { // llama.cpp: this server does not support reranking
		return !containsAny(text, []string{"input", "image", "audio", "video", "multimodal"})
	}
	switch strings.Trim(text, " .") {
	case "", "not found", "file not found", "404 page not found", "page not found": // or the page of a server that has no such path
		return true
	}
	path = strings.ToLower(path)
	own := unquoted(text)
	return e.param == "" && (strings.Contains(own, path) || containsAny(own, pathless) || strings.Contains(text, path) && containsAny(own, places))
}

// pathless are words for a path that is not there, and places those for what may be quoted.
var (
	pathless = []string{"invalid url", "unknown url", "unknown_url", "no route", "cannot post", "unknown endpoint", "no such endpoint"}
	places   = []string{"path", "url", "route", "endpoint", "resource"}
)

// Explains reports whether an error has OpenAI's shape, or Anthropic's: a client of either
// finds out from it what is wrong.
func Explains(body []byte) bool {
	var o struct {
		Error struct{ Message string }
	}
	return json.Unmarshal(body, &o) == nil && o.Error.Message != ""
}

// unquoted is a text without what it quotes, which a client may have written: from the first
// quotation mark of a kind to the last. An apostrophe within a word is none.
func unquoted(text string) string {
	for _, mark := range "\"'`" {
		first, last := -1, -1
		for i, c := range text {
			if c != mark {
				continue
			}
			if first < 0 && (i == 0 || !letter(text[i-1])) {
				first = i
			} else if first >= 0 && (i+1 == len(text) || !letter(text[i+1])) {
				last = i
			}
		}
		if last > 0 {
			text = text[:first] + text[last+1:]
		}
	}
	return text
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' }
