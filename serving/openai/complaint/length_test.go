package complaint_test

import (
	"encoding/json"
	"testing"

	"gearshift/serving/openai/complaint"
)

// TestPromptsThatAreTooLong has the words of engines and of services before them for a prompt that
// is longer than the context, in the shapes that their errors have.
func TestPromptsThatAreTooLong(t *testing.T) {
	for name, body := range map[string]string{
		"LM Studio":                  `{"error":"Trying to keep the first 10136 tokens when context the overflows. However, the model is loaded with context length of only 7866 tokens, which is not enough. Try to load the model with a larger context length, or provide a shorter input"}`,
		"LM Studio, newer":           `{"error":"The number of tokens to keep from the initial prompt is greater than the context length. Try to load the model with a larger context length"}`,
		"LM Studio, shortened":       `{"error":"(…) model is loaded with context length of only 8192 tokens, which is not enough (…)"}`,
		"LM Studio, shortened again": `{"error":"(…) tokens to keep (…) greater than the context length"}`,
		"LM Studio's n_keep":         `{"error":"Cannot truncate prompt with n_keep (15028) >= n_ctx (7424)"}`,
		"OpenVINO":                   `{"error":"prompt tokens: 9001 exceeds model max length: 8192"}`,
		"Moonshot":                   `{"error":{"message":"Invalid request: Your request exceeded model token limit: 8192","type":"invalid_request_error"}}`,
		"vLLM":                       `{"error":{"message":"You passed 9001 input tokens and requested 100 output tokens. However, the model's context length is only 8192 tokens, resulting in a maximum input length of 8092 tokens. Please reduce the length of the input prompt.","type":"BadRequestError","param":"input_tokens","code":400}}`,
		"vLLM's answer":              `{"error":{"message":"'max_tokens' or 'max_completion_tokens' is too large: 9000. This model's maximum context length is 8192 tokens and your request has 100 input tokens (9000 > 8192 - 100).","type":"BadRequestError","param":null,"code":400}}`,
		"SGLang":                     `{"object":"error","message":"Input length (9001 tokens) exceeds the maximum allowed length (8191 tokens). Use a shorter input or enable --allow-auto-truncate.","code":400}`,
		"llama.cpp":                  `{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it","type":"exceed_context_size_error"}}`,
		"llama-cpp-python":           `{"error":{"message":"Requested tokens (2050) exceed context window of 2048","type":"internal_server_error","param":null,"code":null}}`,
		"Ollama":                     `{"error":{"message":"prompt too long; exceeded max context length by 4 tokens"}}`,
		"Ollama's vectors":           `{"error":"the input length exceeds the context length"}`,
		"TGI":                        "{\"error\":\"Input validation error: `inputs` must have less than 4095 tokens. Given: 9000\",\"error_type\":\"validation\"}",
		"TensorRT-LLM":               `{"object":"error","message":"Prompt length (9000) exceeds maximum input length (8192). Set log level to info and check TRTGptModel logs for how maximum input length is set","code":400}`,
		"Triton":                     `{"error":"in ensemble 'ensemble', Encountered error for requestId 1: Cannot process new request: Prompt length (5056) exceeds maximum sequence length (2048)"}`,
		"LMDeploy":                   `{"object":"error","message":"The input is too long","code":400}`,
		"MLC-LLM":                    `{"object":"error","message":"Request prompt has 9000 tokens in total, larger than the model capacity 8192.","code":400}`,
		"WebLLM":                     `{"error":{"message":"Prompt tokens exceed context window size: number of prompt tokens: 9000; context window size: 4096"}}`,
		"oMLX":                       `{"error":{"message":"Prompt too long: 41911 tokens exceeds max context window of 32768 tokens"}}`,
		"TabbyAPI":                   `{"detail":"Prompt length 9000 is greater than max_seq_len 8192"}`,
		"exllama":                    `{"detail":{"error":{"message":"Total sequence length exceeds cache size in model.forward, prompt tokens 9000"}}}`,
		"KoboldCpp":                  `{"detail":{"msg":"Prompt too long","type":"x"}}`,
		"FastChat":                   `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 9000 tokens (8500 in the messages, 500 in the completion).","code":40303}`,
		"LightLLM":                   `{"error":{"message":"the input prompt token len 9000 is too long > 8192"}}`,
		"mistral.rs":                 `{"message":"Prompt sequence length (9000) is greater than the model's maximum of 8192"}`,
		"Max":                        `{"error":{"message":"Prompt length 9001 exceeds max length 8192"}}`,
		"FastDeploy":                 `{"error":{"message":"Input text is too long, input_ids_len (9000) + min_tokens (1) >= max_model_len (8192)"}}`,
		"ONNX Runtime":               `{"error":{"message":"input sequence length (9000) is >= max length (8192)"}}`,
		"transformers":               `{"detail":"Input length of input_ids is 9000, but the maximum context is 8192: prompt tokens exceed it"}`,
		"DeepSpeed-MII":              `{"error":{"message":"The input prompt length 9000 exceeds the model's maximum sequence length"}}`,
		"TEI":                        "{\"error\":\"`inputs` must have less than 512 tokens. Given: 600\",\"error_type\":\"Validation\"}",
		"LocalAI":                    `{"error":{"code":500,"message":"rpc error: code = Internal desc = prompt is too long: the request exceeds the available context size","type":""}}`,

		"OpenAI":                    `{"error":{"message":"no","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		"OpenAI's responses":        `{"error":{"message":"Your input exceeds the context window of this model. Please adjust your input and try again.","type":"invalid_request_error","param":"input","code":null}}`,
		"Anthropic":                 `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}`,
		"Anthropic's answer":        "{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"input length and `max_tokens` exceed context limit: 198000 + 8000 > 200000, decrease input length or `max_tokens` and try again\"}}",
		"Gemini":                    `[{"error":{"code":400,"message":"The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).","status":"INVALID_ARGUMENT"}}]`,
		"Vertex":                    `{"error":{"code":400,"message":"Unable to submit request because the input token count is 40000 but the model only supports up to 32768. Reduce the input token count and try again.","status":"INVALID_ARGUMENT"}}`,
		"Bedrock":                   `{"message":"Input is too long for requested model."}`,
		"Titan":                     `{"message":"400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9000"}`,
		"Mistral":                   `{"object":"error","message":"Prompt contains 9000 tokens and 0 draft tokens, too large for model with 8192 maximum context length","type":"invalid_request_prompt","code":"3051"}`,
		"Cohere":                    `{"message":"too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 9000. Try using a shorter prompt, or enabling prompt truncating."}`,
		"xAI":                       `{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 537812 tokens."}`,
		"Groq":                      `{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		"Cerebras":                  `{"message":"Please reduce the length of the messages or completion. Current length is 9013 while limit is 8192","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}`,
		"DeepSeek":                  `{"error":{"message":"This model's maximum context length is 65536 tokens. However, you requested 70000 tokens","type":"invalid_request_error"}}`,
		"Together":                  "{\"error\":{\"message\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`\",\"type\":\"invalid_request_error\"}}",
		"Fireworks":                 `{"error":{"object":"error","type":"invalid_request_error","message":"The prompt is too long: 9000, model maximum context length: 8191"}}`,
		"Poolside":                  `{"error":{"message":"Input length 131393 exceeds the maximum allowed input length of 131040 tokens."}}`,
		"Copilot":                   `{"error":{"message":"prompt token count of 200000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}`,
		"GitHub Models":             `{"error":{"code":"tokens_limit_reached","message":"Request body too large for gpt-4o model. Max size: 8000 tokens."}}`,
		"MiniMax":                   `{"type":"error","error":{"type":"bad_request_error","message":"invalid params, context window exceeds limit (2013)"}}`,
		"DashScope":                 `{"error":{"code":"invalid_parameter_error","message":"<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 30720]","type":"invalid_request_error"}}`,
		"DashScope's own":           `{"code":"InvalidParameter","message":"Range of input length should be [1, 6000]","request_id":"x"}`,
		"Zhipu":                     `{"error":{"code":"1261","message":"Prompt exceeds max length"}}`,
		"Zhipu in Chinese":          `{"error":{"code":"1210","message":"Prompt 超长"}}`,
		"Baidu":                     `{"error_code":336103,"error_msg":"prompt tokens too long"}`,
		"Hunyuan in Chinese":        `{"error":{"message":"输入长度超过模型上下文限制","type":"invalid_request_error"}}`,
		"Ark":                       `{"error":{"code":"InvalidParameter","message":"Input length 203743 exceeds the maximum length 202752","type":"BadRequest"}}`,
		"Ark's messages":            `{"error":{"code":"InvalidParameter","message":"Total tokens of messages exceed max message tokens","type":"BadRequest"}}`,
		"watsonx":                   `{"errors":[{"code":"invalid_input_argument","message":"Invalid input argument for Model 'x': the number of input tokens 9000 cannot exceed the total tokens limit 8192 for this model"}],"status_code":400}`,
		"Cloudflare":                `{"errors":[{"message":"AiError: The estimated number of input and maximum output tokens (9000) exceeded this model context window limit (8192).","code":5021}],"success":false}`,
		"Databricks":                `{"error_code":"BAD_REQUEST","message":"Prompt length 9000 tokens exceeds the model's maximum of 8192"}`,
		"AI21":                      `{"detail":"Prompt contains more tokens than the maximum allowed: 9000 tokens, limit 8191"}`,
		"LiteLLM":                   `{"error":{"message":"litellm.BadRequestError: litellm.ContextWindowExceededError: OpenAIException - no","type":null,"param":null,"code":"400"}}`,
		"a validation's detail":     `{"detail":[{"loc":["body","messages"],"msg":"prompt is too long for this model","type":"value_error"}]}`,
		"a problem's detail":        `{"type":"urn:x","title":"Bad Request","status":400,"detail":"Prompt of 9000 tokens is longer than the context length"}`,
		"an event after an opening": "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\nevent: error\ndata: {\"error\":{\"message\":\"The number of tokens to keep from the initial prompt is greater than the context length.\"}}\n\ndata: [DONE]\n\n",
	} {
		if got := complaint.Of(400, []byte(body), "org/small"); got != complaint.Context {
			t.Errorf("%s: %q is about %d, want %d", name, body, got, complaint.Context)
		}
	}
	const groq = `{"error":{"message":"Request too large for model m on tokens per minute (TPM): Limit 6000, Requested 9001, please reduce your message size and try again.","type":"tokens","code":"rate_limit_exceeded"}}`
	if got := complaint.Of(413, []byte(groq), "m"); got != complaint.Context {
		t.Errorf("a request that is larger than a rate ever allows is about %d", got)
	}
	if got := complaint.Of(500, []byte(`{"error":"the input length exceeds the context length"}`), "m"); got != complaint.Context {
		t.Errorf("a prompt that is too long with status 500 is about %d", got)
	}
}

// TestOtherFaultsAreNotAboutTheContext has errors of requests that no other size would answer, some
// of which repeat what the client wrote.
func TestOtherFaultsAreNotAboutTheContext(t *testing.T) {
	for _, message := range []string{
		"temperature must be non-negative, got -1.0.",
		"max_tokens must be at least 1, got 0.",
		"max_tokens is too large: 9000. This model supports at most 4096 completion tokens, whereas you provided 9000.",
		"max_tokens must be less than or equal to 4096",
		"The maximum tokens you requested exceeds the model limit of 4096. Try again with a maximum tokens value that is lower than 4096.",
		"min_tokens must be less than or equal to max_tokens=16, got 20.",
		"1 validation error for ChatCompletionRequest\nmax_tokens\n  Input should be greater than or equal to 1 [type=greater_than_equal, input_value=0, input_type=int]",
		"Input should be less than or equal to 2",
		"Input should be a valid list",
		"Requested sample logprobs of 30, which is greater than max allowed: 20",
		"Token id 200000 is out of vocabulary: the prompt contains a token that is greater than 151936",
		"At most 1 image(s) may be provided in one prompt.",
		"The image in the request is too large: 30000 pixels, at most 16384 tokens per image",
		"Invalid 'messages[0].name': string too long. Expected a string with maximum length 64, but got a string with length 90 instead.",
		"Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 3000 instead.",
		"Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64, but got a string with length 65 instead.",
		"Invalid 'stop': array too long. Expected an array with maximum length 4",
		"Invalid value for 'role': \"the prompt is too long and exceeds the context length\"",
		"Extra inputs are not permitted",
		"The tokenizer has no chat template, so that messages cannot be rendered",
		"Conversation roles must alternate user/assistant/user/assistant/...",
		"System message must be at the beginning.",
		"tool_choice requires --enable-auto-tool-choice",
		"n must be at least 1, got 0",
		"This model does not support image input",
		"Invalid grammar specification: unexpected token at line 1",
		"prompt_logprobs are not available when stream=True",
		"Unsupported value: 'messages[0].role' does not support 'system' with this model.",
		"Failed to parse the request body as JSON: messages[0]: expected value at line 1 column 120 ",
		"Rate limit reached for model m in organization o on tokens per min (TPM): Limit 6000, Used 5000, Requested 2000. Please try again in 10s.",
		"Too many tokens per day, please wait before trying again.",
		"The output tokens exceed the limit of this key",
		"prompt or messages must be given",
		"The request was rejected as its contents violate our policy",
	} {
		body, _ := json.Marshal(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "code": nil}})
		if got := complaint.Of(400, body, "org/small"); got != complaint.Other {
			t.Errorf("%q is about %d, want %d", message, got, complaint.Other)
		}
	}
	for code, status := range map[string]int{"rate_limit_exceeded": 400, "string_above_max_length": 400, "token_budget_exceeded": 403, "invalid_value": 422, "body_too_large": 413} {
		if got := complaint.Of(status, []byte(`{"error":{"message":"no","code":"`+code+`"}}`), "m"); got != complaint.Other {
			t.Errorf("%s is about %d, want %d", code, got, complaint.Other)
		}
	}
	if got := complaint.Of(500, []byte(`{"error":{"message":"CUDA out of memory","code":500}}`), "m"); got != complaint.Other {
		t.Errorf("an engine's fault is about %d, want %d", got, complaint.Other)
	}
}
