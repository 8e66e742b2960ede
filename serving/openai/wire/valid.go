package wire

// maxDepth of arrays and objects within each other, as in encoding/json.
const maxDepth = 10_000

// seen are long strings of a text that has been checked, so that their
// end is found without a second read.
type seen []longString

type longString struct {
	first  *byte // its quote
	length int
}

// A string is long from longFrom bytes on, and no more than maxSeen are kept.
const (
	longFrom = 2 << 10
	maxSeen  = 32
)

// find is the string whose quote is there; nil if it is none of these.
func (s seen) find(first *byte) *longString {
	for i := range s {
		if s[i].first == first {
			return &s[i]
		}
	}
	return nil
}

// checker reads JSON text from its start, as [json.Valid] does, which takes longer
// over a long prompt than all else in a router: it looks at every byte of a string
// by itself. What it is inside of it keeps as bits, so that deep text costs no stack.
type checker struct {
	text    []byte
	at      int
	depth   int
	objects [(maxDepth + 63) / 64]uint64 // by depth: an object, not an array
	seen    seen
	foreign bool // something is not ASCII
}

// whole says that all of the text is one value.
func (c *checker) whole() bool { return c.value() && skipSpace(c.text, c.at) == len(c.text) }

// value reads one value, with all that it holds.
func (c *checker) value() bool {
	for {
		c.at = skipSpace(c.text, c.at)
		if c.at >= len(c.text) {
			return false
		}
		opened := false
		switch first := c.text[c.at]; first {
		case '{', '[':
			var ok bool
			if opened, ok = c.open(first == '{'); !ok {
				return false
			}
		case '"':
			if !c.string() {
				return false
			}
		default:
			if !c.scalar() {
				return false
			}
		}
		if opened {
			continue
		}
		more, ok := c.next()
		if !ok || !more {
			return ok
		}
	}
}

// open enters an object or array, up to its first value; opened is false if it
// has none.
func (c *checker) open(object bool) (opened, ok bool) {
	closing := byte(']')
	if object {
		closing = '}'
	}
	c.at = skipSpace(c.text, c.at+1)
	if c.at < len(c.text) && c.text[c.at] == closing {
		c.at++
		return false, c.depth < maxDepth
	}
	if c.depth == maxDepth {
		return false, false
	}
	if word, bit := c.depth/64, uint64(1)<<(c.depth%64); object {
		c.objects[word] |= bit
	} else {
		c.objects[word] &^= bit
	}
	c.depth++
	return true, !object || c.key()
}

// next goes on to the next value of what it is inside of, leaving what ends; more
// is false after the outermost value.
func (c *checker) next() (more, ok bool) {
	for c.depth > 0 {
		c.at = skipSpace(c.text, c.at)
		if c.at >= len(c.text) {
			return false, false
		}
		object := c.objects[(c.depth-1)/64]>>((c.depth-1)%64)&1 == 1
		switch c.text[c.at] {
		case ',':
			if c.at++; !object {
				return true, true
			}
			c.at = skipSpace(c.text, c.at)
			return true, c.key()
		case '}':
			if !object {
				return false, false
			}
		case ']':
			if object {
				return false, false
			}
		default:
			return false, false
		}
		c.at++
		c.depth--
	}
	return false, true
}

// key reads a member's name and the colon after it.
func (c *checker) key() bool {
	if c.at >= len(c.text) || c.text[c.at] != '"' || !c.string() {
		return false
	}
	c.at = skipSpace(c.text, c.at)
	if c.at >= len(c.text) || c.text[c.at] != ':' {
		return false
	}
	c.at++
	return true
}

// string reads one, from its quote on.
func (c *checker) string() bool {
	b, i := c.text, c.at+1
	for {
		n, _, _, ascii := plain(b[i:], false)
		c.foreign = c.foreign || !ascii
		if i += n; i >= len(b) || b[i] < ' ' {
			return false
		}
		if b[i] == '"' {
			c.end(i + 1)
			return true
		}
		if n = escape(b[i:]); n == 0 {
			return false
		}
		i += n
	}
}

// end leaves the string.
func (c *checker) end(at int) {
	if length := at - c.at; length >= longFrom && len(c.seen) < maxSeen {
		c.seen = append(c.seen, longString{&c.text[c.at], length})
	}
	c.at = at
}

// blank says that the escape of that letter stands for a space between words.
func blank(letter byte) bool { return letter == 'n' || letter == 't' || letter == 'r' }

// escape is the length of the escape sequence that b begins with; zero if it is
// none.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if len(b) >= 6 && hex(b[2]) && hex(b[3]) && hex(b[4]) && hex(b[5]) {
			return 6
		}
	}
	return 0
}

func hex(b byte) bool {
	return '0' <= b && b <= '9' || 'a' <= b && b <= 'f' || 'A' <= b && b <= 'F'
}

// scalar reads a number, true, false or null.
func (c *checker) scalar() bool {
	b := c.text[c.at:]
	for _, word := range [...]string{"true", "false", "null"} {
		if len(b) >= len(word) && string(b[:len(word)]) == word {
			c.at += len(word)
			return true
		}
	}
	n := number(b)
	c.at += n
	return n > 0
}

// number is the length of the number that b begins with; zero if there is none.
func number(b []byte) int {
	i := 0
	if i < len(b) && b[i] == '-' {
		i++
	}
	switch n := digits(b[i:]); {
	case n == 0:
		return 0
	case b[i] == '0':
		i++
	default:
		i += n
	}
	if i < len(b) && b[i] == '.' {
		n := digits(b[i+1:])
		if n == 0 {
			return 0
		}
		i += 1 + n
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		if i++; i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		n := digits(b[i:])
		if n == 0 {
			return 0
		}
		i += n
	}
	return i
}

func digits(b []byte) (n int) {
	for n < len(b) && '0' <= b[n] && b[n] <= '9' {
		n++
	}
	return n
}
