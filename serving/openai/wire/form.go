package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"mime"
	"net/textproto"
	"strings"
)

// ParseForm reads a request that is a form (multipart/form-data) with parts between
// boundaries, such as one with a file: the fields that [ParseRequest] reads of an object.
// Everything else in it is the upstream's business. The request keeps body, which must not
// change.
func ParseForm(body []byte, boundary string) (*Request, error) {
	if boundary == "" {
		return nil, badForm("its content type has no boundary")
	}
	r := &Request{Body: body, form: true}
	mark := []byte("--" + boundary)
	at := 0
	if !bytes.HasPrefix(body, mark) {
		if at = bytes.Index(body, append([]byte("\r\n"), mark...)); at < 0 {
			return nil, badForm("the boundary that its content type names is not in it")
		}
		at += 2
	}
	mark = append([]byte("\r\n"), mark...)
	at += len(mark) - 2
	for parts := 0; ; parts++ {
		if parts > maxFormParts {
			return nil, badForm(fmt.Sprintf("it has more than %d parts", maxFormParts))
		}
		line, ok := lineAfter(body, at)
		if !ok {
			return nil, badForm("it ends within a part")
		}
		if bytes.HasPrefix(body[at:], []byte("--")) {
			return r, nil
		}
		length := bytes.Index(body[line:], mark)
		if bytes.HasPrefix(body[line:], mark[2:]) { // a part of nothing
			length = -2
		}
		if length == -1 {
			return nil, badForm("it ends within a part")
		}
		if length > 0 {
			if err := r.part(line, line+length); err != nil {
				return nil, err
			}
		}
		at = line + length + len(mark)
	}
}

// lineAfter is where the line after the boundary that ends at the place begins. After the
// last boundary there need be none.
func lineAfter(body []byte, at int) (int, bool) {
	if bytes.HasPrefix(body[at:], []byte("--")) {
		return len(body), true
	}
	for ; at < len(body) && (body[at] == ' ' || body[at] == '\t'); at++ {
	}
	return at + 2, bytes.HasPrefix(body[at:], []byte("\r\n"))
}

// maxFormParts bounds the parts of a form. Those that engines take have a dozen.
const maxFormParts = 1000

// partHeader bounds the header of a part, in bytes.
const partHeader = 16 << 10

// part reads one part of a form.
func (r *Request) part(start, end int) error {
	part := r.Body[start:end]
	header := bytes.Index(part[:min(len(part), partHeader)], []byte("\r\n\r\n"))
	if header < 0 {
		return badForm("a part has no header, or one that is too long")
	}
	h, err := textproto.NewReader(bufio.NewReader(bytes.NewReader(part[:header+4]))).ReadMIMEHeader()
	if err != nil {
		return badForm("the header of a part cannot be read")
	}
	kind, params, err := mime.ParseMediaType(h.Get("Content-Disposition"))
	if err != nil || kind != "form-data" {
		return badForm("a part is not form-data with a name")
	}
	at := span{start + header + 4, end}
	value := r.Body[at.start:at.end]
	switch _, file := params["filename"]; {
	case file:
		r.media += max(1, len(value)/audioBytes)
	case params["name"] == "model":
		return r.named(string(value), at)
	case params["name"] == "stream":
		r.Stream = string(value) == "true" || string(value) == "True" || string(value) == "1"
	case strings.EqualFold(params["name"], "model"), strings.EqualFold(params["name"], "stream"):
		return ambiguous(params["name"], strings.ToLower(params["name"]))
	}
	return nil
}

func badForm(why string) error {
	return Error{Type: InvalidRequest, Code: "invalid_form", Message: "malformed multipart form: " + why}
}
