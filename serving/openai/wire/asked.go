package wire

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// asked is how much a body asks for.
type asked struct {
	n       int // choices of each prompt; zero if the body does not say
	made    int // answers of each prompt that engines may make for that, or choose from
	prompts int // that stand in one list
	most    int // output tokens of one answer; zero if the body does not say
}

// member reads one of the body's members. Of a name that comes twice the larger value
// counts: engines differ in which they take.
func (a *asked) member(s seen, key, value []byte) {
	switch string(key) {
	case "n":
		a.n, a.made = max(a.n, count(value)), max(a.made, counted(value))
	case "best_of":
		a.made = max(a.made, counted(value))
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		a.most = max(a.most, counted(value))
	case "prompt":
		if first := skipSpace(value, 1); first < len(value) && value[0] == '[' && (value[first] == '"' || value[first] == '[') {
			prompts := 0
			s.elements(value, func([]byte) { prompts++ })
			a.prompts = max(a.prompts, prompts)
		}
	}
}

// counted is the number that the value states, or its text: engines that read by pydantic,
// such as vLLM, take "64" for 64.
func counted(value []byte) int {
	if len(value) > 0 && value[0] == '"' {
		s, _ := text(value)
		value = []byte(strings.ReplaceAll(strings.TrimSpace(s), "_", ""))
	}
	return count(value)
}

// count is the number that the value states, zero if it is none that counts something.
func count(value []byte) int {
	x, err := strconv.ParseFloat(string(value), 64)
	if err != nil || !(x > 0) {
		return 0
	}
	return int(min(x, math.MaxInt32))
}

// AnswersOfOne is how many answers an engine makes for one of the request's prompts.
func (r *Request) AnswersOfOne() int { return max(1, r.asked.made) }

// Answers is how many answers an engine makes for the request: as many as it asks for,
// or is to choose from, of each of its prompts.
func (r *Request) Answers() int {
	return int(min(float64(r.AnswersOfOne())*float64(max(1, r.asked.prompts)), math.MaxInt32))
}

// Choices is how many choices the answer to the request has: as many as it asks for, of each
// of its prompts.
func (r *Request) Choices() int {
	return int(min(float64(max(1, r.asked.n))*float64(max(1, r.asked.prompts)), math.MaxInt32))
}

// MaxTokens is the most output tokens of one answer that the request allows; zero if it
// does not say.
func (r *Request) MaxTokens() int { return r.asked.most }

// readNames are the members by which a router decides, or that make up the work.
var readNames = []string{
	"model", "metadata", "stream", "previous_response_id", "store", "messages", "prompt", "input", "instructions",
	"n", "best_of", "max_tokens", "max_completion_tokens", "max_output_tokens", "system", "tools", "functions", "response_format", "text", "suffix", "query", "documents", "texts",
}

// alias is the member that the key is taken for where names are compared without regard
// to case, as some decoders of JSON do; empty if it is none, or is that name itself.
func alias(key []byte) string {
	plain := true
	for _, c := range key {
		plain = plain && (c >= 'a' && c <= 'z' || c == '_')
	}
	if plain {
		return ""
	}
	for _, name := range readNames {
		if bytes.EqualFold(key, []byte(name)) {
			return name
		}
	}
	return ""
}

// ambiguous refuses a member that an engine might read as another.
func ambiguous(key, name string) error {
	return Error{
		Type: InvalidRequest, Param: Optional(name), Code: "ambiguous_member",
		Message: fmt.Sprintf("%q differs from %q only in case, and engines differ in how they read it; want %q, once", key, name, name),
	}
}

// exact refuses members whose names differ from those of the struct only in case: the
// decoder would take them.
func exact(body []byte, into any) error {
	names := members(into)
	var fault error
	Members(body, func(key []byte, _, _ int) bool {
		if !slices.Contains(names, string(key)) {
			for _, name := range names {
				if bytes.EqualFold(key, []byte(name)) {
					fault = ambiguous(string(key), name)
				}
			}
		}
		return fault == nil
	})
	return fault
}
