package feedback

import "gearshift/router/quality"

// Arm says who chose the variant that answered.
type Arm uint8

// The arms.
const (
	InCharge Arm = iota // the policy in charge
	OnTrial             // the policy on trial
	Pinned              // the client
	arms
)

// Arms are the names of the arms, as metrics have them.
var Arms = [arms]string{"in_charge", "trial", "pinned"}

// Label is the score of an answer, with what is known of the request.
type Label struct {
	Owner string
	// Own says that the router has found the score, and no client.
	Own           bool
	Task, Variant int
	Arm           Arm
	Candidate     bool    // the predictor on trial predicted it
	Score         float64 // from 0 to 1
	// Predicted is the score that was expected, if it is known.
	Predicted float64
	Known     bool
	Sample    quality.Sample
}
