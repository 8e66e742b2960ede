package config

import (
	"errors"
	"fmt"
	"time"

	"gearshift/serving/engines/agents"
)

// Drift is what follows where engines leave their profiles.
type Drift struct {
	// Correct has forecasts take a replica for as slow as its streams have just been,
	// unless there are several routers.
	Correct bool `yaml:"correct"`
	// Doubt has a rule decide instead of a learned policy while forecasts are off for replicas with
	// a large share of the answers, unless there are several routers.
	Doubt bool `yaml:"doubt"`
}

// Lifecycle is how models are loaded and unloaded.
type Lifecycle struct {
	agents.Config `yaml:",inline"`
	// DrainTimeout is how long the requests on a replica may take to end before an
	// unload, or a sleep, is given up.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
}

// defaultLifecycle leaves requests the time that the server leaves them at its end.
func defaultLifecycle() Lifecycle {
	return Lifecycle{Config: agents.DefaultConfig(), DrainTimeout: 2 * time.Minute}
}

// Validate names every fault of the configuration, by its YAML key.
func (c Lifecycle) Validate() error {
	err := c.Config.Validate()
	if c.DrainTimeout <= 0 {
		err = errors.Join(err, fmt.Errorf("drain_timeout: %v; want a positive time such as 2m", c.DrainTimeout))
	}
	return err
}
