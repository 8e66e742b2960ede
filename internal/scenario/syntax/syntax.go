// Package syntax finds the line at fault in a text that is not YAML.
package syntax

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Messages of the yaml package begin with its name, and mostly with a line.
var yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// Fault returns the line at fault in a text that the yaml package refuses, and what is wrong
// there. The package itself names the line before, the last one, the line where the broken
// collection begins, or none. So the text is looked through for what usually is the matter,
// and then the package is believed.
func Fault(data []byte, err error) (line int, message string) {
	message = yamlError.ReplaceAllString(err.Error(), "")
	if line, found := unreadableByte(data); found {
		return line, message
	}
	if name, ok := strings.CutPrefix(message, "unknown anchor '"); ok {
		name = strings.TrimSuffix(name, "' referenced")
		return aliasLine(data, name), fmt.Sprintf("there is no anchor &%s for *%s", name, name)
	}
	if line, message := look(string(data)); line > 0 {
		return line, message
	}
	line = 1
	if m := yamlError.FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
		line, _ = strconv.Atoi(m[1])
	}
	lines := strings.Split(string(data), "\n")
	switch {
	case strings.HasPrefix(message, "mapping values are not allowed"): // of which the package knows the line
		if before := previous(lines, line); bare(lines, before) {
			return before, "a colon is missing"
		}
		return line, "a key within a value: " + message
	case strings.HasPrefix(message, "could not find expected ':'"):
		for at := line; at > 0; at = previous(lines, at) {
			if bare(lines, at) && !strings.HasPrefix(strings.TrimSpace(lines[at-1]), "-") {
				return at, "a colon is missing"
			}
		}
		return line, message
	}
	if strings.HasPrefix(message, "did not find expected") { // and names the line where the collection begins
		line = oddIndent(lines, line)
	}
	line = min(line, 1+strings.Count(strings.TrimRight(string(data), "\n"), "\n"))
	return oddItem(lines, line), message
}

// oddIndent returns the first line, from that one on, that is indented less than what came before it, and
// otherwise than all that it may go on with; the line itself if there is none.
func oddIndent(lines []string, from int) int {
	var open []int // indentations of what is begun
	for i, text := range lines {
		rest := strings.TrimLeft(text, " ")
		if rest == "" || rest[0] == '#' {
			continue
		}
		indent, less := len(text)-len(rest), false
		for n := len(open); n > 0 && open[n-1] > indent; n = len(open) {
			open, less = open[:n-1], true
		}
		if n := len(open); less && i+1 >= from && (n == 0 || open[n-1] != indent) {
			return i + 1
		}
		for open = append(open, indent); strings.HasPrefix(rest, "- "); {
			rest = strings.TrimLeft(rest[2:], " ")
			indent = len(text) - len(rest)
			open = append(open, indent)
		}
	}
	return from
}

// previous returns the line before that is neither blank nor a comment; 0 if there is none.
// Lines count from 1.
func previous(lines []string, line int) int {
	for line--; line > 0; line-- {
		if text := strings.TrimSpace(lines[line-1]); text != "" && text[0] != '#' {
			return line
		}
	}
	return 0
}

var keyed = regexp.MustCompile(`:(\s|$)`)

// bare reports whether the line has a word where a key should be: nothing in it ends in a colon.
func bare(lines []string, line int) bool {
	return line > 0 && line <= len(lines) && strings.TrimSpace(lines[line-1]) != "" && !keyed.MatchString(lines[line-1])
}

// itemIndent returns how far the item of a list on the line is indented, -1 where none begins.
func itemIndent(line string) int {
	text := strings.TrimLeft(line, " ")
	if !strings.HasPrefix(text, "- ") {
		return -1
	}
	return len(line) - len(text)
}

// oddItem returns the first item of a list whose second, which the line begins, is indented
// otherwise, if the list goes on as the second: then the first is the odd one.
func oddItem(lines []string, line int) int {
	second := itemIndent(lines[line-1])
	if second < 0 {
		return line
	}
	first, next := line, 0
	for first = previous(lines, line); first > 0 && itemIndent(lines[first-1]) < 0; first = previous(lines, first) {
		if len(lines[first-1]) == len(strings.TrimLeft(lines[first-1], " ")) {
			return line // a key at the top: no item before
		}
	}
	for next = line + 1; next <= len(lines) && itemIndent(lines[next-1]) < 0; next++ {
		if text := lines[next-1]; text != "" && text[0] != ' ' && text[0] != '#' {
			return line
		}
	}
	if first > 0 && next <= len(lines) && itemIndent(lines[next-1]) == second && itemIndent(lines[first-1]) != second {
		return first
	}
	return line
}

// unreadableByte finds what is no text.
func unreadableByte(data []byte) (line int, found bool) {
	line = 1
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		switch {
		case r == '\n':
			line++
		case r == utf8.RuneError && n == 1, r < ' ' && r != '\t' && r != '\r', r == 0x7f:
			return line, true
		}
		i += n
	}
	return 0, false
}

func aliasLine(data []byte, name string) int {
	alias := regexp.MustCompile(`(^|[\s\[{,:-])\*` + regexp.QuoteMeta(name) + `($|[\s\]},])`)
	for i, line := range strings.Split(string(data), "\n") {
		if alias.MatchString(line) {
			return i + 1
		}
	}
	return 1
}

// bracket is a collection that is open.
type bracket struct {
	sign  byte
	line  int
	value bool // past the colon of the present entry
	// indent is that of the line where it begins.
	indent int
}

