package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"gearshift/cmd/gearshift/cli"
	"gearshift/env/engine"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/backend"
	"gearshift/serving/engineserver"
	"gearshift/workloads"
)

// engineOptions are the flags of engine.
type engineOptions struct {
	scenario, host, replica, addr, faults, key string
	memory                                     scenario.Bytes
	load, hosts                                []string
	faulty                                     bool // --fault is given
	seed                                       uint64
	cores                                      float64
	local                                      localOptions
	agent                                      agentOptions
}

func newEngineCommand() *cobra.Command {
	var o engineOptions
	c := &cobra.Command{
		Use:   "engine",
		Short: "Serve the simulated engines of a host, or models, as an inference server of its own",
		Long: `Serve the simulated engines of a host as an OpenAI-compatible inference server, with
vLLM's metrics, so that a router can be tried across real connections without a GPU:

  gearshift engine --host gpu0 --addr 127.0.0.1:8101

One process serves all variants of the host by their names, since they contend; where a
model's variants share an engine, also the model by its own, in the time of the variant for
the inputs that a request has. Without --host, every host of the scenario is served, on ports that count up from --addr's.
"gearshift scenario upstreams" writes a scenario for the router in front of them.

With --model it serves real models instead, by ONNX Runtime, each by its folder's name.
With --repository it serves a folder of such models, of which --load names those to load at
the start ("*" is all); the others are loaded and unloaded while it serves, by Triton's
repository API, and put to sleep and woken by vLLM's endpoints:

  gearshift engine --model models/small --model models/large
  gearshift models make --out models
  gearshift engine --repository models --memory 2GiB --kv-tokens 4096 --load small
  curl -X POST localhost:8101/v2/repository/models/large/load

With --agent it reports to a router whose scenario has failover: it registers, sends
heartbeats, loads and unloads what the router orders, and fetches models from it that its
repository lacks:

  gearshift engine --repository models --agent http://10.0.0.1:8081 --agent-host h1

Faults (--fault "hang=0.01,cut=0.05", or, where --fault is given, POST them to /fault at run time):
` + engineserver.FaultForms + ".",
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := errors.Join(o.onlyModels(c.Flags().Changed), o.agent.check(c.Flags().Changed)); err != nil {
				return err
			}
			o.faulty = c.Flags().Changed("fault")
			if o.local.any() {
				return serveModels(c.Context(), o, c.ErrOrStderr())
			}
			return serveEngines(c.Context(), o, c.ErrOrStderr())
		},
	}
	o.flags(c)
	return c
}

// flags adds the flags of the command.
func (o *engineOptions) flags(c *cobra.Command) {
	f := c.Flags()
	cli.ScenarioFlag(c, &o.scenario)
	f.StringVar(&o.host, "host", "", "`NAME` of the host (default: every host, one port each)")
	f.StringVar(&o.replica, "replica", "", "`NAME` of a replica, variant@host, to serve alone")
	f.StringVar(&o.addr, "addr", "127.0.0.1:8101", "`HOST:PORT` to listen on; the first of several hosts'")
	f.StringVar(&o.faults, "fault", "", "`LIST` of faults to begin with, or none; POST /fault changes them (default: no faults, and no /fault)")
	f.StringSliceVar(&o.hosts, "hosts", nil, "`NAMES` of this server, in addition to localhost and addresses, where it is asked on a loopback address")
	f.StringVar(&o.key, "api-key-env", "", "`VARIABLE` of the environment with the key that clients must send (default: none)")
	f.Uint64Var(&o.seed, "seed", 0, "of the lengths of answers, and of the faults")
	f.Float64Var(&o.cores, "cores", 0, "of the host, as its load says them (default: the machine's with --model and --repository, else unknown)")
	f.StringVar(&o.local.repository, "repository", "", "`DIR` with a folder for each model to serve")
	f.TextVar(&o.memory, "memory", scenario.Bytes(0), "`SIZE` of what loaded models may take together, such as 2GiB (default: no bound)")
	f.StringArrayVar(&o.load, "load", nil, "`NAME` of a model to load at the start, or * for all; may be repeated (default: a scenario's engines, and each --model)")
	f.StringArrayVar(&o.local.paths, "model", nil, "`DIR` of a model to serve; may be repeated")
	f.IntVar(&o.local.threads, "threads", 1, "of a model's: that compute a step together")
	f.IntVar(&o.local.maxSequences, "max-sequences", 16, "of a model's running batch")
	f.StringToStringVar(&o.local.batchMS, "batch-ms", nil, "`SIZE=MS,…`: times that batches of a classifier take at least, to emulate an accelerator (default: as computed)")
	f.IntVar(&o.local.kv, "kv-tokens", 0, "of a model's cache (default: all that its batch may come to)")
	f.IntVar(&o.local.length, "context", 0, "of a model, in tokens (default: its own)")
	f.StringVar(&o.local.provider, "execution-provider", scenario.CPU, "of models: cpu or cuda")
	o.agent.flags(f)
}

