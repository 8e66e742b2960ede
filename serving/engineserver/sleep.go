package engineserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"gearshift/serving/engineserver/repository"
	"gearshift/serving/openai/wire"
)

// routeSleep registers vLLM's sleep mode. All models sleep and wake together, unless
// the parameter "model", which vLLM does not have, names one.
func (s *Server) routeSleep() {
	for pattern, handler := range map[string]http.HandlerFunc{
		"POST /sleep": s.fenced(s.sleep, failOrder), "POST /wake_up": s.fenced(s.wakeUp, failOrder), "GET /is_sleeping": s.isSleeping,
	} {
		s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if s.faults.current().NoSleep {
				unknownURL(w, r)
				return
			}
			handler(w, r)
		})
	}
}

// sleep is vLLM's POST /sleep. By default it waits for the requests in flight.
func (s *Server) sleep(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	level, abort := repository.Offload, false
	err := known(query, "level", "mode", "model")
	if text := query.Get("level"); err == nil && text != "" {
		switch text {
		case "1":
		case "2":
			level = repository.Discard
		default:
			err = fmt.Errorf("level %q: want 1, which keeps the weights in memory, or 2, which keeps nothing", text)
		}
	}
	if mode := query.Get("mode"); err == nil && mode != "" {
		if abort = mode == "abort"; !abort && mode != "wait" {
			err = fmt.Errorf("mode %q: want wait, for the requests in flight, or abort, which ends them", mode)
		}
	}
	if err != nil {
		fail(w, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_value", Message: err.Error()})
		return
	}
	s.each(w, r, query, []repository.State{repository.Ready, repository.Asleep}, func(ctx context.Context, name string) error {
		return s.models.Sleep(ctx, name, level, abort)
	})
}

// wakeUp is vLLM's POST /wake_up.
func (s *Server) wakeUp(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	parts, err := repository.Part(0), known(query, "tags", "model")
	for _, tag := range query["tags"] {
		switch {
		case tag == "weights":
			parts |= repository.Weights
		case tag == "kv_cache":
			parts |= repository.Cache
		case err == nil:
			err = fmt.Errorf("tag %q: want weights or kv_cache", tag)
		}
	}
	if err != nil {
		fail(w, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_value", Message: err.Error()})
		return
	}
	if parts == 0 {
		parts = repository.All
	}
	s.each(w, r, query, []repository.State{repository.Asleep}, func(ctx context.Context, name string) error {
		return s.models.Wake(ctx, name, parts)
	})
}

// isSleeping is vLLM's GET /is_sleeping: whether models are loaded, and none is awake.
func (s *Server) isSleeping(w http.ResponseWriter, r *http.Request) {
	names, all := r.URL.Query()["model"], s.models.Statuses()
	asleep, awake := false, false
	for _, name := range names {
		if _, err := s.models.Status(name); err != nil {
			s.failOperation(w, err)
			return
		}
	}
	for _, m := range all {
		if len(names) == 0 || slices.Contains(names, m.Name) {
			asleep = asleep || m.State == repository.Asleep
			awake = awake || m.State == repository.Ready
		}
	}
	writeJSON(w, http.StatusOK, map[string]bool{"is_sleeping": asleep && !awake})
}

// known refuses parameters that are not among the names.
func known(query url.Values, names ...string) error {
	for name := range query {
		if !slices.Contains(names, name) {
			return fmt.Errorf("unknown parameter %q; there are %q", name, names)
		}
	}
	return nil
}

// each does something to the models that the query names, or to all in one of the
// states, side by side.
func (s *Server) each(w http.ResponseWriter, r *http.Request, query url.Values, in []repository.State, do func(context.Context, string) error) {
	names := query["model"]
	if len(names) == 0 {
		for _, m := range s.models.Statuses() {
			if slices.Contains(in, m.State) {
				names = append(names, m.Name)
			}
		}
	}
	errs := make([]error, len(names))
	var group sync.WaitGroup
	for i, name := range names {
		group.Go(func() { errs[i] = do(r.Context(), name) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		s.failOperation(w, err)
	}
}

// failOperation answers with why a sleep or a wake did not succeed.
func (s *Server) failOperation(w http.ResponseWriter, err error) {
	e := wire.Error{Type: wire.ServerError, Code: "not_done", Message: oneLine(err)}
	status := statusOf(err, http.StatusInternalServerError)
	if status == http.StatusNotFound {
		e.Type, e.Param, e.Code = "NotFoundError", "model", "model_not_found"
	}
	fail(w, status, e)
}
