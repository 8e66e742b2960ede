// Package admin is the operators' side of the server: a listener of its own, who may use it,
// and the orders that it takes. What they order is carried out by other rooms; see [Orders].
package admin

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// Options are what the operators' side is made of.
type Options struct {
	// Token is what operators have; empty refuses their actions. TokenEnv is the
	// environment variable that it came from.
	Token, TokenEnv string
	// FleetToken is what agents of engines have, and routers show to those engines; empty refuses
	// agents. FleetTokenEnv is the environment variable that it came from.
	FleetToken, FleetTokenEnv string
	// Addr is where to listen, as configured.
	Addr string
	// Certificate is the one in force; a nil func is no encryption.
	Certificate func() *tls.Certificate
	// Proxies are those that are trusted to name their clients.
	Proxies func() access.Proxies
	// Rules are what web pages may do, and the names of this machine.
	Rules func() *access.PageRules
	// Fail answers with an error.
	Fail  func(c *gin.Context, status int, e wire.Error)
	Clock func() time.Duration
	Log   *slog.Logger
}

// Grace bounds the wait for requests of the admin API at shutdown.
const Grace = time.Second

// Serve serves the admin API until the context ends. It closes the listener. Page is where
// the operators' page is, if there is one.
func (g *Guard) Serve(ctx context.Context, server *http.Server, l net.Listener, page string) error {
	failed := make(chan error, 1)
	go func() { failed <- config.ServeTLS(server, l, g.Certificate) }()
	addr := l.Addr().String()
	g.Log.Info("admin listening", "addr", addr, "tls", g.Certificate != nil)
	if page != "" {
		g.Log.Info("the page is at", "url", page)
	}
	if !g.operators.set {
		g.Log.Warn("no admin token: the admin API refuses every action", "to_set_one", "export "+g.TokenEnv+"=$(openssl rand -hex 32)")
	}
	if !g.loopback && g.Certificate == nil {
		g.Log.Warn("the admin listener is open to other machines, and the token passes unencrypted", "addr", addr)
	}
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve the admin API on %q: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), Grace)
	defer cancel()
	if server.Shutdown(wait) != nil {
		_ = server.Close() // what is left is cut off
	}
	<-failed
	return nil
}
