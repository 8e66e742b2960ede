package draft

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/output"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
)

// WithUpstreams returns the text of the scenario with the servers at the URLs for its replicas: one
// URL, from whose port those of the other hosts count up, or HOST=URL for each.
func WithUpstreams(ref string, at []string) ([]byte, error) {
	s, err := scenario.Load(ref)
	if err != nil {
		return nil, err
	}
	t := s.Table()
	servers, err := hostServers(t, at)
	if err != nil {
		return nil, err
	}
	doc, root, err := document(ref)
	if err != nil {
		return nil, err
	}
	serving := valueAt(root, "serving", yaml.MappingNode)
	*valueAt(serving, "backend", yaml.ScalarNode) = yaml.Node{Kind: yaml.ScalarNode, Value: scenario.Upstream}
	drop(serving, "models") // which another backend computes
	upstreams := valueAt(serving, "upstreams", yaml.MappingNode)
	*upstreams = yaml.Node{Kind: yaml.MappingNode}
	for i, engine := range s.EngineNames() {
		endpoint := valueAt(upstreams, engine, yaml.MappingNode)
		endpoint.Style = yaml.FlowStyle
		valueAt(endpoint, "url", yaml.ScalarNode).Value = servers[t.Replicas[i].Host]
	}
	return output.YAML(doc)
}

// hostServers returns the URL of each host's server.
func hostServers(t *fleet.Table, at []string) ([]string, error) {
	servers := make([]string, len(t.Hosts))
	for _, entry := range at {
		name, address, named := strings.Cut(entry, "=")
		if !named {
			if len(at) > 1 {
				return nil, fmt.Errorf("--at %s: of several, each must be HOST=URL", entry)
			}
			return countUpURL(entry, len(t.Hosts))
		}
		h := slices.IndexFunc(t.Hosts, func(h fleet.Host) bool { return h.Name == name })
		if h < 0 {
			return nil, fmt.Errorf("--at %s: no host %q; there are %s", entry, name, scenario.Names(t.Hosts, func(h fleet.Host) string { return h.Name }))
		}
		if _, err := baseURL(address); err != nil {
			return nil, err
		}
		servers[h] = address
	}
	for h, url := range servers {
		if url == "" && len(t.ReplicasOn(h)) > 0 {
			return nil, fmt.Errorf("--at: no URL for host %s", t.Hosts[h].Name)
		}
	}
	return servers, nil
}

// countUpURL is n URLs whose ports follow each other.
func countUpURL(first string, n int) ([]string, error) {
	base, err := baseURL(first)
	if err != nil {
		return nil, err
	}
	if n == 1 {
		return []string{first}, nil
	}
	port, err := strconv.Atoi(base.Port())
	if err != nil {
		return nil, fmt.Errorf("--at %s: want a port, from which those of the other hosts count up", first)
	}
	if port < 1 || port+n-1 > 65535 {
		return nil, fmt.Errorf("--at %s: want a port with room for %d from there on, such as 8101", first, n)
	}
	list := make([]string, n)
	for i := range list {
		base.Host = net.JoinHostPort(base.Hostname(), strconv.Itoa(port+i))
		list[i] = base.String()
	}
	return list, nil
}

func baseURL(text string) (*url.URL, error) {
	u, err := scenario.UpstreamURL(text)
	if err != nil {
		return nil, fmt.Errorf("--at %w", err)
	}
	return u, nil
}
