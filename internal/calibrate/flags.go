package calibrate

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// flagsFile records the flags of the finished steps.
const flagsFile = "flags.json"

// flagsOf returns the flags that a step's outputs depend on, each as it would be typed.
func (c *calibration) flagsOf(step string) []string {
	policies := "no --policy"
	if len(c.Policies) > 0 {
		policies = "--policy " + strings.Join(c.Policies, " --policy ")
	}
	workload := "--workload " + c.Workload
	switch step {
	case "measure":
		return []string{fmt.Sprint("--measure-time ", c.Measure), "--batches " + list(c.Batches), "--prompts " + list(c.Prompts)}
	case "validate":
		return []string{fmt.Sprint("--validate-time ", c.Validate), fmt.Sprint("--turns ", c.Turns)}
	case "tune":
		return []string{fmt.Sprint("--tune-trials ", c.Trials), workload, fmt.Sprint("--requests ", c.Requests)}
	case "train":
		return []string{"--preset " + c.Preset, fmt.Sprint("--seed ", c.Seed)}
	case "evaluate":
		return []string{workload, fmt.Sprint("--seeds ", c.Seeds), fmt.Sprint("--requests ", c.Requests), policies}
	case "replay":
		return []string{workload, fmt.Sprint("--replay-time ", c.Replay), fmt.Sprint("--repetitions ", c.Repetitions), fmt.Sprint("--seed ", c.Seed), policies}
	case "validate-policy":
		return []string{fmt.Sprint("--validate-time ", c.Validate)}
	}
	return nil
}

// recorded returns the flags of each finished step; none of what was finished before they were
// recorded, or if the record is damaged.
func (c *calibration) recorded() map[string][]string {
	flags := map[string][]string{}
	if text, err := os.ReadFile(c.at(flagsFile)); err == nil && json.Unmarshal(text, &flags) != nil {
		return map[string][]string{}
	}
	return flags
}

// record keeps the flags of a step that has just finished.
func (c *calibration) record(step string) error {
	flags := c.recorded()
	flags[step] = c.flagsOf(step)
	return writeJSON(c.at(flagsFile), flags)
}

// skipped says that a step is finished, and with which flags where those given now are others.
func (c *calibration) skipped(step string) string {
	now, then := c.flagsOf(step), c.recorded()[step]
	var old, given []string
	for i, flag := range now {
		if len(then) == len(now) && then[i] != flag {
			old, given = append(old, then[i]), append(given, flag)
		}
	}
	if given == nil {
		return fmt.Sprintf("finished already; --from %s repeats it", step)
	}
	return fmt.Sprintf("finished already, with %s; --from %s repeats it with %s", strings.Join(old, " "), step, strings.Join(given, " "))
}

// begun refuses to repeat a step before which another one is not finished.
func (c *calibration) begun() error {
	for _, s := range steps() {
		if s.name == c.From || c.From == "" {
			break
		}
		if !c.finished(s) {
			return fmt.Errorf("--from %s: %s, which comes before it, is not finished in %s; leave --from out to go on there", c.From, s.name, c.Dir)
		}
	}
	return nil
}
