package serving

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/gin-gonic/gin"
)

// home is where people look first: "/" on the clients' port.
type home struct {
	version   string
	modules   []route                // their endpoints
	encrypted bool                   // the admin listener
	adminAddr atomic.Pointer[string] // of that, once it serves
}

// serve answers "/". Only a client on this
// machine learns where the operators' page is.
func (x *home) serve(c *gin.Context) {
	var b strings.Builder
	fmt.Fprintf(&b, `Gearshift%s routes each request to the model size that delivers the most quality
before its deadline. This is its OpenAI-compatible endpoint; the base URL ends in /v1.

  POST /v1/chat/completions   a request; the model "auto" lets the policy choose the size
  GET  /v1/models             the sizes
  GET  /v1/gearshift/status   replicas and what is in flight
  GET  /healthz, /readyz      for load balancers
%s
Documentation: docs/README.md of the source.
`, strings.TrimRight(" "+x.version, " "), x.moduleLines())
	if page := x.pageURL(); page != "" && fromHere(c.Request.RemoteAddr) {
		fmt.Fprintf(&b, "The page for operators: %s\n", page)
	}
	c.Header("Cache-Control", "no-store")
	c.Header("X-Content-Type-Options", "nosniff")
	c.String(http.StatusOK, "%s", b.String())
}

// moduleLines are the modules' endpoints on this port, a line each.
func (x *home) moduleLines() string {
	var b strings.Builder
	for _, r := range x.modules {
		if !r.Access.admin() {
			fmt.Fprintf(&b, "  %-4s %-22s %s\n", r.Method, r.Path, r.About)
		}
	}
	return b.String()
}

// pageURL is where the operators' page is, as a browser on this machine takes it; "" if
// there is none, or it does not listen yet. A module has it, at "/".
func (x *home) pageURL() string {
	addr := x.adminAddr.Load()
	if addr == nil || !slices.ContainsFunc(x.modules, func(r route) bool { return r.Access == AdminOpen && r.Path == "/" }) {
		return ""
	}
	scheme := "http"
	if x.encrypted {
		scheme = "https"
	}
	host, port, err := net.SplitHostPort(*addr)
	if err != nil {
		return ""
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return scheme + "://" + net.JoinHostPort(host, port) + "/"
}

// fromHere reports whether the address of a connection is this machine'x.
func fromHere(remote string) bool {
	addr, err := netip.ParseAddrPort(remote)
	return err == nil && addr.Addr().Unmap().IsLoopback()
}

// getVersion answers with the version of this program.
func (x *home) getVersion(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"version": x.version}) }
