package engineserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"gearshift/serving/engines/agents"
)

// AgentConfig is what an Agent is made of.
type AgentConfig struct {
	// Router is the URL of the router's admin listener, and Token the credential for it. Of several URLs, separated by
	// commas, the agent uses the first that accepts the engine, which is the acting router's.
	Router, Token string
	// Host is the engine's, as the router's scenario names it.
	Host string
	// Version is the engine's, for people.
	Version string
	// Incarnation is larger at each start of the engine's process on its host.
	Incarnation uint64
	// URL is where the engine answers.
	URL string
	// Memory is what its models may take together, in bytes. Zero is no bound.
	Memory int64
	// Loaded names the models that answer at present, and is not nil where there are none. It
	// must not wait long.
	Loaded func() []string
	// Term is the engine's fence, which learns the term of the router at each registration; nil if it
	// has none.
	Term interface {
		Term() uint64
		// Begin refuses a router whose term is older than another one's.
		Begin(term uint64) error
	}
	// Dial makes connections to the router; nil is by TCP.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Log gets nothing if nil.
	Log *slog.Logger
}

// Agent reports one engine to one router at a time.
type Agent struct {
	config  AgentConfig
	routers []*url.URL
	router  *url.URL // the one of the routers that it reports to, or tries
	client  *http.Client
	log     *slog.Logger

	known    bool // the router has accepted the engine at least once
	sequence uint64
	said     map[*url.URL]string // the last trouble with each router that was logged, until one accepts
	loaded   []string            // as the router knows it
}

// The times between tries to register: the first, and the most.
const (
	firstPause = 50 * time.Millisecond
	mostPause  = time.Second
)

// patience bounds how long an answer of the router is waited for: a heartbeat's for so many
// intervals, and at least the least.
const (
	patience      = 10
	leastPatience = 200 * time.Millisecond
	// registrationLimit bounds a registration, and leaving the goodbye.
	registrationLimit = 5 * time.Second
	leaving           = time.Second
	// enough failed heartbeats in a row make the agent try the next router.
	enough = 2
	// dialling bounds a try to connect, which goes on when its request has been given up.
	dialling = 2 * time.Second
)

// NewAgent checks the configuration. Nothing is sent before [Agent.Run].
func NewAgent(c AgentConfig) (*Agent, error) {
	routers, err := ParseRouters(c.Router)
	if err != nil {
		return nil, err
	}
	a := &Agent{config: c, routers: routers, router: routers[0], log: c.Log, said: map[*url.URL]string{}}
	if a.log == nil {
		a.log = slog.New(slog.DiscardHandler)
	}
	a.client = &http.Client{
		// One connection, which heartbeats keep: a second one is dialled where the first has
		// been given up.
		Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, DialContext: a.dial, MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute, DisableCompression: true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return a, nil
}

// ParseRouters returns the URLs of admin listeners, separated by commas.
func ParseRouters(text string) (list []*url.URL, err error) {
	for one := range strings.SplitSeq(text, ",") {
		u, err := ParseRouter(strings.TrimSpace(one))
		if err != nil {
			return nil, err
		}
		list = append(list, u)
	}
	return list, nil
}

// next selects the next router, if there are several.
func (a *Agent) next() {
	a.router = a.routers[(slices.Index(a.routers, a.router)+1)%len(a.routers)]
}

// ParseRouter is the URL of an admin listener.
func ParseRouter(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the URL of a router's admin listener; want one such as http://127.0.0.1:8081", text)
	}
	return u, nil
}

func (a *Agent) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if a.config.Dial != nil {
		return a.config.Dial(ctx, network, addr)
	}
	return (&net.Dialer{Timeout: dialling}).DialContext(ctx, network, addr)
}

