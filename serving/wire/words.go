package wire

// PromptTokens estimates the length of "messages", "prompt" or "input", given as
// JSON text. Words stand for tokens: the router has no tokenizer of its own, and
// each variant may have another.
func PromptTokens(input []byte) int { return seen(nil).promptTokens(input) }

func (s seen) promptTokens(input []byte) (sum int) {
	if n, ok := s.words(input); ok {
		return n
	}
	s.elements(input, func(value []byte) { sum += s.element(value, 2) })
	return sum
}

// element is the length of one message, one prompt of several, or one token
// id. Depth bounds how far it looks into lists: each level reads its text
// again, so a hostile body could make that long.
func (s seen) element(value []byte, depth int) (sum int) {
	switch value[0] {
	case '"':
		sum, _ = s.words(value)
	case '{':
		s.members(value, func(key []byte, start, end int) bool {
			if string(key) == "content" || string(key) == "output" { // what a tool said, in the Responses API
				sum += s.content(value[start:end])
			}
			return true
		})
	case '[':
		if depth > 1 {
			s.elements(value, func(inner []byte) { sum += s.element(inner, depth-1) })
		}
	default:
		sum = 1
	}
	return sum
}

// content is a string, or a list of parts of which only those of text count.
func (s seen) content(value []byte) (sum int) {
	if n, ok := s.words(value); ok {
		return n
	}
	s.elements(value, func(part []byte) {
		s.members(part, func(key []byte, start, end int) bool {
			if string(key) == "text" {
				n, _ := s.words(part[start:end])
				sum += n
			}
			return true
		})
	})
	return sum
}

// words counts the words of a JSON string without decoding it.
func (s seen) words(b []byte) (sum int, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return 0, false
	}
	if l := s.find(&b[0]); l != nil {
		return l.words, true
	}
	inside := false
	for b = b[1 : len(b)-1]; ; b = b[1:] {
		n, begun, within, _ := plain(b, inside)
		sum += begun
		if n == len(b) {
			return sum, true
		}
		space := false
		if b = b[n:]; b[0] == '\\' && len(b) > 1 {
			b = b[1:]
			space = blank(b[0])
		}
		if !space && !within {
			sum++
		}
		inside = !space
	}
}
