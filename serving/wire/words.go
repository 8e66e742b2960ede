package wire

// spokenWords is the number of words in the text of messages, or of items of the
// Responses API: the tokens of an answer whose engine does not tell them.
func spokenWords(value []byte) (sum int) {
	Elements(value, func(item []byte) { sum += messageWords(item) })
	return sum
}

func messageWords(message []byte) (sum int) {
	Members(message, func(key []byte, start, end int) bool {
		if string(key) == "content" {
			sum += contentWords(message[start:end])
		}
		return true
	})
	return sum
}

// contentWords is the words of a string, or of the text in a list of parts.
func contentWords(value []byte) (sum int) {
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