// Run reports the engine until the context ends, and then takes leave. It returns an error only
// if the router refuses the engine before it has ever accepted it: later the engine goes on
// answering, and the agent goes on trying.
func (a *Agent) Run(ctx context.Context) error {
	defer a.client.CloseIdleConnections()
	for {
		pace, err := a.register(ctx)
		if err == nil {
			err = a.report(ctx, pace)
		}
		if ctx.Err() != nil {
			a.leave(ctx)
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// register tries to register until the router accepts. The error is the context's, or why the
// router will never accept this engine.
func (a *Agent) register(ctx context.Context) (agents.Accepted, error) {
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		answer, err := a.registerOnce(ctx)
		if err == nil {
			clear(a.said)
			a.known = true
			a.log.Info("registered", "router", a.router.String(), "host", a.config.Host, "term", answer.Term, "heartbeat", answer.Heartbeat(), "misses", answer.Misses)
			return answer, nil
		}
		if ctx.Err() != nil {
			return answer, ctx.Err()
		}
		var refused *refusal
		if errors.As(err, &refused) && refused.final() && !a.known {
			return answer, err
		}
		a.trouble("not registered; trying again", err)
		a.next()
		if agents.Pause(ctx, pause) != nil {
			return answer, ctx.Err()
		}
	}
}

// registerOnce asks the router to accept the engine.
func (a *Agent) registerOnce(ctx context.Context) (answer agents.Accepted, err error) {
	c, loaded := &a.config, a.config.Loaded()
	r := agents.Registration{Version: c.Version, Protocol: agents.Protocol, Incarnation: c.Incarnation, URL: c.URL, Memory: c.Memory, Loaded: loaded}
	if c.Term != nil {
		r.Term = c.Term.Term()
	}
	err = a.send(ctx, http.MethodPost, agents.AgentPath(c.Host), a.registrationLimit(), r, &answer)
	switch {
	case err != nil:
	case answer.HeartbeatMS <= 0:
		err = fmt.Errorf("%s does not answer as a router's admin listener: its heartbeat_ms is %v", a.router, answer.HeartbeatMS)
	case a.config.Term != nil:
		err = a.config.Term.Begin(answer.Term)
	}
	if err == nil {
		a.loaded, a.sequence = loaded, 0
	}
	return answer, err
}

// registrationLimit bounds the time of a registration, so that another router is tried soon if one hangs.
func (a *Agent) registrationLimit() time.Duration {
	if len(a.routers) > 1 {
		return leaving
	}
	return registrationLimit
}

// report keeps the router informed, until it asks for another registration or the context ends.
func (a *Agent) report(ctx context.Context, pace agents.Accepted) error {
	present, leave := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() { a.attend(present) })
	defer done.Wait()
	defer leave()
	return a.beat(ctx, pace)
}

// beat sends a heartbeat at each interval, until the router asks for another registration, where
// the error is nil, or the context ends.
func (a *Agent) beat(ctx context.Context, pace agents.Accepted) error {
	interval := pace.Heartbeat()
	limit := max(patience*interval, leastPatience)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for failed := 0; ; {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		err := a.heartbeat(ctx, limit)
		var refused *refusal
		switch {
		case err == nil:
			if failed = 0; len(a.said) > 0 {
				a.log.Info("the router answers again", "router", a.router.String())
				clear(a.said)
			}
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &refused) && refused.status/100 == 4:
			a.trouble("registering again", err)
			return nil
		default:
			a.trouble("the router does not answer heartbeats", err)
			if failed++; failed == enough && len(a.routers) > 1 {
				a.next()
				return nil
			}
		}
	}
}

// heartbeat sends one, with the models that are loaded if they are others than before.
func (a *Agent) heartbeat(ctx context.Context, limit time.Duration) error {
	a.sequence++
	b := agents.Pulse{Incarnation: a.config.Incarnation, Sequence: a.sequence}
	loaded := a.config.Loaded()
	if !slices.Equal(loaded, a.loaded) {
		b.Loaded = &loaded
	}
	err := a.send(ctx, http.MethodPost, agents.HeartbeatPath(a.config.Host), limit, b, nil)
	if err == nil {
		a.loaded = loaded
	}
	return err
}

// leave has the router take the engine out of use before it ends.
func (a *Agent) leave(ctx context.Context) {
	if !a.known {
		return
	}
	goodbye := agents.Pulse{Incarnation: a.config.Incarnation, Sequence: a.sequence + 1}
	if err := a.send(context.WithoutCancel(ctx), http.MethodDelete, agents.AgentPath(a.config.Host), leaving, goodbye, nil); err != nil {
		a.log.Warn("the router does not know that the engine ends", "error", err)
	}
}

// trouble logs a router's fault, once until it changes or ends.
func (a *Agent) trouble(what string, err error) {
	if text := err.Error(); text != a.said[a.router] {
		a.said[a.router] = text
		a.log.Warn(what, "router", a.router.String(), "error", err)
	}
}
