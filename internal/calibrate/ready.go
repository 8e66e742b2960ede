package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"

	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/scenario"
	"gearshift/serving/config/setting"
)

// engineSteps ask the engines.
var engineSteps = []string{"measure", "validate", "replay", "validate-policy"}

// equipped checks what the walk needs: engines that answer and have their models, with the
// key that they accept. It asks them only if a step that is left to do needs them.
func (c *calibration) equipped(ctx context.Context) error {
	if !c.asksEngines() {
		return nil
	}
	return c.enginesAnswer(ctx)
}

// asksEngines reports whether a step that is left to do needs upstream engines.
func (c *calibration) asksEngines() bool {
	return c.scenario.Serving.Backend == scenario.Upstream && slices.ContainsFunc(c.left(), func(s step) bool {
		return slices.Contains(engineSteps, s.name)
	})
}

// left returns the steps that are left to do: one that is repeated, or not finished, and all
// after it.
func (c *calibration) left() []step {
	all := steps()
	for i, s := range all {
		if s.name == c.From || !c.finished(s) {
			return all[i:]
		}
	}
	return nil
}

// enginesAnswer asks the server of each replica for its models.
func (c *calibration) enginesAnswer(ctx context.Context) error {
	keyName, err := c.keyEnv()
	if err != nil {
		return err
	}
	key := ""
	if keyName != "" {
		if key, err = setting.Key(keyName, "the key of the engines"); err != nil {
			return err
		}
	}
	client := &http.Client{Transport: loadgen.Transport()}
	defer client.CloseIdleConnections()
	var faults []error
	var said []string // of a server that stands for several replicas once
	for _, r := range c.scenario.Table().Replicas {
		at := c.scenario.Serving.Upstreams[r.Name]
		base, ok := loadgen.Base(at.URL)
		if !ok {
			faults = append(faults, fmt.Errorf("serving.upstreams.%s: %q is not the URL of a server", r.Name, at.URL))
			continue
		}
		server := loadgen.Server{URL: base, Key: key, Purpose: "measure"}
		_, err := server.Model(ctx, client, cmp.Or(at.Model, c.scenario.Variants[r.Variant].Name))
		if err == nil || slices.Contains(said, err.Error()) {
			continue
		}
		said = append(said, err.Error())
		faults = append(faults, fmt.Errorf("replica %s: %w", r.Name, err))
	}
	return errors.Join(faults...)
}

// announce says what takes its time.
func (c *calibration) announce() {
	var parts []string
	for _, s := range c.left() {
		switch s.name {
		case "measure":
			n := 0
			for _, name := range c.profileFiles() {
				if _, err := os.Stat(c.at(name)); errors.Is(err, fs.ErrNotExist) {
					n++
				}
			}
			parts = append(parts, fmt.Sprintf("%d × %s or more of measuring", n, c.Measure))
		case "replay":
			parts = append(parts, fmt.Sprintf("%d × %s of replaying", len(c.compared())*c.Repetitions, c.Replay))
		case "tune", "train", "evaluate":
			parts = append(parts, map[string]string{"tune": "tuning", "train": "training", "evaluate": "an evaluation"}[s.name])
		}
	}
	if len(parts) > 0 {
		fmt.Fprintf(c.stdout, "checked; ahead are %s\n", strings.Join(parts, ", "))
	}
}
