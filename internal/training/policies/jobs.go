package policies

import (
	"encoding/json"
	"errors"
	"fmt"

	"gearshift/checkpoints"
	"gearshift/router/modality"
)

// Jobs loads the policy of jobs that ref names.
func (s *Source) Jobs(ref string) (modality.Network, checkpoints.Entry, error) {
	parsed, err := StoredRef(ref)
	if err != nil {
		return modality.Network{}, checkpoints.Entry{}, err
	}
	c, entry, err := s.Store.Get(parsed)
	if err != nil {
		return modality.Network{}, entry, err
	}
	n, err := JobsNetwork(c)
	return n, entry, err
}

// errRoutes says that a policy is one of single requests.
var errRoutes = errors.New("it routes requests; gearshift modality train makes a policy that decides which inputs jobs use")

// JobsNetwork is the policy that a checkpoint holds. It is an error if that is not one of jobs,
// or observes what another version of this program does.
func JobsNetwork(c *checkpoints.Checkpoint) (modality.Network, error) {
	j := c.Meta.Jobs
	switch {
	case j == nil:
		return modality.Network{}, errRoutes
	case j.Version != modality.ObservationVersion:
		return modality.Network{}, fmt.Errorf("it observes version %d of what is known of jobs, this gearshift version %d; train it again", j.Version, modality.ObservationVersion)
	}
	n := modality.Network{Weights: c.Network, Seen: c.Meta.Seen}
	if err := json.Unmarshal(j.Foresight, &n.Cautions); err != nil {
		return modality.Network{}, fmt.Errorf("the cautions of its plan cannot be read: %w", err)
	}
	return n, n.Validate()
}

// Foresight names the cautions of the plan that advises a policy of jobs.
func Foresight(j *checkpoints.Jobs) string {
	var c modality.Cautions
	switch err := json.Unmarshal(j.Foresight, &c); {
	case err != nil || c.Validate() != nil:
		return "foresight that this gearshift cannot read"
	case len(c) <= 1:
		return "foresight of caution " + c.String()
	}
	leaves := 0
	for i := range c {
		if c[i].Low == 0 {
			leaves++
		}
	}
	_, most := c.Range()
	return fmt.Sprintf("foresight of a caution up to %g, which %d cases of load and batch times choose", most, leaves)
}
