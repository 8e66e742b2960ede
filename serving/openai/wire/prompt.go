package wire

import "gearshift/serving/openai/tokens"

// Prompt is the estimated length of a prompt, in tokens.
type Prompt struct {
	// Text is what the text takes, which another vocabulary makes more or less of.
	Text int
	// IDs are the tokens of a prompt that is given as such.
	IDs int
	// Media is the share of images, audio, video and files.
	Media int
	// Marks are what a chat template sets around messages and tools.
	Marks int
	// Hidden says that the prompt has more than the request shows: an earlier
	// response, or media.
	Hidden bool
}

// Tokens is the whole length.
func (p Prompt) Tokens() int { return p.Text + p.Fixed() }

// Fixed is what no vocabulary changes.
func (p Prompt) Fixed() int { return p.IDs + p.Media + p.Marks }

// What the parts of a request take that are not text, in tokens. Images are those of public
// models: 85 for one of low detail, 765 for 1024 by 1024 pixels.
const (
	messageMarks = 4  // around each message: its role, beginning and end
	answerMarks  = 3  // before the answer
	toolMarks    = 64 // the template's words on how to call tools
	imageLow     = 85
	imageHigh    = 765
	videoShare   = 2048
	fileShare    = 1500 // of a file by reference

	// Bytes a token, once the base 64 is decoded. An audio token is 40 ms.
	wavBytes   = 1280 // 16 kHz, 16 bits
	audioBytes = 640  // compressed, at 128 kbit/s
	fileBytes  = 24
	textBytes  = 4
)

// The members of a request that become the prompt.
const (
	inputPart  = iota // of messages, prompt or input
	systemPart        // or instructions
	toolsPart
	functionsPart
	formatPart // response_format
	textPart   // of the Responses API: its format
	suffixPart
	queryPart
	documentsPart
	promptParts
)

// part is the member's index among the parts; false if it does not belong to a prompt.
func part(key string) (int, bool) {
	switch key {
	case "messages", "prompt", "input":
		return inputPart, true
	case "system", "instructions":
		return systemPart, true
	case "tools":
		return toolsPart, true
	case "functions":
		return functionsPart, true
	case "response_format":
		return formatPart, true
	case "text":
		return textPart, true
	case "suffix":
		return suffixPart, true
	case "query":
		return queryPart, true
	case "documents":
		return documentsPart, true
	}
	return 0, false
}

// PromptOf estimates the prompt of a request's body that has been found valid.
func PromptOf(body []byte) Prompt {
	var r Request
	r.Body = body
	Members(body, func(key []byte, start, end int) bool {
		r.takes(string(key), span{start, end})
		return true
	})
	return r.Prompt()
}

// takes notes where a part of the prompt is.
func (r *Request) takes(key string, at span) {
	i, ok := part(key)
	if !ok || key == "input" && r.parts[inputPart] != (span{}) { // with messages, an unknown member
		return
	}
	r.parts[i] = at
}

// Prompt estimates the length of the prompt: all text that an engine gives to
// its model, tools among it, and a share for each image and the like. Where the prompt is
// given as token ids it is exact.
func (r *Request) Prompt() Prompt {
	e := estimate{seen: r.seen, Prompt: Prompt{Hidden: r.Previous != ""}}
	value := func(i int) []byte { return r.Body[r.parts[i].start:r.parts[i].end] }
	e.input(value(inputPart), 2)
	e.add(r.media)
	if e.chat {
		e.Marks += answerMarks
	}
	if system := value(systemPart); len(system) > 0 && !isNull(system) {
		e.Marks += messageMarks
		e.content(system, maxParts)
	}
	e.tools(value(toolsPart))
	e.tools(value(functionsPart))
	e.format(value(formatPart))
	e.replyText(value(textPart))
	e.text(value(suffixPart))
	e.pairs(value(queryPart), value(documentsPart))
	return e.Prompt
}

// maxParts bounds how deep content lies within content: each level reads its text again, so
// a hostile body could make that long.
const maxParts = 6

// estimate sums up a prompt.
type estimate struct {
	seen
	Prompt
	chat bool // it has messages
}

// text adds a string, or nothing if the value is none.
func (e *estimate) text(value []byte) {
	if len(value) > 2 && value[0] == '"' {
		e.Text += tokens.JSON(value[1 : len(value)-1])
	}
}

// raw adds JSON that a template writes out.
func (e *estimate) raw(value []byte) {
	if !empty(value) {
		e.Text += tokens.JSON(value)
	}
}

// input adds messages, prompts, or token ids, of which there may be lists.
func (e *estimate) input(value []byte, depth int) {
	if len(value) == 0 {
		return
	}
	switch value[0] {
	case '"':
		e.text(value)
	case '{':
		e.part(value, maxParts)
	case '[':
		if depth > 0 {
			e.elements(value, func(one []byte) { e.input(one, depth-1) })
		}
	case 't', 'f', 'n':
	default:
		e.IDs++
	}
}

// content adds a string, or a list of parts.
func (e *estimate) content(value []byte, depth int) {
	switch {
	case len(value) == 0 || depth == 0:
	case value[0] == '"':
		e.text(value)
	case value[0] == '[':
		e.elements(value, func(one []byte) { e.content(one, depth-1) })
	case value[0] == '{':
		e.part(value, depth-1)
	}
}

// part adds a message, a part of one, or a call of a tool. What only names something, such as
// an id, is not in the prompt.
func (e *estimate) part(value []byte, depth int) {
	var m media
	e.members(value, func(key []byte, start, end int) bool {
		inner := value[start:end]
		switch string(key) {
		case "content", "text", "output", "thinking", "reasoning", "reasoning_content", "refusal", "summary", "tool_calls", "function", "function_call", "title", "context":
			e.content(inner, depth)
		case "name", "arguments", "input":
			if inner[0] == '"' {
				e.text(inner)
			} else {
				e.raw(inner)
			}
		case "role", "call_id":
			e.chat = true
			e.Marks += messageMarks
		default:
			m.member(string(key), inner)
		}
		return true
	})
	e.add(m.tokens())
}

// add adds what media take.
func (e *estimate) add(tokens int) {
	if tokens > 0 {
		e.Media += tokens
		e.Hidden = true
	}
}

// tools adds a list of tools, and the words around it.
func (e *estimate) tools(value []byte) {
	if !empty(value) && value[0] == '[' {
		e.Marks += toolMarks
		e.raw(value)
	}
}

// format adds the schema that an answer has to have.
func (e *estimate) format(value []byte) {
	e.members(value, func(key []byte, start, end int) bool {
		if string(key) == "json_schema" || string(key) == "schema" {
			e.raw(value[start:end])
		}
		return true
	})
}

// replyText adds what the Responses API says of the answer's text.
func (e *estimate) replyText(value []byte) {
	e.members(value, func(key []byte, start, end int) bool {
		if string(key) == "format" {
			e.format(value[start:end])
		}
		return true
	})
}

// pairs adds a query with each of the documents, as a model that ranks them reads it.
func (e *estimate) pairs(query, documents []byte) {
	if len(documents) == 0 {
		return
	}
	before, n := *e, 0
	e.text(query)
	each := e.Text - before.Text
	e.Text = before.Text
	e.elements(documents, func(one []byte) {
		n++
		e.content(one, maxParts)
	})
	e.Text += n * each
}
