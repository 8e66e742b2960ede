package access

import (
	"fmt"
	"net/netip"
	"strings"
)

// This file finds the address of a client that may be behind proxies: by the address of
// its connection, or by what trusted proxies report.

// Proxies are the networks of the proxies that are trusted to name their clients.
// The zero value trusts none.
type Proxies []netip.Prefix

// mapped is the length of what is before an IPv4 address that is mapped into IPv6.
const mapped = 96

// ParseProxies reads addresses and networks, such as 10.0.0.7 and 10.0.0.0/8. The error
// names the first that is neither.
func ParseProxies(list []string) (Proxies, error) {
	var p Proxies
	for i, text := range list {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(text); err == nil {
				addr = addr.Unmap()
				prefix = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		if err != nil {
			return nil, fmt.Errorf("[%d]: %q is neither an address nor a network; want one such as 10.0.0.7 or 10.0.0.0/8", i, text)
		}
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= mapped { // as connections are compared
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-mapped)
		}
		p = append(p, prefix.Masked())
	}
	return p, nil
}

// trust reports whether the address is of a trusted proxy.
func (p Proxies) trust(a netip.Addr) bool {
	for _, prefix := range p {
		if prefix.Contains(a) {
			return true
		}
	}
	return false
}

// Trust reports whether the connection comes from a trusted proxy.
func (p Proxies) Trust(conn string) bool {
	a, ok := address(conn)
	return len(p) > 0 && ok && p.trust(a)
}

// Client is the address of the client, given the remote address of its connection and
// the values of X-Forwarded-For. Those count from the right as far as trusted proxies
// have written them: what stands further left may be the client's own invention.
func (p Proxies) Client(conn string, forwarded []string) string {
	a, ok := address(conn)
	if !ok {
		return HostOf(conn)
	}
	if len(p) > 0 {
		a = p.behind(a, forwarded)
	}
	return a.String()
}

// behind is the address furthest left that trusted proxies reported.
func (p Proxies) behind(a netip.Addr, forwarded []string) netip.Addr {
	for i := len(forwarded) - 1; i >= 0; i-- {
		list := strings.Split(forwarded[i], ",")
		for k := len(list) - 1; k >= 0; k-- {
			if !p.trust(a) {
				return a
			}
			next, ok := address(strings.TrimSpace(list[k]))
			if !ok {
				return a
			}
			a = next
		}
	}
	return a
}

// address reads an address that may have a port, or brackets.
func address(text string) (netip.Addr, bool) {
	a, err := netip.ParseAddr(HostOf(text))
	return a.Unmap().WithZone(""), err == nil
}

// HostOf returns the text of an address without its port and brackets.
func HostOf(conn string) string {
	if end := strings.IndexByte(conn, ']'); end > 0 && conn[0] == '[' {
		return conn[1:end]
	}
	if i := strings.IndexByte(conn, ':'); i >= 0 && i == strings.LastIndexByte(conn, ':') {
		return conn[:i]
	}
	return conn
}
