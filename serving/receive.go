package serving

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/admission/limits"
	"gearshift/serving/openai/wire"
)

// The memory that a body gets before any of it has come, and once some has.
const (
	firstPiece  = 4 << 10
	secondPiece = 32 << 10
)

// receive takes in the body, bounded in size, time and memory. Its memory is charged as
// it arrives, until the buffer is released. The bounds of a body with a coding are those of what it
// unpacks to.
func (s *Server) receive(c *gin.Context, announced int64, coding string) (*wire.Buffer, *wire.Refusal) {
	if c.Request.Body == nil || c.Request.Body == http.NoBody {
		return wire.Wrap(nil), nil
	}
	most := s.settings().MaxBody
	p := intake{server: s, from: http.MaxBytesReader(c.Writer, c.Request.Body, most), announced: announced, most: most + 1}
	if coding != "" {
		p.from, p.announced, p.unpacking = http.MaxBytesReader(c.Writer, wire.NewCodedReader(io.NopCloser(p.from), coding), most), -1, wire.CodingMemory
	}
	p.hold = s.memory.Bodies.Begin(s.clock(), c.Writer)
	body, err := p.read()
	if err != nil {
		p.hold.Free()
		return nil, s.unreceived(c, err)
	}
	body.Charged(p.hold)
	return body, nil
}

// intake reads one body.
type intake struct {
	server    *Server
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
	return p.hold.Grow(p.server.clock(), int64(n), wire.Occupied(int(size))+p.unpacking)
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
func (s *Server) unreceived(c *gin.Context, err error) *wire.Refusal {
	var corrupt *wire.CorruptError
	switch {
	case tooLarge(err):
		return s.oversize()
	case errors.As(err, &corrupt):
		return wire.Bad(http.StatusBadRequest, "", "invalid_encoding", corrupt.Error())
	case errors.Is(err, limits.ErrSlow):
		c.Header("Connection", "close")
		s.memory.LogShortage("slow_body")
		return wire.Bad(http.StatusRequestTimeout, "", "body_too_slow",
			"the body was cut off: memory for requests is short, and it arrived more slowly than others; try again later, or send it faster")
	case errors.Is(err, limits.ErrFull):
		c.Header("Connection", "close")
		s.memory.LogShortage("bodies")
		return s.noMemory(c, "for request bodies")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return wire.Bad(http.StatusRequestTimeout, "", "body_timeout", fmt.Sprintf("the body did not arrive within %v", s.settings().BodyTimeout))
	default:
		return wire.Bad(http.StatusBadRequest, "", "incomplete_body", "cannot read the body: "+err.Error())
	}
}

// noMemory refuses a request for which there is no memory now.
func (s *Server) noMemory(c *gin.Context, what string) *wire.Refusal {
	c.Header("Retry-After", strconv.Itoa(int((s.settings().RetryAfter+time.Second-1)/time.Second)))
	return &wire.Refusal{Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Code: "out_of_memory",
		Message: "the router has no memory left " + what + "; try again later"}}
}

// atWork says that the request's connection is no longer one that waits.
func (s *Server) atWork(c *gin.Context) { s.clients.Begin(c.Request) }

// holdHeader has the header of an encrypted request count while it is at work. One that
// is not encrypted counted as it came.
func (s *Server) holdHeader(c *gin.Context) {
	if c.Request.TLS == nil {
		return
	}
	held, ok := s.clients.Hold(c.Request.Header)
	if !ok {
		c.Header("Connection", "close")
		s.refuse(c, s.noMemory(c, "for headers"))
		return
	}
	if held > 0 {
		defer s.clients.Release(held)
		c.Next()
	}
}
