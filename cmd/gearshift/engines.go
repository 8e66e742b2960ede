package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/app"
	"gearshift/internal/calibrate/draft"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/serving/engines/address"
)

// askedEngines names the engines that are asked for their models and limits.
type askedEngines struct {
	engines, keys []string
	// probe sends each model one short request.
	probe   bool
	timeout time.Duration
	// deadline is in ms per token; 0: a guess.
	deadline float64
}

// keyFlag adds --key-env.
func (o *askedEngines) keyFlag(f *pflag.FlagSet) {
	f.StringArrayVar(&o.keys, "key-env", nil, "environment `VARIABLE` with the engines' API key, or HOST=VARIABLE for one host's; repeatable")
}

// engineTimeout bounds the time in which an engine answers a question.
const engineTimeout = 5 * time.Second

// split takes the name of a runtime, native or onnx, out of the values of --engine.
func (o *askedEngines) split(runtime *string) error {
	*runtime = onnxruntime.Native
	var urls []string
	for _, text := range o.engines {
		if text == onnxruntime.Native || text == onnxruntime.ONNX {
			*runtime = text
		} else {
			urls = append(urls, text)
		}
	}
	o.engines = urls
	switch {
	case len(urls) == 0 && len(o.keys) > 0:
		return errors.New("--key-env is for --engine [HOST=]URL, which is missing; a scenario names keys by serving.upstreams[].api_key_env")
	case len(urls) == 0 && o.deadline != 0:
		return errors.New("--deadline-ms is for --engine [HOST=]URL, which is missing; a scenario has tasks[].deadline_ms")
	}
	return nil
}

// serve asks the engines, if any are named, and sets the options to serve a scenario made of their answers.
func (o *askedEngines) serve(c *cobra.Command, to *app.Options) error {
	if len(o.engines) == 0 {
		return nil
	}
	if o.deadline < 0 {
		return fmt.Errorf("--deadline-ms %v: want milliseconds above 0", o.deadline)
	}
	if c.Flags().Changed("scenario") {
		return fmt.Errorf("--scenario %s and --engine %s: want one of them; a scenario names its engines by serving.upstreams, and its networks run on native or onnx", to.Scenario, o.engines[0])
	}
	targets, err := o.targets()
	if err != nil {
		return err
	}
	late := time.AfterFunc(engineTimeout, func() {
		_, _ = fmt.Fprintf(c.ErrOrStderr(), "Waiting for the engines' answers; a model has %v for the first\n", draft.Patience*engineTimeout)
	})
	f, err := o.discover(c.Context(), targets)
	late.Stop()
	if err != nil {
		return err
	}
	to.Scenario = "engines"
	to.Remedy = func(string, string, string) (key, commands string) {
		return "to_keep_what_is_learned", "gearshift scenario save -o mine.yaml"
	}
	to.Text, to.Assumed, err = f.Probed(to.Scenario, o.deadline)
	return err
}

// targets returns the engines that the flags name.
func (o *askedEngines) targets() ([]draft.Target, error) {
	if len(o.engines) == 0 {
		return nil, errors.New("--engine is missing: want an engine's URL, such as --engine gpu0=http://127.0.0.1:8000")
	}
	var list []draft.Target
	for _, text := range o.engines {
		t := draft.Target{URL: text}
		// A host has no colon, and a URL has one before its first equals sign.
		if host, at, named := strings.Cut(text, "="); named && !strings.Contains(host, ":") {
			if host == "" || at == "" {
				return nil, fmt.Errorf("--engine %q: want the host's name on one side of the equals sign and a URL on the other, such as gpu0=http://10.0.0.1:8000", text)
			}
			t.Host, t.URL = host, at
		}
		if !strings.Contains(t.URL, "://") && !address.IsSocket(t.URL) {
			t.URL = "http://" + t.URL
		}
		if _, err := scenario.UpstreamURL(t.URL); err != nil {
			return nil, fmt.Errorf("--engine %s: %w", text, err)
		}
		if t.Host == "" {
			t.Host = hostOf(t.URL)
		}
		if slices.ContainsFunc(list, func(other draft.Target) bool {
			return baseOf(other.URL) == baseOf(t.URL)
		}) {
			return nil, fmt.Errorf("--engine %s: the same URL twice; one engine is one replica", text)
		}
		list = append(list, t)
	}
	return list, o.unlock(list)
}

// baseOf returns the URL without what may be left out at its end.
func baseOf(at string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(at, "/"), "/v1"), "/")
}

// hostOf names the host of an engine that was given without one.
func hostOf(at string) string {
	if address.IsSocket(at) {
		return "local"
	}
	u, err := url.Parse(at)
	if err != nil {
		return "host"
	}
	host := u.Hostname()
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return "local"
	}
	return strings.ReplaceAll(host, ":", "-")
}

// unlock finds each target's key.
func (o *askedEngines) unlock(list []draft.Target) error {
	for _, text := range o.keys {
		host, variable, named := strings.Cut(text, "=")
		if !named {
			host, variable = "", text
		}
		key, err := cli.KeyFrom(variable)
		if err != nil {
			return fmt.Errorf("--key-env %s: this environment variable is empty", variable)
		}
		found := false
		for i := range list {
			if host == "" || list[i].Host == host {
				list[i].KeyEnv, list[i].Key, found = variable, strings.TrimSpace(key), true
			}
		}
		if !found {
			return fmt.Errorf("--key-env %s: no --engine is on host %q", text, host)
		}
	}
	return nil
}

// discover asks all engines, and returns all their faults in one error.
func (o *askedEngines) discover(ctx context.Context, targets []draft.Target) (*draft.Fleet, error) {
	transport := loadgen.Transport()
	defer transport.CloseIdleConnections()
	asker := draft.Asker{Client: &http.Client{Transport: transport}, Timeout: o.timeout, Probe: o.probe}
	var engines []draft.Engine
	var faults []error
	for _, t := range targets {
		e, err := asker.Ask(ctx, t)
		if err != nil {
			faults = append(faults, err)
		}
		engines = append(engines, e)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return draft.Compose(engines)
}
