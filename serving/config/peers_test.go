package config

import (
	"strings"
	"testing"
	"time"
)

// Each fault of the section is reported by its key; valid settings have none.
func TestPeersAreChecked(t *testing.T) {
	fine := func(c *Config) {
		c.Routers, c.Admin.Addr, c.Peers.URLs = 3, "127.0.0.1:8081", []string{"http://10.0.0.2:8081", "https://router-1.example/"}
	}
	for want, change := range map[string]func(c *Config){
		"": func(*Config) {},
		"peers.urls: there are others, and serving.routers is 1":                    func(c *Config) { c.Routers = 1 },
		"peers.urls: the others ask this router at its admin listener":              func(c *Config) { c.Admin.Addr = AdminOff },
		`peers.urls[1]: "10.0.0.3:8081"; want the URL of a router's admin listener`: func(c *Config) { c.Peers.URLs[1] = "10.0.0.3:8081" },
		`peers.urls[1]: "http://10.0.0.2:8081" stands there twice`:                  func(c *Config) { c.Peers.URLs[1] = c.Peers.URLs[0] },
		"peers.dns: names the routers, as urls does":                                func(c *Config) { c.Peers.DNS = "routers:8081" },
		`peers.dns: "routers"; want a name and the port`:                            func(c *Config) { c.Peers.URLs, c.Peers.DNS = nil, "routers" },
		"peers.dns: there are others, and serving.routers is 1":                     func(c *Config) { c.Peers.URLs, c.Peers.DNS, c.Routers = nil, "routers:8081", 1 },
		"peers.poll: 1ms; want a time from 20ms":                                    func(c *Config) { c.Peers.Poll = time.Millisecond },
		"peers.silent_after: 300ms; want at least twice poll":                       func(c *Config) { c.Peers.SilentAfter = 300 * time.Millisecond },
		"peers.join_within: -1s; want a time from 0s":                               func(c *Config) { c.Peers.JoinWithin = -time.Second },
	} {
		c := Default()
		fine(&c)
		change(&c)
		err := c.Validate()
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	c := Default() // without peers one router is fine
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
}
