package replay

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"time"

	"gearshift/serving/loadgen"
	"gearshift/serving/wire"
	"gearshift/workloads"
)

// outcome is one answer as the client saw it. Times are from the moment at
// which the request was due.
type outcome struct {
	task    int
	variant string
	tokens  int
	first   time.Duration // until some content
	total   time.Duration
	late    time.Duration // by which the request left after it was due
	ended   time.Duration // since the replay's start
	fault   string        // empty: the answer came whole
}

// one sends a request and enters how it went. Requests that the end of the
// whole replay cut short are left out.
func (r *run) one(ctx context.Context, a workloads.Arrival) {
	o := outcome{task: a.Task, late: time.Since(r.start) - a.At}
	timed, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if err := r.exchange(timed, a, &o); err != nil {
		o.fault = fault(err)
	}
	o.ended = time.Since(r.start)
	if ctx.Err() != nil && o.fault != "" {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.tally.add(o)
}

var (
	errBrokenOff = errors.New("answer broke off")
	errNoVariant = errors.New("answer names no known variant")
)

// fault sorts errors into few kinds.
func fault(err error) string {
	var (
		op      *net.OpError
		timeout interface{ Timeout() bool }
		refusal *loadgen.Refusal
	)
	switch {
	case errors.As(err, &refusal):
		return refusal.Error()
	case errors.Is(err, errNoVariant):
		return err.Error()
	case errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.As(err, &op) && op.Op == "dial":
		return "cannot connect"
	}
	return errBrokenOff.Error()
}

// exchange is the request and its answer.
func (r *run) exchange(ctx context.Context, a workloads.Arrival, o *outcome) error {
	prompt := strings.TrimSuffix(strings.Repeat("word ", a.PromptTokens), " ")
	request, err := r.server.Chat(ctx, r.Model, r.Table.Tasks[a.Task].Name, prompt, a.OutputTokens)
	if err != nil {
		return err
	}
	response, err := loadgen.Do(r.client, request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if o.variant = response.Header.Get("X-Gearshift-Variant"); o.variant == "" {
		o.variant = r.Model
	}
	if r.Table.VariantIndex(o.variant) < 0 {
		return errNoVariant
	}
	return r.receive(response.Body, a.At, o)
}

// receive reads the stream of the answer to its end.
func (r *run) receive(stream io.Reader, due time.Duration, o *outcome) error {
	meter := wire.NewMeter(true)
	buffer := make([]byte, 4<<10)
	for {
		n, err := stream.Read(buffer)
		_, _ = meter.Write(buffer[:n])
		now := time.Since(r.start) - due
		if o.first == 0 && meter.Started() {
			o.first = now
		}
		if err == nil {
			continue
		}
		meter.Close()
		o.total, o.tokens = now, meter.Tokens()
		if err != io.EOF {
			return err
		}
		if meter.Failed() || !meter.Finished() || o.tokens == 0 {
			return errBrokenOff
		}
		return nil
	}
}
