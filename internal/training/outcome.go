package training

import (
	"fmt"
	"io"
	"math"

	"gearshift/env/evaluation"
)

// Outcome compares a policy that was fine-tuned on a log with the one that it began with. A
// checkpoint carries it.
type Outcome struct {
	From string `json:"from"`
	// Objective is what both were trained for; empty: utility.
	Objective string `json:"objective,omitempty"`
	// Before and After are their scores on validation seeds of the scenario's
	// workloads, by the objective, in the simulator.
	Before float64 `json:"validation_before"`
	After  float64 `json:"validation_after"`
	// Slowness is by how much the engines were made slower in all of these, by
	// variant, to take as long as in the log. Nil if the log lacks requests.
	Slowness map[string]float64 `json:"slowness,omitempty"`
	// HeldOut is by how much it is better on the end of the log, simulated: arrivals
	// that it has not learnt from. It is of mean utility, whatever the objective. Nil if the
	// log lacks requests.
	HeldOut  *evaluation.Interval `json:"held_out,omitempty"`
	Requests int                  `json:"held_out_requests,omitempty"`
}

// gained is by how much the score is higher, to the digits that are shown.
func (o *Outcome) gained() float64 { return math.Round((o.After-o.Before)*1e4)/1e4 + 0 } // + 0: not −0

// worse reports whether it is, by either measure that is of the objective.
func (o *Outcome) worse() bool {
	return o.gained() < 0 || o.Objective == "" && o.HeldOut != nil && o.HeldOut.Hi < 0
}

// write reports whether it is better.
func (o *Outcome) write(w io.Writer) {
	verdict := "better"
	if o.gained() < 0 {
		verdict = "WORSE"
	} else if o.gained() == 0 {
		verdict = "no better"
	}
	var by, utility string // what the measures are of
	if o.Objective != "" {
		by, utility = " of "+o.Objective, " of utility"
	}
	fmt.Fprintf(w, "validation workloads, simulated:  %.4f%s, was %.4f with %s: %s (%+.4f)\n", o.After, by, o.Before, o.From, verdict, o.gained())
	if h := o.HeldOut; h != nil {
		verdict = "no difference for sure"
		if h.Lo > 0 {
			verdict = "better"
		} else if h.Hi < 0 {
			verdict = "WORSE"
		}
		fmt.Fprintf(w, "end of the log, simulated:        %+.4f (%+.4f to %+.4f)%s compared with %s over %d requests: %s\n", h.Mean, h.Lo, h.Hi, utility, o.From, o.Requests, verdict)
	}
}
