package wire_test

import (
	"strings"
	"testing"

	"gearshift/serving/openai/wire"
)

func TestClean(t *testing.T) {
	for path, want := range map[string]string{
		"": "", "/": "/", "*": "*", "//": "/", "///": "/",
		"/v1/chat/completions":          "/v1/chat/completions",
		"/v1/chat/completions/":         "/v1/chat/completions",
		"/v1/chat/completions///":       "/v1/chat/completions",
		"/v1//chat/completions":         "/v1/chat/completions",
		"//v1/chat/completions":         "/v1/chat/completions",
		"///v1///chat///completions/":   "/v1/chat/completions",
		"//v1/models":                   "/v1/models",
		"/v1/models/":                   "/v1/models",
		"/v1/models//":                  "/v1/models",
		"//healthz/":                    "/healthz",
		"/v1/responses//resp_1/cancel/": "/v1/responses/resp_1/cancel",
		"/v1/gearshift/route/x//end":    "/v1/gearshift/route/x/end",
		// Names of models.
		"/v1/models/org/model":           "/v1/models/org/model",
		"/v1/models/org/model/":          "/v1/models/org/model",
		"/v1//models/org/model":          "/v1/models/org/model",
		"/v1/models//org/model":          "/v1/models/org/model",
		"/v1/models/s3://bucket/model":   "/v1/models/s3://bucket/model",
		"//v1/models/s3://bucket/model/": "/v1/models/s3://bucket/model",
		"/models//org/model":             "/v1/models/org/model",
		"/models/s3://bucket/model":      "/v1/models/s3://bucket/model",
		"/v1/modelsx//a":                 "/v1/modelsx/a",
		// Without the base.
		"/chat/completions":     "/v1/chat/completions",
		"//chat/completions/":   "/v1/chat/completions",
		"/completions":          "/v1/completions",
		"/embeddings":           "/v1/embeddings",
		"/models":               "/v1/models",
		"/models/org/model":     "/v1/models/org/model",
		"/responses/resp_1":     "/v1/responses/resp_1",
		"/audio/transcriptions": "/v1/audio/transcriptions",
		// Not theirs.
		"/chat":               "/chat",
		"/chat/completions/x": "/chat/completions/x",
		"/completionsx":       "/completionsx",
		"/v1/../v1/models":    "/v1/../v1/models",
	} {
		if got := wire.CleanPath(path); got != want {
			t.Errorf("%q is read as %q, want %q", path, got, want)
		}
	}
}

func TestCleanPathsCostNothing(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/models/org/model", "/healthz", "/metrics"} {
		if n := testing.AllocsPerRun(100, func() { _ = wire.CleanPath(path) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

// FuzzClean holds that what is cleaned is clean, and stays a path.
func FuzzClean(f *testing.F) {
	for _, path := range []string{"/v1//chat/completions/", "//models/a//b", "/v1/models/s3://x/", "*", "/%2f//"} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		got := wire.CleanPath(path)
		if again := wire.CleanPath(got); again != got {
			t.Errorf("%q is read as %q, and that as %q", path, got, again)
		}
		if strings.HasPrefix(path, "/") && (!strings.HasPrefix(got, "/") || len(got) > 1 && strings.HasSuffix(got, "/")) {
			t.Errorf("%q is read as %q", path, got)
		}
	})
}
