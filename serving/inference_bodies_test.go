package serving_test

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"gearshift/serving"
	"gearshift/serving/openai/inference"
)

const inferPath = "/v2/models/pair/infer"

// packed is the text, compressed.
func packed(t *testing.T, how, text string) string {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	switch how {
	case "zlib":
		w = zlib.NewWriter(&b)
	case "flate":
		w, _ = flate.NewWriter(&b, flate.BestSpeed)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestBodiesOfInference: jobs of the Open Inference Protocol come as its clients send them, from
// curl as a form and from Triton's compressed; a browser's form is refused all the same.
func TestBodiesOfInference(t *testing.T) {
	const text = `{"inputs":[{"name":"image","datatype":"UINT8","shape":[2],"data":[1,2]},{"name":"audio","datatype":"UINT8","shape":[2],"data":[1,2]}]}`
	const form = "application/x-www-form-urlencoded"
	binary, length := binaryRequest(2)
	zipped := packed(t, "gzip", text)
	g := newRig(t, nil, withPair, func(o *serving.Options) { o.Config.MaxBody = 1 << 20 })
	for name, c := range map[string]struct {
		body   string
		header []string
		want   string
	}{
		"curl -d":                {text, []string{"Content-Type", form}, "200"},
		"with a charset":         {text, []string{"Content-Type", form + "; charset=UTF-8"}, "200"},
		"a page's form":          {text, []string{"Content-Type", form, "Origin", "http://example.com"}, "415 unsupported_media_type"},
		"another site's form":    {text, []string{"Content-Type", form, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, "403 cross_origin"},
		"a page without origin":  {text, []string{"Content-Type", form, "Sec-Fetch-Site", "none"}, "415 unsupported_media_type"},
		"a page by its mode":     {text, []string{"Content-Type", form, "Sec-Fetch-Mode", "navigate"}, "415 unsupported_media_type"},
		"gzip":                   {zipped, []string{"Content-Encoding", "gzip"}, "200"},
		"gzip by its old name":   {zipped, []string{"Content-Encoding", "X-GZip"}, "200"},
		"gzip of a form":         {zipped, []string{"Content-Encoding", "gzip", "Content-Type", form}, "200"},
		"deflate":                {packed(t, "zlib", text), []string{"Content-Encoding", "deflate"}, "200"},
		"deflate without frame":  {packed(t, "flate", text), []string{"Content-Encoding", "deflate"}, "200"},
		"binary and gzip":        {packed(t, "gzip", binary), []string{"Content-Encoding", "gzip", "Content-Type", "application/octet-stream", inference.HeaderLength, strconv.Itoa(length)}, "200"},
		"identity":               {text, []string{"Content-Encoding", "identity"}, "200"},
		"another coding":         {text, []string{"Content-Encoding", "br"}, "415 unsupported_encoding"},
		"coded twice":            {packed(t, "gzip", zipped), []string{"Content-Encoding", "gzip, gzip"}, "415 unsupported_encoding"},
		"no gzip":                {text, []string{"Content-Encoding", "gzip"}, "400 invalid_encoding"},
		"cut gzip":               {zipped[:len(zipped)-9], []string{"Content-Encoding", "gzip"}, "400 invalid_encoding"},
		"gzip and more":          {zipped + "more", []string{"Content-Encoding", "gzip"}, "400 invalid_encoding"},
		"a bomb":                 {packed(t, "gzip", strings.Repeat(" ", 64<<20)), []string{"Content-Encoding", "gzip"}, "413 body_too_large"},
		"a bomb of many members": {strings.Repeat(packed(t, "gzip", ""), 1<<16), []string{"Content-Encoding", "gzip"}, "413 body_too_large"},
	} {
		w := g.do("POST", inferPath, c.body, c.header...)
		got := strconv.Itoa(w.Code)
		if _, code, found := strings.Cut(w.Body.String(), `"code":"`); found {
			code, _, _ = strings.Cut(code, `"`)
			got += " " + code
		}
		if got != c.want {
			t.Errorf("%s: %d %.200s, want %s", name, w.Code, w.Body, c.want)
		}
	}
	if w := g.do("POST", chat, zipped, "Content-Encoding", "gzip"); w.Code != http.StatusUnsupportedMediaType {
		t.Errorf("a compressed chat: %d %s", w.Code, w.Body)
	}
}

// TestUnpackedBodiesAreCharged: what a body unpacks to counts as memory for bodies while it comes, and
// no longer.
func TestUnpackedBodiesAreCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil, withPair, scarce(4*mib))
		c := wired(t, g)()
		if _, err := io.WriteString(c, head("POST "+inferPath+" HTTP/1.1", "Transfer-Encoding: chunked", "Content-Encoding: gzip")); err != nil {
			t.Fatal(err)
		}
		answer := make(chan int, 1)
		go func() {
			if r, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				answer <- r.StatusCode
			}
		}()
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = io.WriteString(w, strings.Repeat(" ", mib/2))
		_ = w.Flush()
		fmt.Fprintf(c, "%x\r\n%s\r\n", b.Len(), b.Bytes())
		synctest.Wait()
		if held, err := strconv.ParseFloat(g.memory("large_bodies"), 64); err != nil || held < mib/2 {
			t.Errorf("%d bytes that unpack to %d hold %v", b.Len(), mib/2, held)
		}
		b.Reset()
		_ = w.Close()
		fmt.Fprintf(c, "%x\r\n%s\r\n0\r\n\r\n", b.Len(), b.Bytes())
		if status := <-answer; status != http.StatusBadRequest {
			t.Errorf("status %d of a body of spaces", status)
		}
		synctest.Wait()
		if held := g.memory("large_bodies"); held != "0" {
			t.Errorf("%s bytes are held in the end", held)
		}
	})
}
