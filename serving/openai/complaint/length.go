package complaint

import (
	"net/http"
	"regexp"
	"strings"
)

// tooLong reports whether an error of the status says that the prompt, or prompt and answer, are
// longer than the context. Engines agree neither on a code nor on words, so that the sentence is
// read for its parts: a measure of the context, or the length of the prompt, and that this is
// exceeded. What else has a length (a field, an image) or a limit (a rate, an answer) is none.
func (f *fault) tooLong(status int) bool {
	for _, code := range []string{f.code, f.kind} {
		code = strings.ToLower(code)
		if code == "1261" || contextCode.MatchString(code) && !otherLimit.MatchString(code) { // 1261 is Zhipu's
			return true
		}
	}
	text := strings.ToLower(f.message)
	if containsAny(text, long) {
		return true
	}
	text = plainWords(text)
	if status != http.StatusRequestEntityTooLarge && otherLimit.MatchString(text) || otherLength.MatchString(text) {
		return false
	}
	return overContext.MatchString(text) && exceeds.MatchString(text) ||
		overPrompt.MatchString(text) || promptLength.MatchString(text) || promptTokens(text) ||
		overPromptInChinese.MatchString(text)
}

// long are words of engines that name their context's length, so that nothing else is needed.
var long = []string{
	"maximum context length", "maximum model length", "max_model_len", "model's context length", // OpenAI, vLLM, SGLang, Mistral
	"context size", "context length exceeded", "context window", "contextwindow", "n_ctx", // llama.cpp, LM Studio
	"maximum input length", "max_input_len", "max_num_tokens", "max_seq_len", "session_len", // TensorRT-LLM, LMDeploy
	"max_new_tokens` must be", "inputs` must have less than", // TGI
	"reduce the length of the messages",
}

var (
	// contextCode matches the codes and types of such errors.
	contextCode = regexp.MustCompile(`context.*(length|size|window|limit|exceed|overflow|too_?l)|(prompt|input|tokens?).*(too_?l|exceed|limit_reached)`)
	// overContext matches a measure of the context.
	overContext = regexp.MustCompile(`context[a-z ]{0,12} (length|len|limit|capacity|overflow)|max(imum)? context|model (context|capacity)|(prompt|input|sequence|context) (is )?(max|limit)`)
	// exceeds matches that something is more than a limit, or a limit less than it.
	exceeds = regexp.MustCompile(`exceed|too (long|large|big|many)|(long|larg|great|bigg|high)er than|more than|less than|not enough|cannot be|must be (<|at most|less|within)|at most|up to|beyond|overflow|over the|surpass|outside|is only|>`)
	// overPrompt matches a prompt that is too long, whatever the length is measured in.
	overPrompt = regexp.MustCompile(`(prompt|input|context|conversation|chat history)s?( (text|length|size|sequence))?( with \d+[a-z ]*)?( of)?( \(?\d+[a-z ]*\)?)?( (is|are|was))? (too (long|large|big)|超长)|(prompt|input|context)s?[^.]{0,30} (exceed|longer than|larger than|greater than|more tokens than|>)[^.]{0,30}(max|limit|length|allowed|capacity)`)
	// promptLength matches a limit of the prompt's length by its name.
	promptLength = regexp.MustCompile(`max(imum)?( allowed| supported)? (prompt|input|sequence|context)( token)? (length|len|tokens|limit|size)|range of (input|prompt) length|(prompt|input) length should`)
	// otherLimit matches limits that are not of the context: rates, and answers.
	otherLimit = regexp.MustCompile(`rate.?limit|per.(min|sec|hour|day)|\btpm\b|quota|throttl|budget|(completion|output|generated|reasoning).tokens?\b`)
	// otherLength matches what else may be too long, or is no number of tokens.
	otherLength = regexp.MustCompile(`\b(image|audio|video|file|url|pixel|byte|string|array|character|schema|tools?|function|vocab(ulary)?|logprobs?|metadata|stop)s?\b|\b\d*[km]i?b\b`)
	// overPromptInChinese matches input, prompt, context, tokens or length, and that they are over.
	overPromptInChinese = regexp.MustCompile(`(上下文|输入|提示|prompt|tokens?|长度|文本)[^。]{0,20}(超|过长|太长|大于)`)
	// plain is a word that is no name of a parameter, such as max_tokens, and pydantic's "Input
	// should be": it calls any field an input.
	plain  = regexp.MustCompile(`[^\s,;:"'()=]*_[^\s,;:"'()=]*|input should be`)
	spaces = regexp.MustCompile(`[\s"'*]+`)
)

// plainWords are the words of a text without what it quotes, names of parameters, and marks.
func plainWords(text string) string {
	text = strings.ReplaceAll(strings.ReplaceAll(text, "`", ""), "-", " ")
	return spaces.ReplaceAllString(plain.ReplaceAllString(unquoted(text), " "), " ")
}

var (
	tokens   = regexp.MustCompile(`\btokens?\b`)
	ofPrompt = regexp.MustCompile(`\b(prompts?|inputs?|messages?|request|context|sequence|conversation|query)\b`)
)

// promptTokens reports whether a text says that the tokens of a prompt are too many.
func promptTokens(text string) bool {
	return tokens.MatchString(text) && ofPrompt.MatchString(text) && exceeds.MatchString(text) || strings.Contains(text, "too many tokens")
}
