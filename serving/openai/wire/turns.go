package wire

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// What of a request's texts is read: of more of them the first and the last, and of longer
// ones the beginning and the end without their escapes, in bytes.
const (
	mostTurns  = 128
	unescaped  = 16 << 10
	escapeSize = 6 // of \u0041
)

// Turns are the texts of a request's turns, in their order, as far as it shows them. They are
// pieces of the body, or of memory that the Turns keeps for the next request. The zero value
// is ready for use, by one goroutine at a time.
type Turns struct {
	// Parts hold the texts of messages, prompts and inputs, without those of the system. A
	// text may be several of them.
	Parts [][]byte
	// Count is the number of messages, Tools that of functions that may be called, and Media that
	// of images, sounds and videos.
	Count, Tools, Media int

	seen    seen
	raw     [mostTurns][]byte // as in the body: the first half, and the last ones in a ring
	texts   int               // all of them
	scratch []byte
}

// Turns reads the texts of the request's turns into t, which is good as long as the body is.
// System prompts are left out: they are those of an application, which its task names.
func (r *Request) Turns(t *Turns) {
	t.Parts, t.scratch, t.seen = t.Parts[:0], t.scratch[:0], r.seen
	t.Count, t.Tools, t.Media, t.texts = 0, 0, 0, 0
	if r.form {
		return
	}
	value := func(i int) []byte { return r.Body[r.parts[i].start:r.parts[i].end] }
	t.input(value(inputPart))
	t.text(value(textPart))
	t.text(value(queryPart))
	t.tools(value(toolsPart))
	t.tools(value(functionsPart))
	t.unescape()
	t.seen = nil
}

// Clear forgets the request, of which t then holds nothing.
func (t *Turns) Clear() {
	clear(t.raw[:min(t.texts, mostTurns)])
	clear(t.Parts)
	t.Parts, t.texts = t.Parts[:0], 0
}

// input reads a prompt, a list of prompts, or messages.
func (t *Turns) input(value []byte) {
	switch {
	case len(value) == 0:
	case value[0] == '"':
		t.Count++
		t.text(value)
	case value[0] == '[':
		t.seen.elements(value, func(one []byte) {
			switch one[0] {
			case '"':
				t.Count++
				t.text(one)
			case '{':
				t.message(one)
			}
		})
	}
}

// message reads one message, unless it is the system's.
func (t *Turns) message(value []byte) {
	system := false
	t.seen.members(value, func(key []byte, start, end int) bool {
		if string(key) == "role" {
			role := string(value[start:end])
			system = role == `"system"` || role == `"developer"`
		}
		return true
	})
	if !system {
		t.Count++
		t.content(value, maxParts)
	}
}

// content reads a text, a list of parts, or an object whose members have such.
func (t *Turns) content(value []byte, depth int) {
	switch {
	case len(value) == 0 || depth == 0:
	case value[0] == '"':
		t.text(value)
	case value[0] == '[':
		t.seen.elements(value, func(one []byte) { t.content(one, depth-1) })
	case value[0] == '{':
		t.seen.members(value, func(key []byte, start, end int) bool {
			switch inner := value[start:end]; string(key) {
			case "content", "text", "output":
				t.content(inner, depth-1)
			case "type":
				if kindOf(string(inner)) != 0 {
					t.Media++
				}
			}
			return true
		})
	}
}

// tools counts a list of tools.
func (t *Turns) tools(value []byte) {
	t.seen.elements(value, func([]byte) { t.Tools++ })
}

// text adds a string that says something.
func (t *Turns) text(value []byte) {
	if len(value) <= 2 || value[0] != '"' {
		return
	}
	at := t.texts
	if at >= mostTurns { // the last ones are kept in the second half, in a ring
		at = mostTurns/2 + at%(mostTurns/2)
	}
	t.raw[at] = value[1 : len(value)-1]
	t.texts++
}

// unescape makes the parts of the texts.
func (t *Turns) unescape() {
	total := 0
	for i := range min(t.texts, mostTurns) {
		total += len(t.raw[i])
	}
	at := 0
	for i := range min(t.texts, mostTurns) {
		if i >= mostTurns/2 && t.texts > mostTurns {
			i = mostTurns/2 + (t.texts+i)%(mostTurns/2)
		}
		text := t.raw[i]
		head := min(len(text), max(0, unescaped-at))
		tail := max(head, min(len(text), total-unescaped-at))
		at += len(text)
		if tail-head < unescaped/4 { // not worth a gap
			head, tail = len(text), len(text)
		}
		t.plain(text[:head])
		t.add(text[head:tail])
		t.plain(text[tail:])
	}
}

// add adds a part, unless it is empty.
func (t *Turns) add(part []byte) {
	if len(part) > 0 {
		t.Parts = append(t.Parts, part)
	}
}

// plain adds a text without its escapes. One without any is not copied.
func (t *Turns) plain(text []byte) {
	escape := bytes.IndexByte(text, '\\')
	if escape < 0 {
		t.add(text)
		return
	}
	start := len(t.scratch)
	for escape >= 0 {
		t.scratch = append(t.scratch, text[:escape]...)
		text = t.escape(text[escape:])
		escape = bytes.IndexByte(text, '\\')
	}
	t.scratch = append(t.scratch, text...)
	t.add(t.scratch[start:])
}

// escape appends what an escape stands for that the text begins with, and returns the rest.
func (t *Turns) escape(text []byte) []byte {
	if len(text) < 2 {
		return nil
	}
	switch c := text[1]; c {
	case 'n':
		t.scratch = append(t.scratch, '\n')
	case 't':
		t.scratch = append(t.scratch, '\t')
	case 'r':
		t.scratch = append(t.scratch, '\r')
	case 'b', 'f':
		t.scratch = append(t.scratch, ' ')
	case 'u':
		r, ok := unicodeEscape(text)
		if !ok {
			return text[2:]
		}
		text = text[escapeSize-2:]
		if low, ok := unicodeEscape(text[2:]); ok && utf16.IsSurrogate(r) {
			r = utf16.DecodeRune(r, low)
			text = text[escapeSize:]
		}
		t.scratch = utf8.AppendRune(t.scratch, r)
	default:
		t.scratch = append(t.scratch, c)
	}
	return text[2:]
}

// unicodeEscape is the code unit of an escape such as \u0041 that the text begins with.
func unicodeEscape(text []byte) (rune, bool) {
	if len(text) < escapeSize || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:escapeSize]), 16, 16)
	return rune(n), err == nil
}
