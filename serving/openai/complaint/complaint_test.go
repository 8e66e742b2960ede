package complaint_test

import (
	"testing"

	"gearshift/serving/openai/complaint"
)

// The words of engines, by what they are about. All were asked for "org/small".
func TestOf(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   complaint.Kind
	}{
		// A model that is not there.
		{"OpenAI", 404, `{"error":{"message":"The model 'org/small' does not exist or you do not have access to it.","type":"invalid_request_error","param":null,"code":"model_not_found"}}`, complaint.Model},
		{"vLLM", 404, "{\"error\":{\"message\":\"The model `org/small` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}", complaint.Model},
		{"older vLLM", 404, "{\"object\":\"error\",\"message\":\"The model `org/small` does not exist.\",\"type\":\"NotFoundError\",\"param\":null,\"code\":404}", complaint.Model},
		{"Ollama", 404, `{"error":{"message":"model \"org/small\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, complaint.Model},
		{"Ollama's own", 404, `{"error":"model 'org/small' not found"}`, complaint.Model},
		{"FastAPI", 404, `{"detail":{"error":{"message":"Model 'org/small' not found. Available models: b","type":"model_not_found","code":404}}}`, complaint.Model},
		{"Ray Serve", 404, `{"detail":"Could not find model with id org/small"}`, complaint.Model},
		{"Gemini", 404, `{"error":{"code":404,"message":"models/org/small is not found for API version v1main","status":"NOT_FOUND"}}`, complaint.Model},
		{"Azure", 404, `{"error":{"code":"DeploymentNotFound","message":"The API deployment for this resource does not exist."}}`, complaint.Model},
		{"llama.cpp's router", 400, `{"error":{"code":400,"message":"model 'org/small' not found","type":"invalid_request_error"}}`, complaint.Model},
		{"LiteLLM", 400, "{\"error\":{\"message\":\"/chat/completions: Invalid model name passed in model=org/small. Call `/v1/models` to view available models for your key.\",\"type\":null,\"param\":\"model\",\"code\":\"400\"}}", complaint.Model},
		{"a code alone", 400, `{"error":{"message":"no","code":"model_not_found"}}`, complaint.Model},
		{"vLLM with 400", 400, "{\"error\":{\"message\":\"The model `org/small` does not exist.\"}}", complaint.Model},
		{"a key without the model", 403, `{"error":{"message":"no access","code":"model_not_found"}}`, complaint.Model},

		// What the request was sent to is not there.
		{"FastAPI's path", 404, `{"detail":"Not Found"}`, complaint.Path},
		{"llama.cpp's path", 404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, complaint.Path},
		{"Go's path", 404, "404 page not found\n", complaint.Path},
		{"nginx", 404, "<html><h1>404 Not Found</h1></html>", complaint.Path},
		{"nothing", 404, "", complaint.Path},
		{"a static server", 405, "<html>405 Not Allowed</html>", complaint.Path},
		{"an engine that is not made for it", 404, `{"error":{"message":"a classifier has no POST /v1/chat/completions","code":"unsupported_endpoint"}}`, complaint.Endpoint},
		{"Python's server", 501, "<!DOCTYPE HTML><p>Message: Unsupported method ('POST').", complaint.Path},
		{"an engine for vectors", 501, `{"error":{"code":501,"message":"This server does not support completions. Start it without --embeddings","type":"not_supported_error"}}`, complaint.Path},
		{"a model for chats", 404, `{"error":{"message":"This is a chat model and not supported in the v1/completions endpoint.","type":"invalid_request_error","param":"model","code":null}}`, complaint.Path},
		{"older vLLM's earlier response", 404, `{"error":{"message":"Response with id 'model' not found.","type":"invalid_request_error","param":null,"code":404}}`, complaint.Path},
		{"one named like the model", 404, `{"error":{"message":"Response with id 'org/small' not found.","param":null,"code":404}}`, complaint.Path},
		{"one that ends the quotation", 404, `{"error":{"message":"Response with id 'x' model org/small' not found.","param":null,"code":404}}`, complaint.Path},

		// What the client named is not there.
		{"a file", 404, `{"error":{"message":"File file-1 not found","type":"invalid_request_error","param":"messages[0].content[0].file_id","code":null}}`, complaint.Other},
		{"an earlier response", 404, `{"error":{"message":"Response with id 'the model' not found.","type":"invalid_request_error","param":"response_id","code":404}}`, complaint.Other},
		{"what the model cannot do", 501, `{"error":{"code":501,"message":"image input is not supported","type":"not_supported_error"}}`, complaint.Other},
		{"a client's words about the model", 400, `{"error":{"message":"cannot load image http://x/model org/small not found","type":"BadRequestError"}}`, complaint.Other},
		{"another model", 400, "{\"error\":{\"message\":\"The model `other` does not exist.\"}}", complaint.Other},
		{"a client's fault", 400, `{"error":{"message":"temperature must be non-negative"}}`, complaint.Other},
		{"a body that is too large", 413, "<html>413 Request Entity Too Large</html>", complaint.Other},
		{"too long an answer", 400, `{"error":{"message":"max_tokens is too large: 9000. This model supports at most 4096 completion tokens"}}`, complaint.Other},

		// A prompt that is too long.
		{"OpenAI's context", 400, `{"error":{"message":"no","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, complaint.Context},
		{"vLLM's context", 400, `{"error":{"message":"This model's maximum context length is 2048 tokens. However, you requested 9000 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`, complaint.Context},
		{"vLLM's prompt", 400, `{"object":"error","message":"The decoder prompt (length 9000) is longer than the maximum model length of 2048.","code":400}`, complaint.Context},
		{"llama.cpp's context", 400, `{"error":{"code":400,"message":"request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9412,"n_ctx":8192}}`, complaint.Context},
		{"SGLang's context", 400, `{"object":"error","message":"The input (9000 tokens) is longer than the model's context length (2048 tokens).","type":"BadRequestError","code":400}`, complaint.Context},
		{"TGI's context", 422, "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000 `inputs` tokens\",\"error_type\":\"validation\"}", complaint.Context},
		{"Ollama's context", 400, `{"error":{"message":"the input length exceeds the context length"}}`, complaint.Context},
		{"TensorRT-LLM's context", 400, `{"error":{"message":"The sum of prompt length (9000.0) and query length should not exceed max_num_tokens (8192)"}}`, complaint.Context},
		{"Anthropic's context", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 213462 tokens > 200000 maximum"}}`, complaint.Context},
		{"as an event", 400, `data: {"error":{"message":"This model's maximum context length is 2048 tokens.","code":400}}` + "\n\n", complaint.Context},
	} {
		if got := complaint.Of(c.status, []byte(c.body), "org/small"); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if !complaint.Worth(c.status) {
			t.Errorf("%s: status %d is not looked at", c.name, c.status)
		}
	}
}

func FuzzOf(f *testing.F) {
	f.Add(404, `{"error":{"error":{"error":{"error":{}}}}}`, "m")
	f.Add(400, `{"detail":[{"msg":"x"}]}`, "")
	f.Fuzz(func(_ *testing.T, status int, body, model string) {
		_ = complaint.Of(status, []byte(body), model).String()
	})
}
