package wire

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

// Requests of agents, with tools, past calls and their results, against the same rendered by a
// chat template and counted by real vocabularies; see serving/openai/tokens/testdata/texts.mjs.
func TestPromptsOfAgentsAreNearRealCounts(t *testing.T) {
	f, err := os.Open("../tokens/testdata/requests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var one struct {
			Class  string
			Body   json.RawMessage
			Tokens map[string]int
		}
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		var indented, decoded bytes.Buffer
		if err := json.Indent(&indented, one.Body, "", "  "); err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(one.Body); i++ { // as Python writes it: a space after what separates, in strings too
			if decoded.WriteByte(one.Body[i]); (one.Body[i] == ',' || one.Body[i] == ':') && i+1 < len(one.Body) && one.Body[i+1] == '"' && one.Body[i-1] != '\\' {
				decoded.WriteByte(' ')
			}
		}
		for form, body := range map[string][]byte{"compact": one.Body, "indented": indented.Bytes(), "spaced": decoded.Bytes()} {
			r, err := ParseRequest(body)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Prompt().Tokens()
			for vocabulary, want := range one.Tokens {
				ratio := float64(got) / float64(want)
				t.Logf("%s, %s: %d tokens, %s has %d: %.2f", one.Class, form, got, vocabulary, want, ratio)
				if math.Abs(math.Log(ratio)) > math.Log(1.25) {
					t.Errorf("%s, %s: %d tokens, %s has %d", one.Class, form, got, vocabulary, want)
				}
			}
		}
	}
}

