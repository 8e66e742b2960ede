package backend

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"gearshift/serving/wire"
)

// mostKept bounds the responses that an engine keeps.
const mostKept = 1000

// library keeps an engine's responses, which a client may ask for again, or go on from.
type library struct {
	mu    sync.Mutex // protects all below
	byID  map[string]keptResponse
	order []string // IDs, from the oldest; some may be deleted
}

type keptResponse struct {
	whole object
	turns []any // of the conversation, the answer among them
}

func newLibrary() *library { return &library{byID: map[string]keptResponse{}} }

// follow gives the order its ID and what was said before its input.
func (l *library) follow(o *responseOrder) *wire.Error {
	o.id = strings.ToLower(rand.Text())
	l.mu.Lock()
	earlier, ok := l.byID[o.Previous]
	l.mu.Unlock()
	if o.Previous != "" && !ok {
		fault := invalid("previous_response_id", fmt.Sprintf("previous response with id %q not found", o.Previous))
		fault.Code = "previous_response_not_found"
		return &fault
	}
	o.turns = slices.Concat(earlier.turns, o.items())
	return nil
}

// keep keeps the response to the order, if it wants that.
func (l *library) keep(o responseOrder, whole object, text string) {
	if o.Store != nil && !*o.Store {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.order) >= mostKept {
		delete(l.byID, l.order[0])
		l.order = l.order[1:]
	}
	id := whole["id"].(string)
	l.byID[id] = keptResponse{whole, append(o.turns, object{"role": "assistant", "content": text})}
	l.order = append(l.order, id)
}

// answer answers GET and DELETE of a response. One that is kept has ended, so there is
// none to cancel.
func (l *library) answer(request *http.Request, id string) (*http.Response, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	id, cancel := strings.CutSuffix(id, "/cancel")
	kept, ok := l.byID[id]
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
		delete(l.byID, id)
		return respondJSON(request, object{"id": id, "object": "response.deleted", "deleted": true})
	}
	return Refuse(request, http.StatusMethodNotAllowed, invalid("", "a response does not take "+request.Method)), nil
}
