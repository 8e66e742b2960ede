package complaint_test

import (
	"testing"

	"gearshift/serving/openai/complaint"
)

// The words of engines about a path, and about what requests name.
func TestAbsent(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   bool
	}{
		{"FastAPI", 404, `{"detail":"Not Found"}`, true},
		{"llama.cpp", 404, `{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}`, true},
		{"Go", 404, "404 page not found\n", true},
		{"nginx", 404, "<html><h1>404 Not Found</h1></html>", true},
		{"nothing", 404, "", true},
		{"gearshift engine", 404, `{"error":{"message":"there is no POST /v1/rerank","type":"invalid_request_error","param":null,"code":"unknown_url"}}`, true},
		{"OpenAI", 404, `{"error":{"message":"Invalid URL (POST /v1/rerank)","type":"invalid_request_error"}}`, true},
		{"express", 404, `{"message":"Cannot POST /v1/rerank"}`, true},
		{"a static server", 405, "<html>", true},
		{"FastAPI's method", 405, `{"detail":"Method Not Allowed"}`, true},
		{"llama.cpp without it", 501, `{"error":{"code":501,"message":"This server does not support reranking. Start it with ` + "`--reranking`" + `","type":"not_supported_error"}}`, true},
		{"Python's server", 501, "<!DOCTYPE HTML><p>Unsupported method ('POST').", true},
		{"a quoted path", 404, `{"message":"Path '/v1/rerank' not found"}`, true},

		{"a model", 404, "{\"error\":{\"message\":\"The model `org/small` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}", false},
		{"an earlier response", 404, `{"error":{"message":"Response with id 'resp_x' not found.","type":"invalid_request_error","param":"response_id","code":404}}`, false},
		{"one that a client named like the path", 404, `{"error":{"message":"Response with id '/v1/rerank' not found.","type":"invalid_request_error","param":null,"code":404}}`, false},
		{"one that a client named like a fault", 404, `{"error":{"message":"Response with id 'no route' not found.","code":404}}`, false},
		{"what a client named, by its place", 404, `{"error":{"message":"no such endpoint","param":"response_id","code":404}}`, false},
		{"Anthropic's model", 404, `{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}`, false},
		{"what the model cannot do", 501, `{"error":{"code":501,"message":"image input is not supported","type":"not_supported_error"}}`, false},
		{"a client's fault", 400, `{"detail":"Not Found"}`, false},
		{"an engine's fault", 500, "", false},
	} {
		if got := complaint.Absent(c.status, []byte(c.body), "/v1/rerank"); got != c.want {
			t.Errorf("%s: absent %v, want %v", c.name, got, c.want)
		}
	}
}
