package main

import (
	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/app"
	"gearshift/internal/training/policies"
)

func newServeCommand() *cobra.Command {
	o := app.Options{Version: version, Remedy: remedy}
	e := askedEngines{probe: true, timeout: engineTimeout}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Serve the scenario's fleet behind an OpenAI-compatible endpoint",
		Long: `Serve the scenario's fleet behind an OpenAI-compatible endpoint: each request for
the model "auto" goes to the size that the policy chooses. Without --policy, the
store's policy in production routes; if there is none, serving.fallback or
the best of the scenario's evaluation.rules does.

With --engine, no file is needed: the engines are asked what they are, as by
"gearshift init", each model answers one short request, and the rest is guessed,
listed, and learned from traffic.

Policies: ` + policies.Forms,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := e.split(&o.Engine); err != nil {
				return err
			}
			if err := e.serve(c, &o); err != nil {
				return err
			}
			return app.Serve(c.Context(), o, c.ErrOrStderr())
		},
	}
	cli.ScenarioFlag(c, &o.Scenario)
	cli.StoreFlag(c, &o.Store)
	c.Flags().StringArrayVar(&e.engines, "engine", nil, "`[HOST=]URL` of an engine to serve without a scenario, repeatable; or native or onnx, which runs the networks of stored policies (default native)")
	e.keyFlag(c.Flags())
	c.Flags().Float64Var(&e.deadline, "deadline-ms", 0, "with --engine, the deadline per output token (default: a guess by the slowest model)")
	c.Flags().StringVar(&o.Policy, "policy", "", "`REF` of the policy (default: the one in production)")
	c.Flags().StringVar(&o.Addr, "addr", "", "`HOST:PORT` to listen on, or off (default: the scenario's)")
	c.Flags().StringVar(&o.ExtProc, "extproc", "", "`HOST:PORT` at which Envoy, or a gateway that speaks as it does, asks where requests go (default: the scenario's, or none)")
	c.Flags().StringVar(&o.Admin, "admin-addr", "", "`HOST:PORT` of the admin listener, or off (default: the scenario's)")
	c.Flags().StringVar(&o.HTTP3, "http3", "", "UDP `HOST:PORT` at which streaming clients open WebTransports (default: the scenario's, or none)")
	c.Flags().StringVar(&o.State, "state", "", "`FILE` that keeps the states of controllers across restarts (failover, versions, the load by which replicas are counted), and keeps a second router's out; or etcd://HOST:PORT/PREFIX, where the controllers of one of several routers act (default: the store, if that is in etcd)")
	c.Flags().StringVar(&o.FailoverState, "failover-state", "", "`FILE` for the state of failover alone (default: that of --state)")
	c.Flags().StringVar(&o.RolloutState, "rollout-state", "", "`FILE` for which versions of models are where alone (default: that of --state)")
	c.Flags().StringVar(&o.Keys, "keys", "", "`FILE` of the API keys (default: the scenario's)")
	c.Flags().BoolVar(&o.NoTuning, "no-tuning", false, "do not search for a rule in the background where the scenario lists none")
	return c
}