// looker goes through a text sign by sign, and knows no more of YAML than quotes, brackets,
// comments and indentation.
type looker struct {
	text string
	at   int
	line int
	// indent is that of the last line that begins outside of brackets.
	indent int
	open   []bracket
	// start says that a value may begin here: what is a quote here is a letter elsewhere.
	start bool
	// closed says that a value has just ended on this line, which began on that line.
	closed     bool
	closedFrom int
}

// look finds a tab in the indentation, a quote or bracket that is not closed or not opened,
// a missing comma, and what follows a value that has ended. Line 0 is that it found nothing.
func look(text string) (line int, message string) {
	l := &looker{text: text, line: 1, start: true}
	for l.at < len(text) {
		if l.beginsLine() {
			if line, message := l.indentation(); line > 0 {
				return line, message
			}
		}
		if line, message := l.sign(); line > 0 {
			return line, message
		}
	}
	if n := len(l.open); n > 0 {
		return l.open[n-1].line, fmt.Sprintf("%q is not closed", l.open[n-1].sign)
	}
	return 0, ""
}

func (l *looker) beginsLine() bool { return l.at == 0 || l.text[l.at-1] == '\n' }

// indentation refuses tabs before what stands on the line, and within brackets a line
// that is indented no further than the one where they begin.
func (l *looker) indentation() (line int, message string) {
	rest := l.text[l.at:]
	first := strings.TrimLeft(rest, " \t")
	blank := rest[:len(rest)-len(first)]
	if first == "" || strings.IndexByte("\r\n#", first[0]) >= 0 {
		return 0, ""
	}
	if n := len(l.open); n > 0 {
		if len(blank) <= l.open[0].indent && strings.IndexByte("]}", first[0]) < 0 {
			return l.open[n-1].line, fmt.Sprintf("%q is not closed", l.open[n-1].sign)
		}
		return 0, ""
	}
	l.indent = len(blank)
	if strings.Contains(blank, "\t") {
		return l.line, "a tab in the indentation; YAML is indented by spaces"
	}
	return 0, ""
}

// sign takes in what stands here.
func (l *looker) sign() (line int, message string) {
	c := l.text[l.at]
	switch {
	case c == '\n':
		l.line++
		l.start, l.closed = true, false
		l.at++
	case c == ' ' || c == '\t' || c == '\r':
		l.at++
		if l.at < len(l.text) && l.text[l.at] == '#' { // a comment
			l.skipLine()
		}
	case c == '#' && (l.at == 0 || l.text[l.at-1] == '\n'):
		l.skipLine()
	case l.start && (c == '"' || c == '\''):
		return l.quote(c)
	case l.start && (c == '{' || c == '['):
		l.open = append(l.open, bracket{sign: c, line: l.line, indent: l.indent})
		l.at++
	case len(l.open) > 0 && strings.IndexByte("]},", c) >= 0:
		return l.flow(c)
	case c == ':' && l.spaced():
		return l.colon()
	case c == '-' && l.start && l.spaced() && len(l.open) == 0:
		l.at++
	case l.closed:
		if l.closedFrom != l.line {
			return l.closedFrom, fmt.Sprintf("the quoted text that begins here ends on line %d", l.line)
		}
		return l.line, fmt.Sprintf("%q follows a value that has ended", c)
	default:
		l.start = false
		l.at++
	}
	return 0, ""
}

// spaced reports whether the sign here stands apart from what follows.
func (l *looker) spaced() bool {
	return l.at+1 >= len(l.text) || strings.IndexByte(" \t\r\n", l.text[l.at+1]) >= 0 || len(l.open) > 0 && strings.IndexByte(",]}", l.text[l.at+1]) >= 0
}

func (l *looker) skipLine() {
	if end := strings.IndexByte(l.text[l.at:], '\n'); end >= 0 {
		l.at += end
	} else {
		l.at = len(l.text)
	}
}

// quote goes to the end of a quoted text.
func (l *looker) quote(c byte) (line int, message string) {
	begun := l.line
	for l.at++; l.at < len(l.text); l.at++ {
		switch x := l.text[l.at]; {
		case x == '\n':
			l.line++
		case x == '\\' && c == '"':
			l.at++
		case x == c && c == '\'' && l.at+1 < len(l.text) && l.text[l.at+1] == c:
			l.at++
		case x == c:
			l.at++
			l.start, l.closed, l.closedFrom = false, true, begun
			return 0, ""
		}
	}
	return begun, fmt.Sprintf("the quote %c is not closed", c)
}

// flow takes in what ends an entry or a collection in brackets.
func (l *looker) flow(c byte) (line int, message string) {
	top := &l.open[len(l.open)-1]
	l.at++
	if c == ',' {
		top.value, l.start, l.closed = false, true, false
		return 0, ""
	}
	if (c == '}') != (top.sign == '{') {
		where := ""
		if top.line != l.line {
			where = fmt.Sprintf(" on line %d", l.line)
		}
		return top.line, fmt.Sprintf("%q is closed by %q%s", top.sign, c, where)
	}
	l.start, l.closed, l.closedFrom = false, true, l.line
	l.open = l.open[:len(l.open)-1]
	return 0, ""
}

// colon ends a key. In brackets there is one before each comma.
func (l *looker) colon() (line int, message string) {
	if n := len(l.open); n > 0 {
		top := &l.open[n-1]
		if top.value {
			return l.line, "a comma is missing before this key"
		}
		top.value = true
	}
	if l.closed && l.closedFrom != l.line { // the quoted text was to be a value
		return l.closedFrom, fmt.Sprintf("the quoted text that begins here ends on line %d", l.line)
	}
	l.at++
	l.start, l.closed = true, false
	return 0, ""
}
