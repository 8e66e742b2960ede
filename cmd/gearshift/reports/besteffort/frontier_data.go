package besteffort

import (
	"encoding/json"
	"fmt"
	"os"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/objective"
)

// Frontier is what the figure of utility against time near the peak and its tables are
// made of: all that was played, and nothing of how. A file keeps it, so that they can be
// drawn again without training, tuning or playing.
type Frontier struct {
	Format   string `json:"format"`
	Scenario string `json:"scenario"`
	Preset   string `json:"preset"`
	Seeds    int    `json:"seeds"`
	Repeat   string `json:"repeat"` // as in [report.Report]
	// Points are in the order of their objectives, from mean utility to time near the peak.
	Points []Point `json:"points"`
	// Large is the largest size alone.
	Large Performance `json:"large"`
}

// Point is one objective of a [Frontier]: the policy that is trained for it and the
// rule that is the best by it.
type Point struct {
	Objective objective.Objective `json:"objective"`
	Policy    Performance         `json:"policy"`
	Rule      Performance         `json:"rule"`
	Verdict   evaluation.Verdict  `json:"verdict"`
}

// Performance is how one policy did over the workloads that policies are judged by, each
// weighing the same.
type Performance struct {
	Policy  string              `json:"policy"`
	Utility evaluation.Interval `json:"utility"`
	// NearPeak is the share of windows that earn at least .98 of their peak.
	NearPeak evaluation.Interval `json:"near_peak"`
	// Value is by the point's objective.
	Value evaluation.Interval `json:"value"`
	// On is how it did on u1 and u2.
	On map[string]OnWorkload `json:"on"`
}

// OnWorkload is how a policy did on one workload.
type OnWorkload struct {
	Utility evaluation.Interval `json:"utility"`
	// Windows are counted as in [evaluation.Result].
	Windows map[string]float64 `json:"windows"`
}

// The files of a report's frontier, and what marks that of its points.
const (
	frontierFile    = "frontier.json"
	frontierPicture = "frontier.svg"
	frontierFormat  = "gearshift-frontier/1"
)

// readFrontier reads the file of points that an earlier report has written.
func readFrontier(file string) (*Frontier, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the points of a frontier: %w", err)
	}
	var f Frontier
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("cannot read the points of a frontier: %s: %w", file, err)
	}
	if f.Format != frontierFormat || len(f.Points) == 0 {
		return nil, fmt.Errorf("cannot read the points of a frontier: %s holds none in the format %s, as a report's %s does", file, frontierFormat, frontierFile)
	}
	return &f, nil
}

// files are the points and the picture of them.
func (f *Frontier) files() ([]report.File, error) {
	c := *f
	c.Format = frontierFormat
	points, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", frontierFile, err)
	}
	figure := f.figure()
	picture, err := figure.Standalone()
	return []report.File{{Name: frontierFile, Content: append(points, '\n')}, {Name: frontierPicture, Content: picture}}, err
}