// server is what the flags say of the server, whatever its engines.
func (o engineOptions) server() (c engineserver.Config, err error) {
	if c.Faults, err = engineserver.ParseFaults(o.faults); err != nil {
		return c, fmt.Errorf("--fault: %w", err)
	}
	if !(o.cores >= 0 && o.cores <= 4096) { // NaN fails too
		return c, fmt.Errorf("--cores %v: want a number up to 4096, such as 2 or 0.5, or 0 for what is known", o.cores)
	}
	if err := access.ValidateHosts(o.hosts); err != nil {
		return c, fmt.Errorf("--hosts: %w", err)
	}
	c.Faulty, c.Hosts = o.faulty, o.hosts
	c.FaultSeed, c.Memory, c.Load, c.Cores = o.seed, int64(o.memory), o.load, o.cores
	c.Key, err = cli.KeyFrom(o.key)
	return c, err
}

func serveEngines(ctx context.Context, o engineOptions, stderr io.Writer) error {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return err
	}
	c, err := o.server()
	if err != nil {
		return err
	}
	hosts, err := enginesOf(s, o)
	if err != nil {
		return err
	}
	addrs, err := countUp(o.addr, len(hosts))
	if err != nil {
		return err
	}
	if o.agent.host != "" && len(hosts) > 1 {
		return fmt.Errorf("--agent-host %s names one host, and there are %d; want --host too", o.agent.host, len(hosts))
	}
	group, ctx := errgroup.WithContext(ctx)
	for i, engines := range hosts {
		c.Log = slog.New(slog.NewTextHandler(stderr, nil)).With("host", engines.Table.Hosts[0].Name)
		c.Engines, c.FaultSeed, c.BlockTokens = engines, engines.Seed, s.Engine.BlockTokens
		c.Shared = sharedModels(s, engines.Table)
		if c.Memory = int64(o.memory); c.Memory == 0 && len(engines.Table.Models) > 0 {
			c.Memory = engines.Table.Hosts[0].Memory
		}
		if x := s.Rollout(); x != nil {
			c.Versions = x.Pattern
		}
		o.agent.configure(&c, "")
		server, err := engineserver.New(c)
		if err != nil {
			return err
		}
		defer server.Close()
		listener, err := net.Listen("tcp", addrs[i])
		if err != nil {
			return fmt.Errorf("cannot listen for host %s: %w", engines.Table.Hosts[0].Name, err)
		}
		defer listener.Close()
		name, err := o.agent.hostName(engines.Table.Hosts[0].Name)
		if err != nil {
			return err
		}
		config := c // of this host
		group.Go(func() error { return o.agent.serve(ctx, config, server, listener, name) })
	}
	return group.Wait()
}

