package main

import (
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

func newUpstreamsCommand() *cobra.Command {
	var at []string
	c := &cobra.Command{
		Use:   "upstreams NAME|FILE --at [HOST=]URL…",
		Short: "Print a scenario whose replicas are OpenAI-compatible servers",
		Long: `Print the scenario with serving.backend set to upstream, and the server at the URL of
each host for the replicas there, ready for "gearshift serve":

  gearshift scenario upstreams titan-rtx-opt --at gpu0=http://10.0.0.1:8000 --at gpu1=…

A URL alone is the first host's server; the others' are taken to be on the ports that
follow, as "gearshift engine" serves them.`,
		Args: one,
		RunE: func(c *cobra.Command, args []string) error { return printUpstreams(args[0], at, c.OutOrStdout()) },
	}
	c.Flags().StringArrayVar(&at, "at", nil, "`URL` of the first host's server, or HOST=URL for each host")
	if err := c.MarkFlagRequired("at"); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

func printUpstreams(ref string, at []string, out io.Writer) error {
	s, err := scenario.Load(ref)
	if err != nil {
		return err
	}
	t := s.Table()
	servers, err := hostServers(t, at)
	if err != nil {
		return err
	}
	text, err := scenarioText(ref)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("cannot read scenario: %w", err)
	}
	serving := valueAt(doc.Content[0], "serving", yaml.MappingNode)
	*valueAt(serving, "backend", yaml.ScalarNode) = yaml.Node{Kind: yaml.ScalarNode, Value: scenario.Upstream}
	drop(serving, "models") // which another backend computes
	upstreams := valueAt(serving, "upstreams", yaml.MappingNode)
	*upstreams = yaml.Node{Kind: yaml.MappingNode}
	for _, r := range t.Replicas {
		endpoint := valueAt(upstreams, r.Name, yaml.MappingNode)
		endpoint.Style = yaml.FlowStyle
		valueAt(endpoint, "url", yaml.ScalarNode).Value = servers[r.Host]
	}
	edited, err := yamlText(&doc)
	if err != nil {
		return err
	}
	_, err = out.Write(edited)
	return err
}

// scenarioText is the text of a scenario that is built in, or a file's.
func scenarioText(ref string) ([]byte, error) {
	if slices.Contains(workloads.ScenarioNames(), ref) {
		return workloads.Scenario(ref)
	}
	return os.ReadFile(ref)
}

// valueAt is the value of the key in a mapping, made if there is none.
func valueAt(mapping *yaml.Node, key string, kind yaml.Kind) *yaml.Node {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	value := &yaml.Node{Kind: kind}
	mapping.Content = append(mapping.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: key}, value)
	return value
}

// drop removes the key from a mapping.
func drop(mapping *yaml.Node, key string) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
			return
		}
	}
}

// hostServers is the URL of each host's server.
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
			return nil, fmt.Errorf("--at %s: no host %q; there are %s", entry, name, names(len(t.Hosts), func(i int) string { return t.Hosts[i].Name }))
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
	port, err := strconv.Atoi(base.Port())
	if err != nil {
		return nil, fmt.Errorf("--at %s: want a port, from which those of the other hosts count up", first)
	}
	list := make([]string, n)
	for i := range list {
		base.Host = net.JoinHostPort(base.Hostname(), strconv.Itoa(port+i))
		list[i] = base.String()
	}
	return list, nil
}

func baseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--at %s: want http:// or https:// and a host", text)
	}
	return u, nil
}