// What a model is not given is no part of the prompt, and what is has its share, wherever an
// API has it.
func TestWhatIsInThePrompt(t *testing.T) {
	const chat = messageMarks + answerMarks
	data := "data:image/png;base64," + base64.StdEncoding.EncodeToString(make([]byte, 30_000))
	sound := base64.StdEncoding.EncodeToString(make([]byte, 12_800))
	for _, c := range []struct {
		name, body  string
		text, fixed int
	}{
		{"nothing", `{}`, 0, 0},
		{"token ids", `{"prompt":[15496, 995, 0]}`, 0, 3},
		{"lists of token ids", `{"input":[[1,2],[3]]}`, 0, 3},
		{"deeper lists are no prompt", `{"prompt":[[[1,2],"a b"]]}`, 2, 0},
		{"prompts", `{"prompt":["one two","three"],"suffix":"four"}`, 4, 0},
		{"names of things", `{"model":"a b c","user":"d e f","metadata":{"task":"g h"},"stop":["i j"],"safety_identifier":"k l","messages":[{"role":"user","content":"one two"}]}`, 2, chat},
		{"ids of calls", `{"messages":[{"role":"tool","tool_call_id":"call abc def","content":"four words it says"}]}`, 4, chat},
		{"nulls", `{"messages":[{"role":"assistant","content":null,"tool_calls":null}],"tools":null,"system":null}`, 0, chat},
		{"parts of text", `{"messages":[{"role":"user","content":[{"type":"text","text":"what is this"}]}]}`, 3, chat},
		{"items of responses", `{"instructions":"be brief","input":[{"role":"user","content":[{"type":"input_text","text":"what is this"}]},{"type":"function_call_output","call_id":"c","output":"four words it says"}]}`, 9, chat + 2*messageMarks},
		{"a system prompt beside the messages", `{"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"yes"}]}`, 3, chat + messageMarks},
		{"results of tools in parts", `{"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"a b c"}]}]}]}`, 3, chat},
		{"a query with each document", `{"query":"one two","documents":["three",{"text":"four five"}],"top_n":1}`, 7, 0},
		{"an image", `{"messages":[{"role":"user","content":[{"type":"text","text":"describe"},{"type":"image_url","image_url":{"url":"` + data + `"}}]}]}`, 1, chat + imageHigh},
		{"an image of low detail", `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"detail":"low","url":"http://a/b"}}]}]}`, 0, chat + imageLow},
		{"an image in the Responses API", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"` + data + `","detail":"low"}]}]}`, 0, chat + imageLow},
		{"an image by source", `{"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}}]}]}`, 0, chat + imageHigh},
		{"images beside the content", `{"messages":[{"role":"user","content":"see","images":["AAAA","AAAA"]}]}`, 1, chat + 2*imageHigh},
		{"sound", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"data":"` + sound + `","format":"wav"}}]}]}`, 0, chat + 10},
		{"compressed sound", `{"messages":[{"role":"user","content":[{"type":"input_audio","input_audio":{"format":"mp3","data":"` + sound + `"}}]}]}`, 0, chat + 20},
		{"a file", `{"input":[{"role":"user","content":[{"type":"input_file","file_data":"` + sound + `"}]}]}`, 0, chat + 533},
		{"a file elsewhere", `{"input":[{"role":"user","content":[{"type":"input_file","file_id":"file-1"}]}]}`, 0, chat + fileShare},
		{"a document", `{"messages":[{"role":"user","content":[{"source":{"type":"base64","data":"` + sound + `"},"type":"document"}]}]}`, 0, chat + 533},
		{"no schema", `{"messages":[{"role":"user","content":"yes"}],"response_format":{"type":"json_object"}}`, 1, chat},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseRequest([]byte(c.body))
			if err != nil {
				t.Fatal(err)
			}
			p := r.Prompt()
			if p.Text != c.text || p.Fixed() != c.fixed {
				t.Errorf("%d tokens of text, %d others; want %d, %d", p.Text, p.Fixed(), c.text, c.fixed)
			}
			if again := PromptOf([]byte(c.body)); again.Tokens() != p.Tokens() {
				t.Errorf("%d tokens by the bytes alone, %d by the request", again.Tokens(), p.Tokens())
			}
		})
	}
}

// What used to count as a token or none: text without spaces, tools, calls, schemas.
func TestLongPromptsWithoutSpaces(t *testing.T) {
	tool := `{"type":"function","function":{"name":"f","description":"` + strings.Repeat("words ", 150) + `","parameters":{"type":"object"}}}`
	for _, c := range []struct {
		name, body  string
		least, most int
	}{
		{"Chinese", `{"messages":[{"role":"user","content":"` + strings.Repeat("请帮我写一封邮件给客户", 545) + `"}]}`, 4000, 7000},
		{"Chinese in ASCII", `{"messages":[{"role":"user","content":"` + strings.Repeat(`\u8bf7\u5e2e\u6211\u5199`, 1500) + `"}]}`, 4000, 7000},
		{"minified JSON", `{"messages":[{"role":"user","content":"{` + strings.Repeat(`\"k12\":[1,2],`, 1500) + `}"}]}`, 9000, 16000},
		{"tools", `{"messages":[{"role":"user","content":"hi"}],"tools":[` + strings.Repeat(tool+",", 29) + tool + `]}`, 4500, 6500},
		{"functions", `{"messages":[{"role":"user","content":"hi"}],"functions":[` + strings.Repeat(tool+",", 29) + tool + `]}`, 4500, 6500},
		{"past calls", `{"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"` + strings.Repeat(`{\"city\": \"Oslo\"} `, 200) + `"}}]}]}`, 1000, 1800},
		{"past calls in blocks", `{"messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"f","input":{"list":[` + strings.Repeat(`{"city":"Oslo"},`, 199) + `{}]}}]}]}`, 700, 1600},
		{"a schema", `{"messages":[{"role":"user","content":"hi"}],"response_format":{"type":"json_schema","json_schema":` + tool + `}}`, 150, 230},
		{"a schema of the Responses API", `{"input":"hi","text":{"format":{"type":"json_schema","schema":` + tool + `}}}`, 150, 230},
	} {
		r, err := ParseRequest([]byte(c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if n := r.Prompt().Tokens(); n < c.least || n > c.most {
			t.Errorf("%s: %d tokens, want %d to %d", c.name, n, c.least, c.most)
		}
	}
}

func TestPromptAllocatesNothing(t *testing.T) {
	r, err := ParseRequest([]byte(`{"messages":[{"role":"user","content":[{"type":"text","text":"a b 中文"},{"type":"image_url","image_url":{"url":"x"}}]}],"tools":[{"name":"f"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { r.Prompt() }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}
