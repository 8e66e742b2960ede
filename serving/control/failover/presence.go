package failover

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"gearshift/serving"
	"gearshift/serving/openai/wire"
)

// attend answers GET /admin/agents/HOST/presence, which an agent keeps open as long as its process
// lives. The system closes the connection of a process that is killed, at once. If the engine then
// refuses connections too, the host is lost, before a heartbeat is missing.
func (a *registry) attend(w http.ResponseWriter, r *http.Request) {
	host, ok := a.host(w, r)
	if !ok {
		return
	}
	m := a.module
	incarnation, err := strconv.ParseUint(r.URL.Query().Get("incarnation"), 10, 64)
	number := a.present(host, incarnation)
	if err != nil || number == 0 {
		serving.Fail(w, r, http.StatusConflict, wire.Error{Type: wire.InvalidRequest, Code: "register_again", Message: fmt.Sprintf("this router knows no agent of incarnation %q on %s; register again", r.URL.Query().Get("incarnation"), m.options.Table.Hosts[host].Name)})
		return
	}
	c := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	beat := time.NewTicker(pulse)
	defer beat.Stop()
	for {
		_ = c.SetWriteDeadline(time.Now().Add(sendTime)) // a recorder has none
		if c.Flush() != nil {
			break
		}
		_ = c.SetWriteDeadline(time.Time{})
		select {
		case <-beat.C: // so that what lies between does not take it for dead
			if _, err := w.Write([]byte("\n")); err == nil {
				continue
			}
		case <-r.Context().Done():
		case <-m.server.Ending():
			return
		}
		break
	}
	if a.latest(host, incarnation) == number {
		m.ask(host)
	}
}

// present counts a connection of an agent that is registered, and returns its number; 0 if it is
// not.
func (a *registry) present(host int, incarnation uint64) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of := a.of[host]; of != nil && of.Incarnation == incarnation {
		of.presences++
		return of.presences
	}
	return 0
}

// latest is the number of the agent's newest connection; 0 if another agent is registered.
func (a *registry) latest(host int, incarnation uint64) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if of := a.of[host]; of != nil && of.Incarnation == incarnation {
		return of.presences
	}
	return 0
}
