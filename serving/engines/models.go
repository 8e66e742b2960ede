package engines

import (
	"context"
	"errors"
	"io"
	"net/http"

	"gearshift/router/health"
	"gearshift/serving/openai/wire"
)

const (
	// seldom is the number of probes after which a server that has all its models is asked for
	// them again: they change with its process, whose end probes and requests notice.
	seldom = 15
	// longestList is how much of a list is read.
	longestList = 4 << 20
)

// schedule says at which probes of a server its list of models is asked for. It is of the
// server's goroutine.
type schedule struct {
	wait int // how many probes without
}

// due has the list asked for at the next probe.
func (s *schedule) due() { s.wait = 0 }

// next reports whether the list is due after a probe with this finding.
func (s *schedule) next(f health.Finding, found bool) bool {
	if found && f != health.Well && f != health.Absent {
		s.wait = 0 // what comes back may be another
		return false
	}
	s.wait--
	return s.wait < 0
}

// askList asks the server for its models, if it is to be asked, and reports what it says of
// the replicas'.
func (p *Prober) askList(ctx context.Context, w *round) {
	if !p.config.ProbeModels || p.OnList == nil || len(w.Models) == 0 || !w.begin() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.ProbeTimeout)
	defer cancel()
	list, says, err := models(ctx, w.Server)
	if err != nil { // it says neither that it has them nor that it has not
		return
	}
	w.list.wait = seldom
	var page []byte
	if says && list.Page() != "" {
		page = read(ctx, w.Server, list.Page())
	}
	notes, contexts := make([]string, len(w.Models)), make([]int, len(w.Models))
	for i := range w.Models {
		name := w.name(i)
		if !says || name == "" {
			continue
		}
		if contexts[i] = wire.PageContext(page, name); contexts[i] == 0 {
			contexts[i] = list.Context(name)
		}
		if !list.Has(name) {
			notes[i] = list.Note(name)
			w.list.wait = 0
		}
	}
	p.OnList(w.Target, notes, contexts)
}

// models is the server's list. Says is false if it has none that says anything: no such
// path, or an empty one. An error is that it gave no answer, or none for now.
func models(ctx context.Context, s Getter) (list wire.Listing, says bool, err error) {
	response, err := s.Get(ctx, modelsPath)
	if err != nil {
		return wire.Listing{}, false, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestList))
	switch {
	case err != nil:
		return wire.Listing{}, false, err
	case response.StatusCode == http.StatusOK:
		list, says = wire.ParseListing(body)
		return list, says, nil
	case response.StatusCode >= http.StatusInternalServerError && !missing(response.StatusCode), response.StatusCode == http.StatusTooManyRequests:
		return wire.Listing{}, false, errNotNow
	}
	return wire.Listing{}, false, nil
}

// read returns what the server has at a path; nothing if that is no success.
func read(ctx context.Context, s Getter, path string) []byte {
	response, err := s.Get(ctx, path)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, longestList))
	if err != nil || response.StatusCode != http.StatusOK {
		return nil
	}
	return body
}

// errNotNow is returned where a server cannot list its models at the moment.
var errNotNow = errors.New("the server cannot list its models at the moment")