// countUp is n addresses whose ports follow each other; port 0 is any free one.
func countUp(addr string, n int) ([]string, error) {
	host, text, err := net.SplitHostPort(addr)
	port, numberErr := strconv.ParseUint(text, 10, 16)
	if err != nil || numberErr != nil || int(port)+n-1 > 65535 {
		return nil, fmt.Errorf("--addr %q: want HOST:PORT with room for %d ports, such as 127.0.0.1:8101", addr, n)
	}
	addrs := make([]string, n)
	for i := range addrs {
		next := int(port) + i
		if port == 0 {
			next = 0
		}
		addrs[i] = net.JoinHostPort(host, strconv.Itoa(next))
	}
	return addrs, nil
}

// enginesOf is what to run for each host that the flags ask for.
func enginesOf(s *scenario.Scenario, o engineOptions) ([]backend.SimulatedConfig, error) {
	t := s.Table()
	if o.host != "" && o.replica != "" {
		return nil, fmt.Errorf("--host %s --replica %s: want one of them", o.host, o.replica)
	}
	var list []backend.SimulatedConfig
	for h, host := range t.Hosts {
		var chosen []int
		for _, r := range t.ReplicasOn(h) {
			if (o.host == "" || o.host == host.Name) && (o.replica == "" || o.replica == t.Replicas[r].Name) {
				chosen = append(chosen, r)
			}
		}
		if len(chosen) == 0 {
			continue
		}
		engines, err := engineConfig(s, t, h, chosen)
		if err != nil {
			return nil, err
		}
		engines.Seed = workloads.Seed(workloads.Serving, 1+o.seed+uint64(h)<<32)
		list = append(list, engines)
	}
	if len(list) > 0 {
		return list, nil
	}
	if o.replica != "" {
		return nil, fmt.Errorf("--replica %q: there are %s", o.replica, scenario.Names(t.Replicas, func(r fleet.Replica) string { return r.Name }))
	}
	return nil, fmt.Errorf("--host %q: there are %s with replicas", o.host, scenario.Names(t.Hosts, func(h fleet.Host) string { return h.Name }))
}

// sharedModels are the models whose variants share an engine, as far as the replicas of a host are
// of them. Variants that read images at low detail come last, so that of two with the same inputs
// the other is used.
func sharedModels(s *scenario.Scenario, t *fleet.Table) (list []engineserver.Shared) {
	for _, m := range s.Weights {
		shared := engineserver.Shared{Name: m.Name, Modalities: m.Modalities}
		for _, detail := range []string{"", scenario.LowDetail} {
			for _, r := range t.Replicas {
				if v := &s.Variants[r.Variant]; r.Worker > 0 && v.Model == m.Name && v.ImageDetail == detail {
					shared.Combinations = append(shared.Combinations, engineserver.Combination{Variant: v.Name, Modalities: v.Modalities})
				}
			}
		}
		if len(shared.Combinations) > 0 {
			list = append(list, shared)
		}
	}
	return list
}

// engineConfig is a fleet of one host with the chosen of its replicas.
func engineConfig(s *scenario.Scenario, t *fleet.Table, host int, chosen []int) (backend.SimulatedConfig, error) {
	c := backend.SimulatedConfig{OutputTokens: s.Workload.OutputSampler(t.Tasks)}
	profiles, tokens := s.Profiles(), s.KVTokens()
	var replicas []fleet.Replica
	for _, i := range chosen {
		e, err := engine.New(s.Engine, profiles[i], tokens[i])
		if err != nil {
			return c, fmt.Errorf("replica %s: %w", t.Replicas[i].Name, err)
		}
		c.Engines = append(c.Engines, e)
		r := t.Replicas[i]
		r.Host = 0
		replicas = append(replicas, r)
	}
	var err error
	c.Table, err = fleet.NewTable(t.Tasks, t.Variants, t.Hosts[host:host+1], replicas, t.Models...)
	return c, err
}
