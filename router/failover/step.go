package failover

import "time"

// StepKind says what a step of a failover is.
type StepKind string

// The kinds of steps.
const (
	StepLost        StepKind = "lost"        // a host is lost: detected
	StepAffected    StepKind = "affected"    // nothing answers an application any more
	StepLoadBegun   StepKind = "load begun"  // a variant is being loaded
	StepLoaded      StepKind = "loaded"      // it is
	StepLoadFailed  StepKind = "load failed" // it could not be; Reason says why
	StepUnloaded    StepKind = "unloaded"    // a variant has given its memory back
	StepActivated   StepKind = "activated"   // a variant answers that has taken over from one that is lost
	StepNotified    StepKind = "notified"    // the clients of an activated variant have been notified: recovered
	StepSwapped     StepKind = "swapped"     // a better variant has replaced one that answered
	StepGap         StepKind = "gap"         // a variant that answered is unloaded to make room for a better one
	StepUnrecovered StepKind = "unrecovered" // an affected application finds no room; Reason says why
	StepProtected   StepKind = "protected"   // a backup is loaded
	StepUnprotected StepKind = "unprotected" // an application has fewer backups than it should; Reason says why
	StepReturned    StepKind = "returned"    // a lost host is there again
	StepFalseAlarm  StepKind = "false alarm" // it had not been lost
	StepUsable      StepKind = "usable"      // it has been well for long enough to be used again
	StepFailedBack  StepKind = "failed back" // an application is back on its primary
	StepDrill       StepKind = "drill"       // a host is treated as lost by an operator's order
	StepRecovered   StepKind = "recovered"   // the failover is over: everything is answered
	StepOver        StepKind = "over"        // all that can be done is done, and nothing answers some applications; Reason says how many
)

// Step is one step of a failover. Indices are those of the [Problem], and −1 where there is
// none.
type Step struct {
	At          time.Duration `json:"at"`
	Kind        StepKind      `json:"kind"`
	Failover    int           `json:"failover"` // its number, from 1 on; 0 before the first
	Host        int           `json:"server"`
	Application int           `json:"application"`
	Variant     int           `json:"variant"`
	Quality     float64       `json:"quality,omitempty"` // of the variant
	Full        float64       `json:"full,omitempty"`    // of the application's full variant
	// Took is the time since the application's loss was detected, of a step notified or
	// swapped, how long a load took, or how long a host was silent of which the alarm was false.
	Took   time.Duration `json:"took,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

// longest is how many steps of the last failover are kept.
const longest = 4096

// step reports a step without an application.
func (c *Controller) step(kind StepKind, host int, reason string) {
	c.emit(Step{Kind: kind, Host: host, Application: -1, Variant: -1, Reason: reason})
}

// stepOf reports a step of an assignment.
func (c *Controller) stepOf(kind StepKind, x *assignment, took time.Duration, reason string) {
	a := &c.problem.Applications[x.App]
	c.emit(Step{Kind: kind, Host: x.Host, Application: x.App, Variant: x.Variant,
		Quality: a.Variants[x.Variant].Quality, Full: a.Variants[c.apps[x.App].full].Quality, Took: took, Reason: reason})
}

// stepApp reports a step of an application without an assignment.
func (c *Controller) stepApp(kind StepKind, app int, reason string) {
	a := &c.problem.Applications[app]
	c.emit(Step{Kind: kind, Host: -1, Application: app, Variant: -1, Full: a.Variants[c.apps[app].full].Quality, Reason: reason})
}

func (c *Controller) emit(s Step) {
	s.At, s.Failover = c.now, c.failovers
	if len(c.steps) < longest {
		c.steps = append(c.steps, s)
	}
	if c.options.Report != nil {
		c.options.Report(s)
	}
}
