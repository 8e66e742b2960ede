//go:build !serveonly

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"gearshift/cmd/gearshift/output"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/cmd/gearshift/validation"
)

// validateEngines holds the simulator against the engines that were just measured:
// who sees here that it is far off need not wait for the training.
func (c *calibration) validateEngines(ctx context.Context) error {
	args := []string{"--scenario", c.at("measured.yaml"), "--what", validation.Alone + "," + validation.CoResident}
	if c.scenario.Serving.Backend != scenario.Upstream {
		url, stop, err := c.servePatiently(ctx, "measured.yaml", "static:"+c.scenario.Variants[0].Name)
		if err != nil {
			return err
		}
		defer stop()
		args = append(args, "--upstreams", url)
	}
	return c.validated(ctx, "validate.json", args...)
}

// validatePolicy holds the simulator against the trained policy in the router.
func (c *calibration) validatePolicy(ctx context.Context) error {
	url, stop, err := c.servePatiently(ctx, "scenario.yaml", calibrated)
	if err != nil {
		return err
	}
	defer stop()
	return c.validated(ctx, "validate-policy.json", "--scenario", c.at("scenario.yaml"), "--what", validation.Policy, "--url", url, "--store", c.at(storeName))
}

// validated runs validate, prints its report and keeps it in the file.
func (c *calibration) validated(ctx context.Context, file string, args ...string) error {
	var out bytes.Buffer
	args = append([]string{"validate"}, args...)
	args = append(args, "--time", c.validate.String(), "--tries", fmt.Sprint(c.tries), "--format", "json")
	if err := c.command(ctx, &out, args...); err != nil {
		return err
	}
	var report validation.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return err
	}
	if err := report.Table(c.stdout); err != nil {
		return err
	}
	return output.Install(c.at(file), out.Bytes(), true)
}
