package serving

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admission"
	"gearshift/serving/admission/limits"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// call is a client's request, understood.
type call struct {
	*wire.Request
	fleet   fleet.Request // without its arrival
	variant int           // Auto, or pinned
	account *Account      // nil if none is kept
	prompt  wire.Prompt   // before its correction
	onTrial bool          // the predictor on trial has predicted its quality
	scored  bool          // its answer may be scored,
	owner   string        // by this tenant
	id      string        // or its request's ID
	ticket  uint64        // by which feedback remembers it; 0 if it does not
}

// receiver takes in the bodies of requests, bounded in size, time and memory.
type receiver struct {
	settings func() *Config
	clock    work.Clock
	memory   *admission.Memory
	reply    *proxy.Writer
}

// bound gives the body its time, also where no handler reads it: the connection
// could not be used again before its end.
func (x *receiver) bound(c *gin.Context) {
	// A chunked request may have had a length too, which net/http drops, and by
	// which a proxy on the way may have taken its end to be elsewhere. What
	// follows on the connection is then no request (RFC 9112, 6.1).
	if len(c.Request.TransferEncoding) > 0 {
		c.Header("Connection", "close")
	}
	if c.Request.Body != nil && c.Request.Body != http.NoBody {
		// A recorder in place of a connection has no deadlines; nothing is lost.
		_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Now().Add(x.settings().BodyTimeout))
	}
}

// formType is the media type of forms with files.
const formType = "multipart/form-data"

// tensorType is the media type of tensors as binary data.
const tensorType = "application/octet-stream"

// formOfCurl is the media type that curl -d gives a body of which nothing is said.
const formOfCurl = "application/x-www-form-urlencoded"

// taken lists what an endpoint takes beside plain JSON.
type taken struct {
	// media is the other type of its bodies; empty if there is none.
	media string
	// inference says that its clients speak the Open Inference Protocol. Their bodies may be
	// compressed, and their commands have curl call JSON a form.
	inference bool
}

// readable refuses a body that is not called JSON, or of the other type where one is taken. A page
// may send such a body to any server, without asking first. Of other clients than browsers
// one without a type is taken to be JSON, and a form is where their protocol has none.
func readable(r *http.Request, t taken) *wire.Refusal {
	kind := wire.Field(r.Header, "Content-Type")
	if kind == "" && (r.ContentLength == 0 || !access.SentByPage(r)) {
		return nil
	}
	media, err := wire.MediaType(kind)
	if err == nil && (media == "application/json" || strings.HasSuffix(media, "+json") || t.media != "" && media == t.media || t.inference && media == formOfCurl && !access.SentByPage(r)) {
		return nil
	}
	want := "application/json"
	if t.media != "" {
		want = t.media + " or " + want
	}
	return wire.Bad(http.StatusUnsupportedMediaType, "", "unsupported_media_type", fmt.Sprintf("content type %q; it must be %s", kind, want))
}

// codingOf returns how the body is compressed; empty if it is not.
func codingOf(r *http.Request, t taken) (string, *wire.Refusal) {
	coding, ok := wire.CodingOf(r.Header["Content-Encoding"])
	if ok && (coding == "" || t.inference) {
		return coding, nil
	}
	want := "the body must not be compressed"
	if t.inference {
		want = "want gzip, deflate or none"
	}
	return "", wire.Bad(http.StatusUnsupportedMediaType, "", "unsupported_encoding", fmt.Sprintf("content encoding %q; %s", strings.Join(r.Header["Content-Encoding"], ", "), want))
}

// read takes in the body, bounded in size and time. It is JSON, or what else is taken.
func (x *receiver) read(c *gin.Context, t taken) (*wire.Buffer, *wire.Refusal) {
	if fault := readable(c.Request, t); fault != nil {
		return nil, fault
	}
	coding, fault := codingOf(c.Request, t)
	if fault != nil {
		return nil, fault
	}
	size := c.Request.ContentLength
	if size > x.settings().MaxBody {
		return nil, x.oversize()
	}
	body, fault := x.receive(c, size, coding)
	if fault != nil {
		return nil, fault
	}
	// From here on only the client's leaving ends the connection.
	_ = http.NewResponseController(c.Writer).SetReadDeadline(time.Time{})
	x.reply.Waits(c)
	return body, nil
}

// take has the body of the request handled, and refuses the request if a fault is found in it.
func (x *receiver) take(c *gin.Context, t taken, handle func(*wire.Buffer) *wire.Refusal) {
	body, fault := x.read(c, t)
	if fault == nil {
		defer body.Release()
		fault = handle(body)
	}
	if fault != nil {
		x.reply.Refuse(c, fault)
	}
}

// The memory that a body gets before any of it has come, and once some has.
const (
	firstPiece  = 4 << 10
	secondPiece = 32 << 10
)

// receive takes in the body, bounded in size, time and memory. Its memory is charged as
// it arrives, until the buffer is released. The bounds of a body with a coding are those of what it
// unpacks to.
func (x *receiver) receive(c *gin.Context, announced int64, coding string) (*wire.Buffer, *wire.Refusal) {
	if c.Request.Body == nil || c.Request.Body == http.NoBody {
		return wire.Wrap(nil), nil
	}
	most := x.settings().MaxBody
	p := intake{clock: x.clock, from: http.MaxBytesReader(c.Writer, c.Request.Body, most), announced: announced, most: most + 1}
	if coding != "" {
		p.from, p.announced, p.unpacking = http.MaxBytesReader(c.Writer, wire.NewCodedReader(io.NopCloser(p.from), coding), most), -1, wire.CodingMemory
	}
	p.hold = x.memory.Bodies.Begin(x.clock(), c.Writer)
	body, err := p.read()
	if err != nil {
		p.hold.Free()
		return nil, x.unreceived(c, err)
	}
	body.Charged(p.hold)
	return body, nil
}

