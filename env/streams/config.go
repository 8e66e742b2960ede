// Package streams simulates streaming clients, which send some of their frames to a server and track its last result
// on the others, so that their accuracy falls with each frame (ARISE; router/offload). It measures how many clients a
// server carries, and what each of them loses.
//
// Requests run on a host of [env.Simulator] under the law of batches, which the clients follow: the package has no
// events of its own. Time is virtual, and a run repeats exactly.
package streams

import (
	"slices"
	"time"

	"gearshift/env"
	"gearshift/internal/faults"
	"gearshift/router/offload"
	"gearshift/router/profile"
)

// System says how clients and their server are managed.
type System struct {
	Name string
	// Policy is [offload.Arise] where clients send by the server's schedule, else [offload.Alpha]: they send by
	// intervals of their own, and the server runs what has arrived.
	Policy offload.Policy
	// Fixed is used in place of what suits clients, except for its parts that are 0.
	Fixed offload.Setting
	// Clients sets how many are served at a time, whatever they lose; 0 has the server decide.
	Clients int
	// Removed counts the clients that such a server removes at a time; 0 is one (ARISE-19).
	Removed int
	// Verified has a server that reacts admit clients by their expected accuracy too, in place of by the requests
	// that had to wait for another batch (ARISE-18, 19).
	Verified bool
}

// Link is the network between a client and the server.
type Link struct {
	Name               string
	Up, UpSpread       float64 // Mbit/s, mean and standard deviation
	Down, DownSpread   float64
	RoundTrip, Varying time.Duration // mean and standard deviation
	// Memory sets how long the link takes to change, and Jitter the standard deviation of what a single frame takes
	// longer.
	Memory, Jitter time.Duration
	// Recorded replaces the means and deviations by what was recorded. Each client begins anywhere in it.
	Recorded *Recording
}

// The links of the paper (ARISE-11). How fast they vary is not stated.
var (
	FiveG = Link{"5G", 152, 6, 1715, 57, 14 * time.Millisecond, 2 * time.Millisecond, time.Second, 200 * time.Microsecond, nil}
	LTE   = Link{"LTE", 44, 8, 110, 17, 32 * time.Millisecond, 5 * time.Millisecond, time.Second, 500 * time.Microsecond, nil}
)

// Content describes what clients look at.
type Content struct {
	// Rate is the accuracy that a tracker loses with each frame, as a mean over all clients, of which each has its
	// own between Rate·(1−Apart) and Rate·(1+Apart).
	Rate, Apart float64
	// Spread is the standard deviation of the logarithm of a client's rate in time, and Memory how long it takes to
	// change.
	Spread float64
	Memory time.Duration
	// Noise is the standard deviation of what one frame says of the rate, relative to it.
	Noise float64
}

// Size is a smaller model of the server's.
type Size struct {
	Profile *profile.Profile
	// Gap is the accuracy that its results lose beside those of the first.
	Gap float64
}

// Config describes a run.
type Config struct {
	System
	// Margin is by how much more than estimated clients are taken to lose, relative to it, and Weight how much one
	// result counts in an estimate.
	Margin, Weight float64
	FPS            float64
	// Profile has the times of the server's batches, and Largest bounds them.
	Profile *profile.Profile
	Largest int
	// Smaller are further models of the server's, for [offload.Gearshift].
	Smaller []Size
	// Hosts, where clients share a fleet, are those that answer frames, of the Task of its table, in place of Profile, Largest
	// and Smaller; see [Config.Beside].
	Hosts []HostSizes
	Task  int
	// Grace is the part of a batch's time that a schedule leaves free (ARISE-9).
	Grace float64
	// Period sets how often the server plans, and Horizon how far.
	Period, Horizon time.Duration
	Link            Link
	// FrameBytes and ResultBytes are the sizes of frames and results.
	FrameBytes, ResultBytes int
	Content                 Content
	// SLA is drawn for each client between the two.
	SLA [2]float64
	// Arrivals counts the clients that come in a second, and Session sets how long each stays; 0 is to the end. Those that the
	// server does not serve are served elsewhere.
	Arrivals float64
	Session  time.Duration
	// Present bounds how many clients there are at a time, wherever they are served; more are turned away. 0 is any.
	Present int
	// Losses are those of the server, which is host 0.
	Losses []env.HostLoss
	// Length is the time of a run, of which Warmup is not measured.
	Length, Warmup time.Duration
	Seed           uint64
}

// Default has what the paper states (ARISE-9, 11, 12), and assumed sizes of frames and results.
func Default() Config {
	return Config{
		FPS: 60, Weight: 0.5, Largest: 16, Grace: 0.1, Period: 200 * time.Millisecond, Horizon: time.Second,
		Link: FiveG, FrameBytes: 20_000, ResultBytes: 10_000,
		Content: Content{Rate: 0.006, Apart: 0.3, Spread: 0.1, Memory: 5 * time.Second, Noise: 0.1},
		SLA:     [2]float64{0.02, 0.02}, Arrivals: 10, Session: 70 * time.Second, Length: 2 * time.Minute, Warmup: 20 * time.Second,
	}
}

// planned reports whether clients send by a schedule.
func (c *Config) planned() bool { return c.Policy != offload.Alpha }

func (c *Config) validate() error {
	var found faults.List
	found.If(!(c.FPS > 0), "frames per second: %v must be above 0", c.FPS)
	if c.Hosts == nil {
		found.If(c.Profile == nil || c.Profile.Batches == nil, "the server has no times of batches")
		found.If(c.Largest < 1, "batches of at most %d; want 1 or more", c.Largest)
		found.If(c.Length <= c.Warmup, "a length of %v with a warm-up of %v", c.Length, c.Warmup)
	} else {
		found.If(!c.planned(), "policy %q on hosts of a fleet; want one by which clients send by a schedule", c.Policy)
	}
	found.If(c.Period <= 0 || c.Horizon < c.Period, "a plan every %v over %v; want a horizon of a period at least", c.Period, c.Horizon)
	found.If(!(c.Arrivals > 0) || c.Session < 0, "%v clients a second that stay %v; want more than 0, and 0 or more", c.Arrivals, c.Session)
	found.If(c.Warmup < 0, "a warm-up of %v", c.Warmup)
	found.If(c.Link.Recorded == nil && !(c.Link.Up > 0 && c.Link.Down > 0) || c.Link.RoundTrip < 0, "link %q: rates must be above 0", c.Link.Name)
	found.If(!(c.SLA[0] >= 0 && c.SLA[1] >= c.SLA[0]), "SLAs from %v to %v", c.SLA[0], c.SLA[1])
	found.If(!slices.Contains(offload.Policies, c.Policy), "policy %q; want one of %v", c.Policy, offload.Policies)
	found.If(!(c.Weight > 0 && c.Weight <= 1 && c.Margin >= 0), "a weight of %v and a margin of %v; want a part of 1, and 0 or more", c.Weight, c.Margin)
	return found.Err()
}
