package wire

import (
	"bytes"
)

// meterLimit bounds what a Meter keeps of an answer, or of one event.
const meterLimit = 4 << 20

// Meter reads an answer as its bytes pass and counts its output tokens. It
// takes the usage that the answer states; without one it estimates the tokens of an
// answer in one piece, and counts the words in the content of each event, at least one. Engines
// put several tokens into an event where they guess ahead, or lag behind. It knows the
// answers of chats, of completions, of the Responses API and of Anthropic's Messages API.
type Meter struct {
	events    bool
	lists     bool // an answer in one piece may be a list
	generated bool // it is one of a chat, a completion, the Responses or the Messages API
	list      bool // and is
	sse       sse
	pending   []byte // the line, or the whole answer, so far
	overflow  bool   // pending is not all of it
	some      bool   // something of an answer in one piece has come, spaces aside
	last      byte   // of that
	pieces    int
	stated    int  // −1: not stated
	prompt    int  // tokens of the prompt as stated; 0: not stated
	said      bool // more than what keeps a connection open
	known     bool // an event of an answer has come, be it an opening
	begun     bool // content has come, or why there is none
	opened    bool // of the Responses or the Messages API: its last event is to come
	finished  bool
	bare      bool // the last event of the Responses API has come without content before it
	filled    bool // an event of the Responses API has brought a whole answer
	hollow    bool
	choices   choices
	failed    bool
	refused   bool // an error says that the request is at fault
	garbled   bool
	closed    bool
	torn      bool     // the last line, or event, has no end
	fault     int      // the status that an error names; zero if none does
	id        []byte   // JSON text
	short     [64]byte // has the ID of a stream, if it fits
	budget    Budget   // of what is kept; nil has no bound beyond meterLimit
	charged   int64
}

// Budget bounds the memory that meters have all together.
type Budget interface {
	// Keep charges bytes; false if there is no room for them. Drop gives them back.
	Keep(n int64) bool
	Drop(n int64)
}

// meterFree is what a Meter keeps uncharged.
const meterFree = 8 << 10

// Within has the Meter ask for what it keeps. Of an answer, or an event, for which there is
// no room it reads nothing, as if it were too long. The caller must call Drop.
func (m *Meter) Within(b Budget) { m.budget = b }

// Drop gives back the memory of what is kept, the ID's among it. What was counted stays.
func (m *Meter) Drop() {
	if m.charged > 0 {
		m.budget.Drop(m.charged)
		m.charged = 0
	}
	m.id, m.pending, m.sse.data = nil, nil, nil
}

// grown is the memory with room for so many bytes. It reports false if they are too many.
func (m *Meter) grown(b []byte, size int) ([]byte, bool) {
	switch {
	case size > meterLimit:
		return b, false
	case size <= cap(b) || size <= meterFree || m.budget == nil:
		return b, true
	}
	to := max(size, min(2*cap(b), meterLimit))
	more := int64(to)
	if cap(b) > meterFree {
		more -= int64(cap(b)) // which it has been charged
	}
	if !m.budget.Keep(more) {
		return b, false
	}
	m.charged += more
	return append(make([]byte, 0, to), b...), true
}

// NewMeter makes a Meter for a stream of server-sent events, or for an answer
// in one piece.
func NewMeter(events bool) *Meter { return &Meter{events: events, stated: -1} }

// Expect sets how many choices the request asked for: a stream without a last
// event is whole once each of them has ended. It expects one otherwise.
func (m *Meter) Expect(choices int) { m.choices.expected = choices }

// Lists says that an answer in one piece may be a list. Its content is not output.
func (m *Meter) Lists() { m.lists = true }

// Generated says that an answer in one piece is to have generated content.
func (m *Meter) Generated() { m.generated = true }

// Write implements io.Writer; it never fails.
func (m *Meter) Write(p []byte) (int, error) {
	if m.events {
		m.lines(p)
		return len(p), nil
	}
	m.keep(p)
	m.ends(p)
	return len(p), nil
}

// ends looks at the first and last byte of an answer in one piece: they show what is no
// object before it has all come, and where it is too long to be kept.
func (m *Meter) ends(p []byte) {
	if !m.some {
		text, undecided := opening(m.pending)
		if undecided {
			return
		}
		m.list = m.lists && text[0] == '['
		m.some, m.garbled = true, text[0] != '{' && !m.list
	}
	if text := bytes.TrimRight(p, " \t\r\n"); len(text) > 0 {
		m.last = text[len(text)-1]
	}
}

// keep adds to what is pending, as far as there is room.
func (m *Meter) keep(p []byte) {
	if m.overflow {
		return
	}
	var room bool
	if m.pending, room = m.grown(m.pending, len(m.pending)+len(p)); !room {
		p, m.overflow = p[:min(len(p), max(meterFree, cap(m.pending))-len(m.pending))], true
	}
	m.pending = append(m.pending, p...)
}

