package codings_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"gearshift/serving/openai/codings"
)

func TestOf(t *testing.T) {
	for list, want := range map[string]string{"": "", "identity": "", "gzip": "gzip", " X-GZip ": "x-gzip", "identity,deflate": "deflate"} {
		if got, ok := codings.Of([]string{list}); got != want || !ok {
			t.Errorf("%q: %q, %v", list, got, ok)
		}
	}
	for _, list := range [][]string{{"br"}, {"gzip, gzip"}, {"gzip", "deflate"}, {"gzip;q=1"}} {
		if got, ok := codings.Of(list); ok {
			t.Errorf("%q: %q", list, got)
		}
	}
}

// cut is a body whose connection breaks.
type cut struct{ io.Reader }

var errCut = errors.New("cut")

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if err == io.EOF {
		err = errCut
	}
	return n, err
}

// TestErrors tells a body that breaks off from one that is not what its coding says.
func TestErrors(t *testing.T) {
	for _, coding := range []string{"gzip", "deflate"} {
		var corrupt *codings.CorruptError
		if _, err := io.ReadAll(codings.NewReader(io.NopCloser(strings.NewReader("nonsense")), coding)); !errors.As(err, &corrupt) || corrupt.Coding != coding {
			t.Errorf("%s: error %v of nonsense", coding, err)
		}
		if _, err := io.ReadAll(codings.NewReader(io.NopCloser(cut{strings.NewReader("\x1f")}), coding)); err != errCut {
			t.Errorf("%s: error %v of a body that breaks off", coding, err)
		}
	}
}
