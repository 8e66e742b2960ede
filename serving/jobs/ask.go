package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// The bounds of an engine's answer to a batch, in bytes: for each row and for the whole of it, and the
// share of the budget of answers, as a divisor, that no answer exceeds. An error is read up to
// errorAnswer.
const (
	rowAnswer    = 4 << 20
	wholeAnswer  = 64 << 10
	answerShare  = 8
	errorAnswer  = 64 << 10
	firstReading = 4 << 10
)

// reply is an engine's answer to a batch.
type reply struct {
	rows   []any
	tokens int
	rest   any   // what it has beyond its rows
	held   int64 // bytes of the budget of answers
}

// ask has the worker's engine answer a batch. A [fault] is not the engine's. The caller gives back
// what the reply holds.
func (s *Service) ask(m *model, worker int, c *commit, b *batch) (r *reply, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("panic: %v", value)
		}
	}()
	w, option := &m.Workers[worker], m.entries[b.option].option
	end := func(error) {}
	if s.options.Begin != nil && w.Replicas != nil {
		var ok bool
		if end, ok = s.options.Begin(w.Replicas[option], m.Tasks[c.of.task].Name); !ok {
			return nil, errors.New("it takes no requests now")
		}
	}
	ctx, cancel := context.WithTimeoutCause(c.of.ctx, s.timeout(), ErrSlow)
	defer cancel()
	defer context.AfterFunc(s.quit, cancel)()
	r, err = s.exchange(ctx, m, w, option, c, b)
	var own *fault
	if asFault(err, &own) || c.of.ctx.Err() != nil {
		end(nil)
	} else {
		end(err)
	}
	return r, err
}

// ErrSlow is the failure of an engine that takes too long.
var ErrSlow = errors.New("it did not answer in time")

func (s *Service) timeout() time.Duration {
	if s.options.Timeout == nil {
		return 5 * time.Minute
	}
	return s.options.Timeout()
}

// exchange sends the batch and reads its answer.
func (s *Service) exchange(ctx context.Context, m *model, w *Worker, option int, c *commit, b *batch) (*reply, error) {
	name := w.Model
	if name == "" {
		name = m.Name
	}
	path, header, body, err := c.of.form.request(name, b.rows, m.masks[option])
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://worker"+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header
	response, err := w.transport(option).RoundTrip(r)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(response.Body, errorAnswer))
		if err != nil {
			return nil, fmt.Errorf("its answer broke off: %w", err)
		}
		return nil, c.of.refused(response.StatusCode, text, b)
	}
	text, err := s.read(response.Body, wholeAnswer+int64(len(b.rows))*rowAnswer)
	if err != nil {
		return nil, err
	}
	a := &reply{held: int64(cap(text))}
	if a.rows, a.tokens, a.rest, err = c.of.form.answer(response.Header, text, len(b.rows)); err != nil {
		s.memory.Give(a.held)
		return nil, err
	}
	more := weight(a.rows)
	if !s.memory.Take(more) {
		s.memory.Give(a.held)
		return nil, &fault{refusal(refusedMemory)}
	}
	a.held += more
	return a, nil
}

// read reads an engine's answer of so many bytes at most. Its memory is charged to the budget of answers
// as it grows; what the text has room for stays charged.
func (s *Service) read(from io.Reader, bound int64) (text []byte, err error) {
	most := int(min(bound, s.memory.Usage().Limit/answerShare))
	for {
		if len(text) == cap(text) {
			size := min(max(2*cap(text), firstReading), most+1)
			if !s.memory.Take(int64(size)) {
				err = &fault{refusal(refusedMemory)}
				break
			}
			s.memory.Give(int64(cap(text)))
			text = append(make([]byte, 0, size), text...)
		}
		var n int
		n, err = from.Read(text[len(text):cap(text)])
		if text = text[:len(text)+n]; len(text) > most {
			err = fmt.Errorf("its answer is longer than %d bytes", most)
			break
		}
		if err == io.EOF {
			return text, nil
		}
		if err != nil {
			err = fmt.Errorf("its answer broke off: %w", err)
			break
		}
	}
	s.memory.Give(int64(cap(text)))
	return nil, err
}

// transport leads to the engine of the option.
func (w *Worker) transport(option int) http.RoundTripper {
	if option < len(w.Transports) && w.Transports[option] != nil {
		return w.Transports[option]
	}
	return w.Transport
}

// refused is the error of an engine that has refused a batch.
func (w *work) refused(status int, body []byte, b *batch) error {
	switch status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		if r := w.form.fault(status, body, b.rows); r != nil {
			return &fault{r}
		}
	}
	text := strings.Join(strings.Fields(string(body[:min(len(body), 200)])), " ")
	return fmt.Errorf("it answered %d: %s", status, text)
}
