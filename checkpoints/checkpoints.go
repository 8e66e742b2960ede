// Package checkpoints keeps trained policies and the progress of training runs
// in one bbolt file.
//
// A policy has a name and versions; a version is a [Checkpoint], stored as the
// bytes that [Encode] makes, and never changes. Everything that does change
// (which versions exist, which is in production, which runs have progress)
// stands in one checksummed index record, written in the transaction that
// changes what it describes. So a write is whole or invisible, and whatever
// reads back differently from what was written is an error, not a policy.
//
// Every operation of a [Store] opens the file, copies out and closes it: a
// server and a training run share a store without holding it.
//
// Predictors of quality are stored next to policies, by names, versions and a production mark
// of their own: see [Store.Predictors].
//
// A policy's network is also written as an ONNX file and read from one, its own or that of another
// trainer, without an ONNX library. A file of [EncodeONNX] carries the policy's description in its
// metadata; any other ONNX program sees a plain network.
package checkpoints

import (
	"encoding/json"

	"gearshift/router/nn"
	"gearshift/router/observation"
)

// Checkpoint is a trained policy and what is needed to judge whether it may
// route: where it comes from, what it observes, how well it did.
type Checkpoint struct {
	Meta    Meta
	Network *nn.MLP // maps Meta.Spec.Inputs numbers to Meta.Spec.Outputs values
}

// AdviceAlone is the margin of a policy that departs from its advice nowhere: no value is so
// much above another.
const AdviceAlone = 100

// Meta describes a checkpoint. It holds no wall-clock time: the same run makes
// the same bytes. The time of storing is the [Entry]'s.
type Meta struct {
	Format       int              `json:"format"`        // of the encoding; Encode fills it in
	Scenario     string           `json:"scenario"`      // the name of the scenario that it was trained on
	ScenarioHash string           `json:"scenario_hash"` // and the hash of its content
	Spec         observation.Spec `json:"spec"`          // what the network observes and chooses from
	SpecHash     string           `json:"spec_hash"`     // Spec.Hash() at the time of training

	Preset    string          `json:"preset,omitempty"`
	Config    json.RawMessage `json:"config,omitempty"`    // the training configuration
	Objective string          `json:"objective,omitempty"` // that it was trained for; empty: utility
	Seed      uint64          `json:"seed"`                // of the run
	Decisions int             `json:"decisions"`           // that it trained for
	// From is the digest of the checkpoint whose weights training began with,
	// empty if they were drawn.
	From string `json:"from,omitempty"`
	// OwnEpisodes is whether each of several networks was trained on episodes of its
	// own; they once all met the same.
	OwnEpisodes bool `json:"own_episodes,omitempty"`
	// Log is the logged requests that it was fine-tuned on; nil if there are none.
	Log *Log `json:"log,omitempty"`
	// Traffic is the recorded requests that it was trained and judged on; nil if those were drawn.
	Traffic *Traffic `json:"traffic,omitempty"`
	// AdviceMargin is what departing from the observation's advice must be worth;
	// the network has it built in. 0: it takes none.
	AdviceMargin float64 `json:"advice_margin,omitempty"`
	// Caution is how many times what several networks disagree by a departure from the
	// advice must be worth beyond that. Their outputs are then those of the network, one's
	// after the other's; of 0, their mean is.
	Caution float64 `json:"caution,omitempty"`
	// Jobs is of a policy that decides which inputs jobs use, and routes no requests. Its
	// Spec is empty.
	Jobs *Jobs `json:"jobs,omitempty"`
	// Placement is of a policy that decides which sizes are loaded, and routes no requests. Its Spec is empty.
	Placement *Placement `json:"placement,omitempty"`
	// Seen is the largest value of each input that training has met; empty if
	// that is not known.
	Seen []float32 `json:"seen,omitempty"`
	// Evaluation is the summary of the policy's results, in its writer's form.
	Evaluation json.RawMessage `json:"evaluation,omitempty"`
	// Judged is the [Checkpoint.Subject] that the evaluation is of; empty if it was made
	// by a version that did not say so.
	Judged string `json:"judged,omitempty"`
}

// Placement describes what a policy of placement observes.
type Placement struct {
	Version int `json:"version"` // of what it observes
	Inputs  int `json:"inputs"`
	Outputs int `json:"outputs"`
}

// Jobs describes what a policy of jobs observes, and the plan that is its advice.
type Jobs struct {
	Version int `json:"version"` // of the observation
	Inputs  int `json:"inputs"`
	Actions int `json:"actions"`
	// Foresight is the cautions of the plan, in the planner's form.
	Foresight json.RawMessage `json:"foresight,omitempty"`
}

// Traffic describes recorded requests that a policy was trained and judged on.
type Traffic struct {
	Name   string `json:"name"`   // of the trace, or of the log's files
	SHA256 string `json:"sha256"` // of their bytes
	// Requests came, of which the first Trained were learned from and the next Validated chose the
	// weights. The last, HeldOut, were for the comparison with rules alone.
	Requests  int `json:"requests"`
	Trained   int `json:"trained"`
	Validated int `json:"validated"`
	HeldOut   int `json:"held_out"`
	// HeldOutShare was asked for; BlockS is the mean length of the blocks learned from.
	HeldOutShare float64 `json:"held_out_share"`
	BlockS       float64 `json:"block_s"`
}

// Log describes logged requests that a policy was fine-tuned on, and what came of it.
type Log struct {
	Files  []string `json:"files"`  // names, without folders
	SHA256 string   `json:"sha256"` // of their bytes, one after another
	// Requests were read, of which Recorded made transitions. Explored ones came
	// from the simulator.
	Requests int `json:"requests"`
	Recorded int `json:"recorded"`
	Explored int `json:"explored"`
	Steps    int `json:"steps"` // gradient steps, of each network
	// Outcome compares the policy with the one that it began with, in its writer's
	// form.
	Outcome json.RawMessage `json:"outcome,omitempty"`
}
