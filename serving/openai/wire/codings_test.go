package wire_test

import (
	"errors"
	"io"
	"strings"
	"testing"

	"gearshift/serving/openai/wire"
)

func TestOf(t *testing.T) {
	for list, want := range map[string]string{"": "", "identity": "", "gzip": "gzip", " X-GZip ": "x-gzip", "identity,deflate": "deflate"} {
		if got, ok := wire.CodingOf([]string{list}); got != want || !ok {
			t.Errorf("%q: %q, %v", list, got, ok)
		}
	}
	for _, list := range [][]string{{"br"}, {"gzip, gzip"}, {"gzip", "deflate"}, {"gzip;q=1"}} {
		if got, ok := wire.CodingOf(list); ok {
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
		var corrupt *wire.CorruptError
		if _, err := io.ReadAll(wire.NewCodedReader(io.NopCloser(strings.NewReader("nonsense")), coding)); !errors.As(err, &corrupt) || corrupt.Coding != coding {
			t.Errorf("%s: error %v of nonsense", coding, err)
		}
		if _, err := io.ReadAll(wire.NewCodedReader(io.NopCloser(cut{strings.NewReader("\x1f")}), coding)); err != errCut {
			t.Errorf("%s: error %v of a body that breaks off", coding, err)
		}
	}
}
