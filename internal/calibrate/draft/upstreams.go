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
// URL, from whose port those of the other hosts count up, or HOST=URL for each. REPLICA=URL is that of one replica.
func WithUpstreams(ref string, at []string) ([]byte, error) {
	s, err := scenario.Load(ref)
	if err != nil {
		return nil, err
	}
	t := s.Table()
	own, at, err := replicaServers(s, at)
	if err != nil {
		return nil, err
	}
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
		if url := own[engine]; url != "" {
			valueAt(endpoint, "url", yaml.ScalarNode).Value = url
			continue
		}
		host := t.Replicas[i].Host
		if servers[host] == "" {
			return nil, fmt.Errorf("--at: no URL for host %s", t.Hosts[host].Name)
		}
		valueAt(endpoint, "url", yaml.ScalarNode).Value = servers[host]
		if name, _, _ := strings.Cut(engine, "@"); again(t, i) && s.Rollout() == nil {
			valueAt(endpoint, "model", yaml.ScalarNode).Value = name
		}
	}
	return output.YAML(doc)
}

// again reports whether another replica of the variant is on the replica's host before it. One server has it by its
// own name then, as "gearshift engine" does.
func again(t *fleet.Table, replica int) bool {
	r := &t.Replicas[replica]
	return slices.ContainsFunc(t.Replicas[:replica], func(o fleet.Replica) bool { return o.Variant == r.Variant && o.Host == r.Host && r.Worker == 0 })
}

// replicaServers returns the URLs of servers that are of one replica, by its name, and the other entries.
func replicaServers(s *scenario.Scenario, at []string) (own map[string]string, rest []string, err error) {
	own = map[string]string{}
	for _, entry := range at {
		name, address, named := strings.Cut(entry, "=")
		if !named || !strings.Contains(name, "@") || strings.Contains(name, "://") {
			rest = append(rest, entry)
			continue
		}
		if !slices.Contains(s.EngineNames(), name) {
			return nil, nil, fmt.Errorf("--at %s: no replica %q; there are %s", entry, name, strings.Join(s.EngineNames(), ", "))
		}
		if _, err := baseURL(address); err != nil {
			return nil, nil, err
		}
		own[name] = address
	}
	return own, rest, nil
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