// intake reads one body.
type intake struct {
	clock     work.Clock
	from      io.Reader
	hold      *limits.Body
	announced int64 // the size; below 1 if it is not known
	unpacking int64 // memory that undoing its compression takes
	most      int64 // bytes that there may be, and one
}

// read returns the whole body, of which the caller holds the buffer.
func (p *intake) read() (*wire.Buffer, error) {
	size := int64(firstPiece)
	if p.announced > 0 {
		size = min(size, p.announced)
	}
	if err := p.charge(0, size); err != nil {
		return nil, err
	}
	b := wire.NewBuffer(int(size))
	n, err := p.fill(b)
	if whole := p.hold.Whole(); !whole {
		err = limits.ErrSlow
	}
	if err != nil {
		b.Release()
		return nil, err
	}
	b.Truncate(n)
	return b, nil
}

// fill reads into the buffer, which grows, and returns how many bytes there are.
func (p *intake) fill(b *wire.Buffer) (n int, err error) {
	for err == nil && int64(n) != p.announced {
		if size := int64(len(b.Bytes())); p.next(n, size) > size {
			size = p.next(n, size)
			if err := p.charge(n, size); err != nil {
				return n, err
			}
			b.Grow(int(size), n)
		}
		var m int
		m, err = p.from.Read(b.Bytes()[n:])
		n += m
		p.hold.Arrived(int64(n))
	}
	if err == io.EOF && int64(n) < p.announced {
		return n, io.ErrUnexpectedEOF
	}
	if err == io.EOF || int64(n) == p.announced {
		err = nil
	}
	return n, err
}

// charge charges memory of the size, of which n bytes are full.
func (p *intake) charge(n int, size int64) error {
	return p.hold.Grow(p.clock(), int64(n), wire.Occupied(int(size))+p.unpacking)
}

// next is the size that the memory should have, of which n bytes are full: more once
// some of a longer body has come, and a multiple when it is full.
func (p *intake) next(n int, size int64) int64 {
	switch known := p.announced > 0; {
	case n > 0 && size < secondPiece && known:
		return min(p.announced, secondPiece)
	case int64(n) < size:
		return size
	case known:
		return min(p.announced, 16*size)
	default:
		return min(p.most, 2*size)
	}
}

// unreceived is the refusal of a body that could not be read.
func (x *receiver) unreceived(c *gin.Context, err error) *wire.Refusal {
	var corrupt *wire.CorruptError
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return x.oversize()
	case errors.As(err, &corrupt):
		return wire.Bad(http.StatusBadRequest, "", "invalid_encoding", corrupt.Error())
	case errors.Is(err, limits.ErrSlow):
		c.Header("Connection", "close")
		x.memory.LogShortage("slow_body")
		return wire.Bad(http.StatusRequestTimeout, "", "body_too_slow",
			"the body was cut off: memory for requests is short, and it arrived more slowly than others; try again later, or send it faster")
	case errors.Is(err, limits.ErrFull):
		c.Header("Connection", "close")
		x.memory.LogShortage("bodies")
		return x.memory.Refusal(c.Writer.Header(), "request bodies")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return wire.Bad(http.StatusRequestTimeout, "", "body_timeout", fmt.Sprintf("the body did not arrive within %v", x.settings().BodyTimeout))
	default:
		return wire.Bad(http.StatusBadRequest, "", "incomplete_body", "cannot read the body: "+err.Error())
	}
}

func (x *receiver) oversize() *wire.Refusal {
	return wire.Bad(http.StatusRequestEntityTooLarge, "", "body_too_large", fmt.Sprintf("the body exceeds the limit of %d bytes", x.settings().MaxBody))
}

// parse reads a body as what its header calls it.
func parse(h http.Header, body []byte) (*wire.Request, error) {
	if kind := wire.Field(h, "Content-Type"); strings.HasPrefix(kind, "m") || strings.HasPrefix(kind, "M") { // no JSON
		_, params, _ := mime.ParseMediaType(kind)
		return wire.ParseForm(body, params["boundary"])
	}
	return wire.ParseRequest(body)
}

// rewritten returns the model in the header that replaces the body's; empty if it names none.
func rewritten(h http.Header) string {
	return cmp.Or(wire.Field(h, "X-Llm-D-Model-Name-Rewrite"), wire.Field(h, "X-Gateway-Model-Name-Rewrite"))
}

// parsed returns the request of a body, and notes in its account what it asks for.
func parsed(c *gin.Context, body *wire.Buffer) (call, *wire.Refusal) {
	r, err := parse(c.Request.Header, body.Bytes())
	if err != nil {
		return call{}, wire.RefusalOf(err)
	}
	r.In(body)
	r.Rename(rewritten(c.Request.Header))
	k := call{Request: r, account: accountOf(c.Request.Context())}
	if k.account != nil {
		k.account.understood(r.Model)
	}
	return k, nil
}
