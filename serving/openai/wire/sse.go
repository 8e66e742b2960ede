package wire

import "bytes"

// byteOrderMark may precede a text in UTF-8. It does not belong to it.
var byteOrderMark = []byte("\xef\xbb\xbf")

// sse is how far a stream of server-sent events has been read. Lines end with CR, LF or
// both, and events with a blank line. The data of an event is that of all its data lines.
type sse struct {
	begun  bool   // the first line is over
	cr     bool   // the last byte was a CR, so that an LF would belong to it
	open   bool   // a field of an event has come, and the blank line has not
	name   naming // what the event's name says of it
	data   []byte // of the event, as long as what has come is no whole object
	long   bool   // the event has data that is too long to be kept
	unread bool   // the last event was too long
}

// naming is what the name of an event says of it.
type naming uint8

const (
	ofAnswer  naming = iota // it has none, or one that answers use
	ofError                 // it is an error
	ofOther                 // of something else: clients listen to it only if they know it
	ofNothing               // it keeps the connection open
)

// lines takes in more of a stream.
func (m *Meter) lines(p []byte) {
	if m.sse.cr && len(p) > 0 {
		if p[0] == '\n' {
			p = p[1:]
		}
		m.sse.cr = false
	}
	for len(p) > 0 {
		end := lineEnd(p)
		if end < 0 {
			m.keep(p)
			return
		}
		line := p[:end]
		if len(m.pending) > 0 || len(line) > meterLimit {
			m.keep(line)
			line = m.pending
		}
		m.line(line)
		m.pending, m.overflow = m.pending[:0], false
		if p[end] == '\r' {
			switch {
			case end+1 == len(p):
				m.sse.cr = true
			case p[end+1] == '\n':
				end++
			}
		}
		p = p[end+1:]
	}
}

// lineEnd is the index of the first CR or LF, or −1.
func lineEnd(p []byte) int {
	lf := bytes.IndexByte(p, '\n')
	if lf >= 0 {
		p = p[:lf]
	}
	if cr := bytes.IndexByte(p, '\r'); cr >= 0 {
		return cr
	}
	return lf
}

// line takes in a line, of which there is more than is kept if m.overflow.
func (m *Meter) line(line []byte) {
	if !m.sse.begun {
		m.sse.begun = true
		line = bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		m.dispatch()
		return
	}
	if line[0] == ':' {
		return
	}
	m.sse.open = true
	if data, ok := bytes.CutPrefix(line, []byte("data:")); ok { // most lines
		m.data(value(data))
		return
	}
	name, value := field(line)
	switch string(name) {
	case "data":
		m.data(value)
	case "event":
		m.sse.name = named(value)
	case "error": // older servers of llama.cpp have a field for it
		m.said, m.begun = true, true
		m.erred(bytes.TrimSpace(value))
	default:
		if !isField(name) { // a text that is no stream
			m.garbled = m.garbled || !m.said
			m.said = true
		}
	}
}

// field is the name and the value of a line.
func field(line []byte) (name, text []byte) {
	name, text, _ = bytes.Cut(line, []byte(":"))
	return name, value(text)
}

// value is what follows a field's colon, without the blank that may come first.
func value(text []byte) []byte {
	if len(text) > 0 && text[0] == ' ' {
		return text[1:]
	}
	return text
}

// isField reports whether the text could be the name of a field.
func isField(name []byte) bool {
	for _, b := range name {
		if !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '-' || b == '_') {
			return false
		}
	}
	return len(name) > 0
}

// named is what an event's name says of it.
func named(name []byte) naming {
	switch {
	case keepsAlive(name):
		return ofNothing
	case string(name) == "error":
		return ofError
	case len(name) == 0, string(name) == "message", string(name) == "completion", bytes.HasPrefix(name, []byte("response.")),
		bytes.HasPrefix(name, []byte("message_")), bytes.HasPrefix(name, []byte("content_block_")):
		return ofAnswer
	}
	return ofOther
}

// keepsAlive reports whether the text, a name or the data of an event, stands for nothing but that
// the connection does.
func keepsAlive(text []byte) bool {
	for _, word := range []string{"ping", "heartbeat", "keepalive", "keep-alive"} {
		if len(text) == len(word) && bytes.EqualFold(text, []byte(word)) {
			return true
		}
	}
	return false
}

