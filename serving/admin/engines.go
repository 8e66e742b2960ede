package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/control"
	"gearshift/router/lifecycle"
	"gearshift/serving/engines"
	"gearshift/serving/openai/wire"
)

// engineRoutes are the endpoints by which engines load and unload their models.
func (o *Orders) engineRoutes() (list []Route) {
	for _, x := range []struct {
		verb  control.Verb
		about string
	}{
		{control.Load, "has the replica's engine load its model"},
		{control.Unload, "has it unload the model, once what is in flight there has ended"},
		{control.Sleep, "puts the model to sleep, once what is in flight there has ended"},
		{control.Wake, "wakes the model"},
	} {
		list = append(list, Route{
			http.MethodPost, "/admin/replicas/{replica...}/" + x.verb.String(),
			func(c *gin.Context) { o.orderEngine(c, x.verb) }, x.about,
		})
	}
	return list
}

// orderEngine answers an order once it has begun, or with wait once it has ended.
func (o *Orders) orderEngine(c *gin.Context, v control.Verb) {
	replica, ok := o.replica(c)
	if !ok {
		return
	}
	name := o.Ledger.Table().Replicas[replica].Name
	wait, level, fault := lifecycleParameters(c.Request.URL.Query(), v)
	if fault != nil {
		o.Fail(c, http.StatusBadRequest, *fault)
		return
	}
	begun, err := o.Engines.Order(replica, v, level)
	if err != nil {
		o.Log.Warn("replica order refused", "replica", name, "order", v, "by", By, "error", err)
		status, e := lifecycleFault(err)
		o.Fail(c, status, e)
		return
	}
	o.Log.Info("replica order", "replica", name, "order", v, "by", By, "begun", begun)
	status := http.StatusOK
	if begun {
		if status, err = o.follow(c.Request.Context(), replica, wait); err != nil {
			o.Fail(c, status, wire.Error{Type: wire.ServerError, Code: "action_failed", Message: oneLine(err.Error())})
			return
		}
	}
	c.JSON(status, o.Overview.Status().Replicas[replica])
}

// follow is the status of an order that has begun: it waits for its end, if for any time.
func (o *Orders) follow(ctx context.Context, replica int, wait time.Duration) (status int, err error) {
	if wait == 0 {
		return http.StatusAccepted, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	switch ended, err := o.Engines.Wait(ctx, replica); {
	case err != nil:
		return http.StatusBadGateway, err
	case ended:
		return http.StatusOK, nil
	}
	return http.StatusAccepted, nil
}

// forGood is how long an order with wait alone is waited for.
const forGood = 24 * time.Hour

// lifecycleParameters reads the query of an order.
func lifecycleParameters(query url.Values, v control.Verb) (wait time.Duration, level int, fault *wire.Error) {
	wrong := func(name, format string, args ...any) *wire.Error {
		return &wire.Error{Type: wire.InvalidRequest, Param: wire.Optional(name), Code: "invalid_parameter", Message: fmt.Sprintf(format, args...)}
	}
	for name, values := range query {
		text := values[0]
		var err error
		switch {
		case name == "wait" && (text == "" || text == "true"):
			wait = forGood
		case name == "wait" && text != "false":
			if wait, err = time.ParseDuration(text); err != nil || wait < 0 {
				return 0, 0, wrong(name, "wait %q: want nothing, true, false, or a time such as 30s", text)
			}
		case name == "wait":
		case name == "level" && v == control.Sleep:
			if level, err = strconv.Atoi(text); err != nil || level < 1 {
				return 0, 0, wrong(name, "level %q: want 1 or 2", text)
			}
		default:
			return 0, 0, wrong(name, "unknown parameter %q; want wait, and level for a sleep", name)
		}
	}
	return wait, level, nil
}

// lifecycleFault is the answer to an order that is not followed.
func lifecycleFault(err error) (status int, e wire.Error) {
	e = wire.Error{Type: wire.InvalidRequest, Code: "conflict", Message: oneLine(err.Error())}
	status = http.StatusConflict
	var memory *lifecycle.MemoryError
	var unsupported engines.Unsupported
	switch {
	case errors.As(err, &unsupported):
		status, e.Code = http.StatusUnprocessableEntity, "unsupported_action"
	case errors.Is(err, engines.ErrStandsBy):
		e.Code = "stands_by"
	case errors.As(err, &memory):
		status, e.Code = http.StatusInsufficientStorage, "insufficient_memory"
	}
	return status, e
}

// oneLine is the text on one line.
func oneLine(text string) string { return strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ") }
