package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"gearshift/serving/openai/inference"
	"gearshift/serving/work"
)

// Batch is a request that the router itself composes, and whose answer it takes apart: some
// requests of a job.
type Batch struct {
	Endpoint *Endpoint
	// Header is that of the client's request, as [Proxy.Forward] leaves it.
	Header http.Header
	// Compose writes the request to an engine that knows the model by the name. The header is what
	// the request has in addition.
	Compose func(model string) (path string, h http.Header, body []byte, err error)
	// Take reads the body of a success, which stays charged to the budget of answers if there is no
	// error. An error is a failure of the replica.
	Take func(h http.Header, body []byte) error
	// Most bounds the body of a success, in bytes.
	Most int64
}

// ErrMemory reports that the budget of answers has no room for the answer to a batch. No replica
// has failed.
var ErrMemory = errors.New("no memory for the answer")

// BatchRefused is the answer of a replica that finds fault with a batch.
type BatchRefused struct {
	Status int
	Body   []byte
}

// Error implements the error interface.
func (r *BatchRefused) Error() string {
	return fmt.Sprintf("it answered %d: %s", r.Status, strings.Join(strings.Fields(string(r.Body[:min(len(r.Body), 200)])), " "))
}

// Ask has a batch answered by the replica of the work, or by another of its variant as long as
// none has answered whole. It returns how the work is to end, the replicas that have failed, and
// why there is no answer: [ErrMemory], a [BatchRefused], or the failure of the last replica.
func (p *Proxy) Ask(ctx context.Context, b *Batch, w *work.Work, until time.Duration) (outcome work.Outcome, failed []int, err error) {
	now := p.Clock()
	call := Call{Endpoint: b.Endpoint, Work: w, Variant: w.Variant, Received: now, Until: until}
	d := &dispatch{Proxy: p, Call: call, batch: b, ctx: ctx, out: http.Header{}, decided: now}
	a := d.run()
	defer a.close()
	d.conclude(a)
	switch {
	case a.taken || errors.Is(a.err, ErrMemory):
		d.settled(a, work.Completed)
		if outcome = work.Completed; !a.taken {
			outcome, err = work.Refused, ErrMemory
		}
	case a.response == nil || a.response.StatusCode/100 == 2:
		if outcome, err = d.endOf(a.err).outcome, a.err; err == io.EOF {
			err = errors.New("its answer has nothing in it")
		}
	default:
		if a.first == nil && a.err == nil { // of one that is busy nothing has been read yet
			a.first, a.err = a.next()
			a.gather()
		}
		outcome, err = a.judge(), &BatchRefused{a.response.StatusCode, bytes.Clone(a.first)}
		if d.settled(a, outcome); outcome != work.Refused {
			err = errors.New(err.Error())
		}
	}
	return outcome, d.failed, err
}

// Get returns what a replica answers to the question for a path, of so many bytes at most, with the
// name by which its engine knows the model. It is no work of a model: it takes no place, and does not
// count for the replica's health. The answer stays charged to the budget of answers.
func (p *Proxy) Get(ctx context.Context, replica int, path func(model string) string, most int64) (text []byte, status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://replica"+path(p.Backends[replica].Named()), http.NoBody)
	if err != nil {
		return nil, 0, err
	}
	return p.own(replica, r, most)
}

// Post is Get of what a replica answers to a body of JSON that is sent to the path, with no client's
// credentials. Its place is the caller's to take.
func (p *Proxy) Post(ctx context.Context, replica int, path string, compose func(model string) ([]byte, error), most int64) (text []byte, status int, err error) {
	body, err := compose(p.Backends[replica].Named())
	if err != nil {
		return nil, 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://replica"+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	return p.own(replica, r, most)
}

// own sends a request of the router's own.
func (p *Proxy) own(replica int, r *http.Request, most int64) (text []byte, status int, err error) {
	response, err := p.Backends[replica].Transport.RoundTrip(r)
	if err == nil {
		defer response.Body.Close()
		text, err = p.whole(response.Body.Read, most)
	}
	if err != nil {
		if cause := context.Cause(r.Context()); cause != nil {
			err = cause
		}
		return nil, 0, err
	}
	return text, response.StatusCode, nil
}

// send makes the attempt.
func (b *Batch) send(a *answer, transport http.RoundTripper) {
	path, header, body, err := b.Compose(a.model)
	var out *http.Request
	if err == nil {
		out, err = http.NewRequestWithContext(a.ctx, http.MethodPost, "http://replica"+path, bytes.NewReader(body))
	}
	if a.err = err; err != nil {
		return
	}
	out.Header = b.Header.Clone()
	if out.Header == nil {
		out.Header = http.Header{}
	}
	for name := range out.Header { // of the client's own body
		if strings.HasPrefix(name, "Content-") || name == inference.HeaderLength {
			delete(out.Header, name)
		}
	}
	maps.Copy(out.Header, header)
	a.send(transport, out)
}

// unfit is [answer.unfit] of an answer that may be one to a batch. That is read whole, and taken apart.
func (d *dispatch) unfit(a *answer) (reason failure, unfit bool) {
	if reason, unfit = a.unfit(); unfit || d.batch == nil {
		return reason, unfit
	}
	if a.response.StatusCode/100 != 2 {
		return failedStatus, failing(a.status())
	}
	text, err := d.whole(a.rest, d.batch.Most)
	if a.err = io.EOF; err == nil {
		if err = d.batch.Take(a.response.Header, text); err == nil {
			a.taken = true
			return "", false
		}
		d.Memory.Give(int64(cap(text)))
	}
	if a.err = err; errors.Is(err, ErrMemory) {
		return "", false
	}
	return reasonFor(err), true
}

// rest reads the body from its beginning on, into a buffer that is not empty.
func (a *answer) rest(into []byte) (n int, err error) {
	if n = copy(into, a.first); n > 0 {
		a.first = a.first[n:]
		return n, nil
	}
	if a.err != nil {
		return 0, a.err
	}
	piece, err := a.fill(into)
	a.err = err
	return len(piece), err
}

// firstReading is the memory that an answer gets at first.
const firstReading = 4 << 10

// whole returns a body of so many bytes at most. Its memory is charged as it grows; what the text has
// room for stays charged.
func (p *Proxy) whole(read func([]byte) (int, error), bound int64) (text []byte, err error) {
	for most := int(bound); err == nil; {
		if len(text) == cap(text) {
			size := min(max(2*cap(text), firstReading), most+1)
			if !p.Memory.Take(int64(size)) {
				err = ErrMemory
				break
			}
			p.Memory.Give(int64(cap(text)))
			text = append(make([]byte, 0, size), text...)
		}
		var n int
		n, err = read(text[len(text):cap(text)])
		if text = text[:len(text)+n]; len(text) > most {
			err = fmt.Errorf("its answer is longer than %d bytes", most)
		}
	}
	if err == io.EOF {
		return text, nil
	}
	p.Memory.Give(int64(cap(text)))
	return nil, err
}
