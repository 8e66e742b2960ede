package backend

import (
	"net/http"

	"gearshift/serving/openai/wire"
)

// decompress undoes the compression of an answer that was asked for without. One that it does not
// know stays, and so does the header that names it.
func decompress(r *http.Response) {
	if len(r.Header["Content-Encoding"]) == 0 || r.Body == nil || r.Body == http.NoBody {
		return
	}
	coding, ok := wire.CodingOf(r.Header["Content-Encoding"])
	if !ok || coding == "" {
		return
	}
	r.Body = wire.NewCodedReader(r.Body, coding)
	r.Uncompressed = true
	r.Header.Del("Content-Encoding")
	r.Header.Del("Content-Length")
}
