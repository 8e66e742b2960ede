package wire

import "gearshift/serving/openai/tokens"

// spokenTokens is the estimated length of the text of messages, or of items of the
// Responses API: that of an answer whose engine does not report it.
func spokenTokens(value []byte) (sum int) {
	Elements(value, func(item []byte) { sum += messageTokens(item) })
	return sum
}

func messageTokens(message []byte) (sum int) {
	Members(message, func(key []byte, start, end int) bool {
		if string(key) == "content" {
			sum += contentTokens(message[start:end])
		}
		return true
	})
	return sum
}

// contentTokens is the estimated length of a string, or of the text in a list of parts.
func contentTokens(value []byte) (sum int) {
	if n, ok := length(value); ok {
		return n
	}
	Elements(value, func(part []byte) {
		Members(part, func(key []byte, start, end int) bool {
			if string(key) == "text" {
				n, _ := length(part[start:end])
				sum += n
			}
			return true
		})
	})
	return sum
}

// length is the estimated length of a JSON string.
func length(b []byte) (n int, ok bool) {
	if len(b) < 2 || b[0] != '"' {
		return 0, false
	}
	return tokens.JSON(b[1 : len(b)-1]), true
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