// data takes in a data line. One that is a whole object is an event at once: most are, and
// not every server puts a blank line between them.
func (m *Meter) data(value []byte) {
	switch {
	case m.overflow, len(m.sse.data)+len(value) >= meterLimit:
		m.sse.long, m.sse.data = true, m.sse.data[:0]
	case len(m.sse.data) > 0:
		m.more('\n', value)
	case !m.event(value):
		m.more(0, value)
	}
}

// more adds a line to the data of the event, after what separates it from the last, if
// there is room.
func (m *Meter) more(separator byte, line []byte) {
	data, room := m.grown(m.sse.data, len(m.sse.data)+1+len(line))
	if !room {
		m.sse.long, m.sse.data = true, data[:0]
		return
	}
	if separator != 0 {
		data = append(data, separator)
	}
	m.sse.data = append(data, line...)
}

// event takes in the data of an event, or reports false for what is not all of one.
func (m *Meter) event(data []byte) bool {
	data = bytes.TrimSpace(data)
	switch {
	case len(data) == 0, m.sse.name == ofNothing: // it keeps a connection open, as a comment does
		return true
	case string(data) == "[DONE]":
		// It ends what has begun, and no stream that has a last event of its own.
		m.hollow = m.hollow || !m.failed && (!m.begun || m.opened && !m.finished)
		m.finished = true
	case data[0] != '{' || data[len(data)-1] != '}':
		return false
	default:
		before := *m
		if !m.read(data) {
			*m = before
			return false
		}
		if m.sse.name == ofError && !m.failed {
			m.erred(data)
		}
	}
	m.said, m.sse.unread = true, false
	return true
}

// dispatch ends an event. It reports whether all of it was read.
func (m *Meter) dispatch() (whole bool) {
	whole = true
	switch data := m.sse.data; {
	case m.sse.long: // whatever it is, it is something
		m.said, m.begun, m.sse.unread = true, true, true
		m.pieces++
	case len(data) == 0 || m.event(data) || keepsAlive(bytes.TrimSpace(data)) || m.sse.name == ofOther:
	case m.sse.name == ofError:
		m.said, m.begun, m.failed = true, true, true
	default:
		m.said, m.garbled, whole = true, true, false
	}
	m.sse.open, m.sse.long, m.sse.name, m.sse.data = false, false, ofAnswer, m.sse.data[:0]
	return whole
}

// ended comes after the last byte of a stream.
func (m *Meter) ended() {
	if len(m.pending) > 0 {
		m.torn = true
		m.line(m.pending) // some servers leave out the last line's end
		m.overflow = false
	}
	if !m.dispatch() {
		m.torn = true
	}
	m.sse.data = nil
}

// opening is a text without its byte order mark and the blanks before it. It reports whether
// nothing else has come yet.
func opening(text []byte) (rest []byte, undecided bool) {
	if len(text) < len(byteOrderMark) && bytes.HasPrefix(byteOrderMark, text) {
		return nil, true
	}
	rest = bytes.TrimLeft(bytes.TrimPrefix(text, byteOrderMark), " \t\r\n")
	return rest, len(rest) == 0
}

// Form is what the beginning of an answer looks like.
type Form uint8

// The forms of answers.
const (
	// Unclear is one of which too little has come.
	Unclear Form = iota
	// Events is a stream of server-sent events.
	Events
	// Object is a JSON object.
	Object
	// Other is neither.
	Other
)

// FormOf recognises a text by its beginning, whatever its header calls it. Blank
// lines and a byte order mark may come first.
func FormOf(text []byte) Form {
	rest, undecided := opening(text)
	switch {
	case undecided:
		return Unclear
	case rest[0] == '{':
		return Object
	case rest[0] == ':':
		return Events
	}
	for _, field := range []string{"data:", "event:", "id:", "retry:"} {
		switch n := min(len(field), len(rest)); {
		case string(rest[:n]) != field[:n]:
		case n == len(field):
			return Events
		default:
			return Unclear
		}
	}
	return Other
}
