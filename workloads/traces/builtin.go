package traces

import (
	"embed"
	"io/fs"
	"os"
)

// builtin are the recorded traces that are built in; testdata/README.md says
// where they are from and under which licence.
//
//go:embed testdata/AzureLLMInferenceTrace_code.csv testdata/arena_real_trace.csv
var builtin embed.FS

// traceFiles are the built-in traces by name; the forms of workloads name them.
var traceFiles = map[string]string{
	"azure-code": "testdata/AzureLLMInferenceTrace_code.csv",
	"arena":      "testdata/arena_real_trace.csv",
}

// openTrace opens a built-in trace by name, or a file by path. A built-in name
// comes first; "./name" is always a file.
func openTrace(ref string) (fs.File, error) {
	if file, ok := traceFiles[ref]; ok {
		return builtin.Open(file)
	}
	return os.Open(ref)
}
