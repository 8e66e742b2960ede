//go:build !serveonly

package measure

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
// who sees here that it is far off need not wait for the training. Turns measure them
// again, next to each load; then their profiles are the walk's.
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
	if c.turns > 0 {
		args = append(args, "--turns", fmt.Sprint(c.turns), "--batches", list(c.batches), "--prompts", list(c.prompts), "--out", c.dir)
	}
	report, err := c.validated(ctx, args...)
	if err != nil {
		return err
	}
	return c.keepValidation(ctx, report)
}

// keepValidation ends the step. What was measured by turns is in the place of the
// profiles before by then, and goes into the scenario that the next steps go by.
func (c *calibration) keepValidation(ctx context.Context, report []byte) error {
	if c.turns > 0 {
		if err := c.joinProfiles(ctx); err != nil {
			return err
		}
	}
	return output.Install(c.at("validate.json"), report, true)
}

// validatePolicy holds the simulator against the trained policy in the router.
func (c *calibration) validatePolicy(ctx context.Context) error {
	url, stop, err := c.servePatiently(ctx, "scenario.yaml", calibrated)
	if err != nil {
		return err
	}
	defer stop()
	report, err := c.validated(ctx, "--scenario", c.at("scenario.yaml"), "--what", validation.Policy, "--url", url, "--store", c.at(storeName))
	if err != nil {
		return err
	}
	return output.Install(c.at("validate-policy.json"), report, true)
}

// validated runs validate and prints its report, which it returns as JSON.
func (c *calibration) validated(ctx context.Context, args ...string) ([]byte, error) {
	var out bytes.Buffer
	args = append([]string{"validate"}, args...)
	args = append(args, "--time", c.validate.String(), "--tries", fmt.Sprint(c.tries), "--stretch", "--format", "json")
	if err := c.command(ctx, &out, args...); err != nil {
		return nil, err
	}
	var report validation.Report
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		return nil, err
	}
	return out.Bytes(), report.Table(c.stdout)
}
