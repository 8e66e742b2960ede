package config

import (
	"net"
	"net/url"
	"slices"
	"time"

	"gearshift/internal/faults"
)

// Peers locates the other routers of the fleet, and sets how to ask them for their shares of the load.
type Peers struct {
	// URLs lists the routers' admin listeners, which may include this one.
	URLs []string `yaml:"urls,flow,omitempty"`
	// DNS is a name and port, such as gearshift-peers:9090, that resolves to the routers' addresses, like a
	// headless service.
	DNS string `yaml:"dns,omitempty"`
	// Poll sets the time between two requests to each.
	Poll time.Duration `yaml:"poll"`
	// SilentAfter sets the time without an answer after which a router is no longer counted.
	SilentAfter time.Duration `yaml:"silent_after"`
	// JoinWithin limits the time at the start in which the server is not ready because it has not heard the others
	// and the engines yet.
	JoinWithin time.Duration `yaml:"join_within"`
}

// DefaultPeers returns the defaults: 5 requests per second, if there is a router to ask.
func DefaultPeers() Peers {
	return Peers{Poll: 200 * time.Millisecond, SilentAfter: time.Second, JoinWithin: 3 * time.Second}
}

// On reports whether routers are configured.
func (p *Peers) On() bool { return len(p.URLs) > 0 || p.DNS != "" }

// IsZero reports whether no routers are configured, for omitempty.
func (p Peers) IsZero() bool { return !p.On() }

// given returns the key that lists the routers.
func (p *Peers) given() string {
	if p.DNS != "" {
		return "dns"
	}
	return "urls"
}

// validate reports every fault of a server's configuration, by its YAML key below peers.
func (p *Peers) validate(c Config) error {
	var found faults.List
	found.If(p.On() && c.Routers < 2, "%s: there are others, and serving.routers is %d; want how many routers there usually are, by which the rate is estimated while none is heard", p.given(), c.Routers)
	found.If(p.On() && c.Admin.Addr == AdminOff, "%s: the others ask this router at its admin listener, and serving.admin.addr is %s; want an address that they reach", p.given(), AdminOff)
	found.If(len(p.URLs) > 0 && p.DNS != "", "dns: names the routers, as urls does; want one of them")
	for i, text := range p.URLs {
		u, err := url.Parse(text)
		found.If(err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "",
			"urls[%d]: %q; want the URL of a router's admin listener, such as http://10.0.0.2:9090", i, text)
		found.If(slices.Contains(p.URLs[:i], text), "urls[%d]: %q stands there twice", i, text)
	}
	if p.DNS != "" {
		host, port, err := net.SplitHostPort(p.DNS)
		found.If(err != nil || host == "" || port == "" || net.ParseIP(host) != nil, "dns: %q; want a name and the port of the admin listeners, such as gearshift-peers:9090", p.DNS)
	}
	found.If(p.Poll < 20*time.Millisecond || p.Poll > time.Minute, "poll: %v; want a time from 20ms to 1m", p.Poll)
	found.If(p.SilentAfter < 2*p.Poll || p.SilentAfter > 10*time.Minute, "silent_after: %v; want at least twice poll, %v, and at most 10m", p.SilentAfter, p.Poll)
	found.If(p.JoinWithin < 0 || p.JoinWithin > 5*time.Minute, "join_within: %v; want a time from 0s to 5m", p.JoinWithin)
	return found.Err()
}
