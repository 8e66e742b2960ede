package engineserver

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"gearshift/serving/engines/agents"
)

// attend keeps a request open at the router, so that the connection's end tells it that this
// process is gone. It ends with the context, or where the router does not take such requests.
func (a *Agent) attend(ctx context.Context) {
	pause := firstPause
	for {
		began := time.Now()
		err := a.attendOnce(ctx)
		var refused *refusal
		if ctx.Err() != nil || errors.As(err, &refused) && refused.final() {
			return
		}
		if time.Since(began) > mostPause {
			pause = firstPause
		}
		if agents.Pause(ctx, pause) != nil {
			return
		}
		pause = min(2*pause, mostPause)
	}
}

func (a *Agent) attendOnce(ctx context.Context) error {
	u := a.router.JoinPath(agents.PresencePath(a.config.Host))
	u.RawQuery = "incarnation=" + strconv.FormatUint(a.config.Incarnation, 10)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	response, err := askRouter(a.client, request, a.config.Token)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err
}
