package access

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"gearshift/internal/faults"
)

// CrossSite reports whether the request would change something and comes from a page
// whose origin is neither the server's own nor allowed to ask. What no browser sends,
// without Origin and Sec-Fetch-Site, comes from no page.
func (r *PageRules) CrossSite(request *http.Request) bool {
	if !SentByPage(request) {
		return false
	}
	from, fetched := request.Header["Origin"], request.Header["Sec-Fetch-Site"]
	if len(from) > 1 || len(fetched) > 1 {
		return changes(request.Method)
	}
	if len(from) == 1 && r.Allows(from[0]) {
		return false
	}
	if request.Header.Get("Upgrade") != "" { // a WebSocket is asked for by GET, and may change all
		as := *request
		as.Method = http.MethodPost
		request = &as
	}
	return new(http.CrossOriginProtection).Check(request) != nil
}

// SentByPage reports whether the request bears a browser's marks.
func SentByPage(request *http.Request) bool {
	for _, mark := range []string{"Origin", "Sec-Fetch-Site", "Sec-Fetch-Mode", "Sec-Fetch-Dest", "Sec-Fetch-User"} {
		if request.Header[mark] != nil {
			return true
		}
	}
	return false
}

// changes reports whether a request by the method may change something.
func changes(method string) bool {
	return method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// loopbackNames stand for the machine itself: those by which containers reach the
// loopback address of the machine that they run on, which no public name server may have.
var loopbackNames = []string{"localhost", "host.docker.internal", "gateway.docker.internal", "host.containers.internal"}

// Local reports whether a server on a loopback address may be called by the host of a
// request: a page whose own name is made to resolve to this machine (DNS rebinding) is
// known by that name. An address resolves to nothing else, so it is right, as 0.0.0.0 or that
// of a port that is forwarded to here. A request without a host is no browser's.
func (r *PageRules) Local(host string) bool {
	if r.anyHost || host == "" {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.Trim(host, "[]"), ".")
	host = strings.ToLower(host)
	for _, name := range loopbackNames {
		if host == name {
			return true
		}
	}
	if _, ok := r.hosts[host]; ok || strings.HasSuffix(host, ".localhost") {
		return true
	}
	_, err := netip.ParseAddr(host)
	return err == nil
}

// Loopback reports whether the request came in on a loopback address of this machine.
// Where that is not known, it did not.
func Loopback(request *http.Request) bool {
	addr, _ := request.Context().Value(http.LocalAddrContextKey).(net.Addr)
	switch addr := addr.(type) {
	case *net.TCPAddr:
		return addr.IP.IsLoopback()
	case *net.UDPAddr: // HTTP/3
		return addr.IP.IsLoopback()
	}
	return false
}

// ValidateHosts names every fault of a list of hosts, by its YAML key.
func ValidateHosts(hosts []string) error {
	var found faults.List
	for i, host := range hosts {
		found.If(host != AnyOrigin && (host == "" || !ascii(host) || strings.ContainsAny(host, "/@*?# ") || port(host)), "hosts[%d]: %q is not a host; want a name or an address without a port, such as api.example.com, or %q for all", i, host, AnyOrigin)
	}
	return found.Err()
}

// port reports whether the host has one.
func port(host string) bool {
	_, _, err := net.SplitHostPort(host)
	return err == nil
}

// WrongHost is what to answer to a request that knows this machine by a name that is not its
// own, as a page does whose name was made to resolve to this machine. Setting lists further names.
func WrongHost(r *http.Request, setting string) string {
	return fmt.Sprintf("host %q is not a name of this machine; on a loopback address ask as localhost or 127.0.0.1, or list the name in %s", r.Host, setting)
}
