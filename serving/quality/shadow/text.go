package shadow

import (
	"bytes"
	"encoding/json"
	"strings"
)

// compose returns a request for one answer in one piece by the model of the name.
func compose(body []byte, model string) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil {
		return nil, err
	}
	name, err := json.Marshal(model)
	if err != nil {
		return nil, err
	}
	members["model"] = name
	delete(members, "stream")
	delete(members, "stream_options")
	return json.Marshal(members)
}

// piece is an answer in one piece, or an event of one.
type piece struct {
	Choices []struct {
		Index          int
		Text           string
		Message, Delta struct{ Content any }
	}
	Usage *struct {
		Tokens int `json:"completion_tokens"`
	}
}

// read returns the text of an answer, as JSON or as events, and its tokens if it states them. What is not
// text, such as calls of tools, is left out.
func read(answer []byte) (text string, tokens int) {
	var all strings.Builder
	take := func(data []byte) {
		var p piece
		if json.Unmarshal(data, &p) != nil {
			return
		}
		if p.Usage != nil {
			tokens = p.Usage.Tokens
		}
		for _, c := range p.Choices {
			message, _ := c.Message.Content.(string)
			delta, _ := c.Delta.Content.(string)
			if c.Index == 0 {
				all.WriteString(c.Text + message + delta)
			}
		}
	}
	if bytes.HasPrefix(bytes.TrimSpace(answer), []byte("{")) {
		take(answer)
	} else {
		for line := range bytes.FieldsFuncSeq(answer, func(r rune) bool { return r == '\n' || r == '\r' }) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				take(data)
			}
		}
	}
	return strings.TrimSpace(all.String()), tokens
}
