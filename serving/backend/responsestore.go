package backend

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"gearshift/serving/openai/wire"
)

// mostKept bounds the responses that an engine keeps.
const mostKept = 1000

// responseStore keeps an engine's responses, which a client may ask for again, or go on from.
type responseStore struct {
	mu    sync.Mutex // protects all below
	byID  map[string]keptResponse
	order []string // IDs, from the oldest; some may be deleted
}

type keptResponse struct {
	whole object
	turns []any // of the conversation, the answer among them
}

func newResponseStore() *responseStore { return &responseStore{byID: map[string]keptResponse{}} }

// follow gives the order its ID and what was said before its input.
func (s *responseStore) follow(o *responseOrder) *wire.Error {
	o.id = strings.ToLower(rand.Text())
	s.mu.Lock()
	earlier, ok := s.byID[o.Previous]
	s.mu.Unlock()
	if o.Previous != "" && !ok {
		fault := invalid("previous_response_id", fmt.Sprintf("previous response with id %q not found", o.Previous))
		fault.Code = "previous_response_not_found"
		return &fault
	}
	o.turns = slices.Concat(earlier.turns, o.items())
	return nil
}

// keep keeps the response to the order, if it wants that.
func (s *responseStore) keep(o responseOrder, whole object, text string) {
	if o.Store != nil && !*o.Store {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) >= mostKept {
		delete(s.byID, s.order[0])
		s.order = s.order[1:]
	}
	id := whole["id"].(string)
	s.byID[id] = keptResponse{whole, append(o.turns, object{"role": "assistant", "content": text})}
	s.order = append(s.order, id)
}

// answer answers GET and DELETE of a response. One that is kept has ended, so there is
// none to cancel.
func (s *responseStore) answer(request *http.Request, id string) (*http.Response, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, cancel := strings.CutSuffix(id, "/cancel")
	kept, ok := s.byID[id]
	switch {
	case !ok:
		fault := invalid("response_id", fmt.Sprintf("response with id %q not found", id))
		fault.Code = "response_not_found"
		return Refuse(request, http.StatusNotFound, fault), nil
	case cancel && request.Method == http.MethodPost:
		return Refuse(request, http.StatusBadRequest, invalid("response_id", "cannot cancel a response that is not in the background")), nil
	case request.Method == http.MethodGet && !cancel:
		return respondJSON(request, kept.whole)
	case request.Method == http.MethodDelete && !cancel:
		delete(s.byID, id)
		return respondJSON(request, object{"id": id, "object": "response.deleted", "deleted": true})
	}
	return Refuse(request, http.StatusMethodNotAllowed, invalid("", "a response does not take "+request.Method)), nil
}
