package traces

import (
	"os"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	want := []Record{{0, "", 4808, 10, 2}, {52 * time.Millisecond, "", 3180, 8, 3}, {52*time.Millisecond + 100, "", 1, 1, 4}}
	cases := map[string]string{
		"azure.csv": "TIMESTAMP,ContextTokens,GeneratedTokens\r\n" +
			"2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8\r\n2023-11-16 18:17:04.0319601,1,1",
		"azure_2024.csv": "\ufeffTIMESTAMP,ContextTokens,GeneratedTokens\n" +
			"2024-05-10 00:00:59.979960+00:00,4808,10\n2024-05-10 00:01:00.031960+00:00,3180,8\n2024-05-10 00:01:00.0319601+00:00,1,1\n",
		"arena.csv": "req_time_s,client,prompt_len,output_len\n0.0,13,4808,10\n0.052,2,3180,8\n0.0520001,3,1,1\n",
		"more.csv":  "id,output_len,prompt_len,client,req_time_s\n1,10,4808,x,0\n2,8,3180,x,52e-3\n3,1,1,x,0.0520001\n",
		"lines.jsonl": "\n" + `{"at_s":0.0,"prompt_tokens":4808,"output_tokens":10}` + "\n" +
			`{"at_s":0.052000000, "prompt_tokens":3180, "output_tokens":8}` + "\r\n" +
			`  {"output_tokens":1,"prompt_tokens":1,"at_s":0.0520001}`,
		"lines.txt": `{"at_s":0.0,"prompt_tokens":4808,"output_tokens":10}` + "\n" +
			`{"at_s":0.052,"prompt_tokens":3180,"output_tokens":8}` + "\n" + `{"at_s":0.0520001,"prompt_tokens":1,"output_tokens":1}`,
	}
	for name, text := range cases {
		trace, err := (Reading{}).Read(name, strings.NewReader(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if len(trace.Records) != len(want) {
			t.Errorf("%s: %d records", name, len(trace.Records))
			continue
		}
		for i, r := range trace.Records {
			if name == "lines.txt" {
				r.Line++ // it has no line above the first
			}
			if r != want[i] {
				t.Errorf("%s: record %d is %+v; want %+v", name, i, r, want[i])
			}
		}
	}
}

// Every broken trace is one line that names the file, the line, the column and
// what would be right.
func TestTraceFaults(t *testing.T) {
	const azure, arena = "TIMESTAMP,ContextTokens,GeneratedTokens\n", "req_time_s,client,prompt_len,output_len\n"
	cases := []struct{ name, text, want string }{
		{"a.csv", "", `a.csv:1: header "" is not known; TIMESTAMP,ContextTokens,GeneratedTokens or req_time_s,client,prompt_len,output_len, or lines of JSON in a .jsonl file, would be right`},
		{"a.csv", "when,what\n1,2\n", `a.csv:1: header "when,what" is not known;`},
		{"a.csv", azure, "a.csv: no requests; at least one would be right"},
		{"a.csv", azure + "2023-11-16 18:17:03,5,6\nyesterday,5,6\n", `a.csv:3: column TIMESTAMP: "yesterday" is not a time; 2023-11-16 18:17:03.9799600 would be right`},
		{"a.csv", azure + "2023-11-16 18:17:03,many,6\n", `a.csv:2: column ContextTokens: "many" is not a whole number; a whole number from 1 to 10000000 would be right`},
		{"a.csv", azure + "2023-11-16 18:17:03,5,6.5\n", `a.csv:2: column GeneratedTokens: "6.5" is not a whole number;`},
		{"a.csv", azure + "2023-11-16 18:17:03,5,0\n", "a.csv: no requests; at least one with tokens would be right, all 1 have none"},
		{"a.csv", azure + "2023-11-16 18:17:03,-5,1\n", "a.csv:2: column ContextTokens: -5 tokens;"},
		{"a.csv", azure + "2023-11-16 18:17:03,5\n", "a.csv:2: 2 columns; 3 would be right, TIMESTAMP,ContextTokens,GeneratedTokens"},
		{"a.csv", azure + "\n2023-11-16 18:17:03,5,6\n2023-11-16 18:17:02.5,5,6\n", "a.csv:4: column TIMESTAMP: 500ms before line 3; rows in order of time would be right"},
		{"a.csv", azure + "2023-11-16 18:17:03,\"5,6\n", `a.csv:2: character`},
		{"a.csv", azure + "1000-01-01 00:00:00,5,6\n2000-01-01 00:00:00,5,6\n", `a.csv:3: column TIMESTAMP: "2000-01-01 00:00:00" is too late; within 285 years of the first would be right`},
		{"b.csv", arena + "0,1,5,6\n-1,1,5,6\n", `b.csv:3: column req_time_s: "-1" is not a time; seconds since the start, such as 12.5 would be right`},
		{"b.csv", arena + "NaN,1,5,6\n", `b.csv:2: column req_time_s: "NaN" is not a time`},
		{"b.csv", arena + "1e30,1,5,6\n", `b.csv:2: column req_time_s: "1e30" is not a time`},
		{"b.csv", arena + "0,1,5,99999999\n", "b.csv:2: column output_len: 99999999 tokens;"},
		{"c.jsonl", "", "c.jsonl: no requests"},
		{"c.jsonl", `{"at_s":0,"prompt_tokens":5}`, "c.jsonl:1: column output_tokens: missing; a whole number from 1 to 10000000 would be right"},
		{"c.jsonl", `{"prompt_tokens":5,"output_tokens":5}`, "c.jsonl:1: column at_s: missing; seconds since the start, such as 12.5 would be right"},
		{"c.jsonl", "\n" + `{"at_s":"noon","prompt_tokens":5,"output_tokens":5}`, "c.jsonl:2: column at_s: string is not right here; seconds since"},
		{"c.jsonl", `{"at_s":0,"prompt_tokens":5.5,"output_tokens":5}`, "c.jsonl:1: column prompt_tokens: number 5.5 is not right here; a whole number"},
		{"c.jsonl", `{"at_s":-1,"prompt_tokens":5,"output_tokens":5}`, "c.jsonl:1: column at_s: -1 is not a time;"},
		{"c.jsonl", `{"at_s":0,"prompt_tokens":5,"output_tokens":-5,"model":"x"}`, `c.jsonl:1: column output_tokens: -5 tokens;`},
		{"c.jsonl", `{"timestamp":"x","input_length":5,"output_length":5}`, `c.jsonl:1: column timestamp: string is not right here; milliseconds since`},
		{"c.jsonl", `{"timestamp":5,"input_length":5}`, `c.jsonl:1: column output_length: missing;`},
		{"c.jsonl", `{"session_id":"a","delay":5,"input_length":5,"output_length":5}`, `c.jsonl:1: column timestamp: missing; milliseconds since the start, such as 3000 would be right`},
		{"c.jsonl", `{"session_id":"a","timestamp":5,"input_length":5,"output_length":5}` + "\n" + `{"session_id":"a","delay":"x","input_length":5,"output_length":5}`, `c.jsonl:2: column delay: string is not right here;`},
		{"c.jsonl", `{"timestamp":5000,"input_length":5,"output_length":5}` + "\n" + `{"timestamp":2000,"input_length":5,"output_length":5}`, `c.jsonl:2: column timestamp: 3s before line 1;`},
		{"a.csv", azure + "2023-11-16 18:17:03,,6\n", `a.csv:2: column ContextTokens: "" is not a whole number;`},
		{"a.csv", azure + "2023-11-16 18:17:03,nan,6\n", `a.csv:2: column ContextTokens: "nan" is not a whole number;`},
		{"a.csv", azure + "2023-11-16 18:17:03,1e30,6\n", `a.csv:2: column ContextTokens: "1e30" is not a whole number;`},
		{"a.csv", azure + strings.Repeat("1", 3<<20), `a.csv: after line 0: a line is longer than 1048576 bytes; a request a line would be right`},
		{"a.csv.gz", "\x1f\x8bnot compressed", `cannot read trace "a.csv.gz": gzip:`},
		{"c.jsonl", `{"at_s":0,"prompt_tokens":5`, "c.jsonl:1: unexpected EOF; an object such as"},
		{"c.jsonl", `{"at_s":0,"prompt_tokens":5,"output_tokens":5}}`, "c.jsonl:1: more than one object; one a line would be right"},
		{"c.jsonl", strings.Repeat(" ", 70_000), "c.jsonl:1: longer than 65536 bytes; an object such as"},
		{"c.jsonl", "[1]", "c.jsonl:1: found array; an object such as"},
		{"c.jsonl", "7", "c.jsonl:1: found number; an object such as"},
	}
	for _, c := range cases {
		_, err := (Reading{}).Read(c.name, strings.NewReader(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%q:\n got %v\nwant %s", c.text[:min(len(c.text), 200)], err, c.want)
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("more than one line: %v", err)
		}
	}
	if _, err := (Reading{}).Load("testdata/none.csv"); err == nil || !strings.Contains(err.Error(), "cannot read trace: open testdata/none.csv: no such file or directory; built in are arena and azure-code") {
		t.Errorf("a missing file: %v", err)
	}
}

// The recorded traces stay the unchanged copies that their README says.
func TestTraceFilesAreWhole(t *testing.T) {
	for file, size := range map[string]int64{
		"testdata/AzureLLMInferenceTrace_code.csv": 320_117, "testdata/arena_real_trace.csv": 42_737,
	} {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != size {
			t.Errorf("%s has %d bytes; want %d", file, info.Size(), size)
		}
	}
}

// The built-in traces are the files of testdata, whatever the working directory.
func TestBuiltInTraces(t *testing.T) {
	for name, file := range traceFiles {
		built, err := (Reading{}).Load(name)
		if err != nil {
			t.Fatal(err)
		}
		read, err := (Reading{}).Load(file)
		if err != nil {
			t.Fatal(err)
		}
		if built.Name != name || len(built.Records) != len(read.Records) || built.Records[99] != read.Records[99] {
			t.Errorf("%s is not %s", name, file)
		}
	}
}
