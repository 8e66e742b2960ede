//go:build !serveonly

package quality

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"testing"
)

// The picture is one well-formed SVG.
func TestPicture(t *testing.T) {
	drawn, err := fit(t, set(300, 1, true)).Report.Picture()
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(drawn, []byte(`role="img"`)); n != 2 {
		t.Errorf("%d figures", n)
	}
	in := xml.NewDecoder(bytes.NewReader(drawn))
	for {
		if _, err := in.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (&Report{}).Picture(); err == nil {
		t.Error("a report of nothing is drawn")
	}
}
