package wire

// PromptTokens estimates the length of "messages", "prompt" or "input", given as
// JSON text. Words stand for tokens: the router has no tokenizer of its own, and
// each variant may have another.
func PromptTokens(input []byte) int {
	if n, ok := words(input); ok {
		return n
	}
	var sum int
	Elements(input, func(value []byte) { sum += element(value, 2) })
	return sum
}

// element is the length of one message, one prompt of several, or one token
// id. Depth bounds how far it looks into lists: each level reads its text
// again, so a hostile body could make that long.
func element(value []byte, depth int) (sum int) {
	switch value[0] {
	case '"':
		sum, _ = words(value)
	case '{':
		Members(value, func(key []byte, start, end int) bool {
			if string(key) == "content" || string(key) == "output" { // what a tool said, in the Responses API
				sum += content(value[start:end])
			}
			return true
		})
	case '[':
		if depth > 1 {
			Elements(value, func(inner []byte) { sum += element(inner, depth-1) })
		}
	default:
		sum = 1
	}
	return sum
}

// content is a string, or a list of parts of which only those of text count.
func content(value []byte) (sum int) {
	if n, ok := words(value); ok {
		return n
	}
	Elements(value, func(part []byte) {
		Members(part, func(key []byte, start, end int) bool {
			if string(key) == "text" {
				n, _ := words(part[start:end])
				sum += n
			}
			return true
		})
	})
	return sum
}

// words counts the words of a JSON string without decoding it.
func words(b []byte) (sum int, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return 0, false
	}
	inside := false
	for b = b[1 : len(b)-1]; ; b = b[1:] {
		n, begun, within := plain(b, inside)
		sum += begun
		if n == len(b) {
			return sum, true
		}
		space := false
		if b = b[n:]; b[0] == '\\' && len(b) > 1 {
			b = b[1:]
			space = b[0] == 'n' || b[0] == 't' || b[0] == 'r'
		}
		if !space && !within {
			sum++
		}
		inside = !space
	}
}