// Close ends the answer. Once is enough.
func (m *Meter) Close() {
	if m.closed {
		return
	}
	m.closed = true
	switch {
	case m.events:
		m.ended()
	case m.list:
		m.garbled = m.last != ']' || !m.overflow && !Elements(bytes.TrimPrefix(m.pending, byteOrderMark), func([]byte) {})
	case m.overflow:
		m.garbled = m.garbled || m.last != '}'
	default:
		m.garbled = !m.read(bytes.TrimPrefix(m.pending, byteOrderMark))
	}
	m.pending = nil
}

// Tokens is the number of output tokens so far.
func (m *Meter) Tokens() int {
	if m.stated >= 0 {
		return m.stated
	}
	return m.pieces
}

// Stated says that the answer has stated its tokens.
func (m *Meter) Stated() bool { return m.stated >= 0 }

// Prompt is the number of the prompt's tokens as the answer states it, cached ones among them;
// zero if it does not.
func (m *Meter) Prompt() int { return m.prompt }

// Counted is the number of output tokens so far by their words, whatever is stated.
func (m *Meter) Counted() int { return m.pieces }

// Started says that some content has arrived.
func (m *Meter) Started() bool { return m.pieces > 0 }

// Mute says that of a stream nothing has come but what keeps a connection open, and that
// another's events may follow that.
func (m *Meter) Mute() bool { return m.events && !m.said && m.AtLineStart() && !m.sse.open }

// Undecided reports whether the first event of a stream has begun, and more of it is needed to
// know whether it is one of an answer.
func (m *Meter) Undecided() bool {
	return m.events && !m.said && !m.closed && (len(m.pending) > 0 || len(m.sse.data) > 0 || m.sse.name != ofAnswer)
}

// Begun reports whether an event has come which is more than an opening: content, or why an
// answer has none.
func (m *Meter) Begun() bool { return m.begun }

// Known reports whether an event of an answer has come, be it an opening.
func (m *Meter) Known() bool { return m.known }

// Opening reports whether of a stream nothing has come but openings: events that announce an
// answer, such as response.created, message_start, or a chat's role.
func (m *Meter) Opening() bool {
	return m.events && m.said && !m.begun && !m.finished && !m.failed && !m.garbled
}

// Cut reports whether a stream of an answer has not come to its end.
func (m *Meter) Cut() bool {
	return (m.known || m.pieces > 0) && !m.Over() || m.opened && !m.finished && !m.failed
}

// Hollow reports whether the answer has said its last and is none: nothing was generated and
// nothing says why, its last event came too early, or its engine gave it up. A message without
// text that states why it ended is an answer.
func (m *Meter) Hollow() bool { return m.hollow }

// Finished says that the stream's last event has arrived.
func (m *Meter) Finished() bool { return m.finished }

// Over reports whether the stream has come to an end of some kind: its last event, or why each
// choice has ended, or an error. It says so too where the last event was too long to be read.
func (m *Meter) Over() bool {
	return m.finished || m.failed || m.sse.unread || m.choices.ended()
}

// Failed says that the answer, or an event of it, is an error.
func (m *Meter) Failed() bool { return m.failed }

// Fault is the status that such an error names for itself, as engines do whose
// stream has begun with 200; zero if it names none. Of an answer that is given up it is 503.
func (m *Meter) Fault() int { return m.fault }

// Refused reports whether such an error is of the type that engines give to requests which are
// themselves at fault.
func (m *Meter) Refused() bool { return m.refused }

// ID is the answer's own, empty as long as it is not known.
func (m *Meter) ID() string {
	id, _ := text(m.id)
	return id
}

// PlainID returns what [Meter.ID] does without allocating it, until the next Write. It is nil
// also for an ID with escapes.
func (m *Meter) PlainID() []byte {
	if len(m.id) <= 2 || m.id[0] != '"' || bytes.IndexByte(m.id, '\\') >= 0 {
		return nil
	}
	return m.id[1 : len(m.id)-1]
}

// Garbled says that an answer in one piece is no JSON object, as far as it has come, or
// that an event was none.
func (m *Meter) Garbled() bool { return m.garbled }

// AtLineStart reports whether no line is half written, nor an event of several lines, so an event
// may follow after a blank line.
func (m *Meter) AtLineStart() bool {
	return len(m.pending) == 0 && !m.torn && len(m.sse.data) == 0
}

// EndsInCR reports whether the last byte of a stream was a carriage return that ended a line.
func (m *Meter) EndsInCR() bool { return m.sse.cr }
