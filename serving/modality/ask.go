package modality

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

// mostAnswer bounds the answer of an engine, in bytes.
const mostAnswer = 256 << 20

// ask has the worker's engine answer a batch. A [fault] is the batch's own.
func (s *Service) ask(m *model, worker int, c *commit, b *batch) (rows []any, err error) {
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
	rows, err = s.exchange(ctx, m, w, option, c, b)
	var own *fault
	if asFault(err, &own) || c.of.ctx.Err() != nil {
		end(nil)
	} else {
		end(err)
	}
	return rows, err
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
func (s *Service) exchange(ctx context.Context, m *model, w *Worker, option int, c *commit, b *batch) ([]any, error) {
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
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("its answer broke off: %w", err)
	case len(text) > mostAnswer:
		return nil, fmt.Errorf("its answer is longer than %d bytes", mostAnswer)
	case response.StatusCode != http.StatusOK:
		return nil, c.of.refused(response.StatusCode, text, b)
	}
	rows, tokens, rest, err := c.of.form.answer(response.Header, text, len(b.rows))
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	c.of.usage += tokens
	if c.of.first == nil {
		c.of.first = rest
	}
	m.mu.Unlock()
	return rows, nil
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
