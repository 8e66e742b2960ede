package balance

import (
	"time"

	"gearshift/router/signals"
)

// Client is what one client, or one router, knows of a tier across all models: the part that
// the [Knowledge] of its models has in common.
type Client struct {
	// Hosts is how many hosts the tier has.
	Hosts   int
	chooser Chooser
	memory  any // the rule's own, across models
}

// NewClient returns a client that chooses by c among replicas on so many hosts, and knows
// nothing yet.
func NewClient(c Chooser, hosts int) *Client { return &Client{Hosts: hosts, chooser: c} }

// Replicas describes those of a model. It is read-only and may be shared.
type Replicas struct {
	// Hosts are those that they are on, counted within the client's tier.
	Hosts []int
	// Power is how fast each one's hardware is, relative to the others; nil if all are alike.
	Power []float64
	// Mean is how long a request of the model is estimated to take on one core; zero is
	// unknown.
	Mean time.Duration
}

// Knowledge is what one client, or one router, knows of the replicas of a model.
type Knowledge struct {
	*Replicas
	Client *Client
	// Own counts the client's own requests in flight, by replica.
	Own []int32
	// Said is what the replicas have last said of themselves, and At when; below zero where
	// they have said nothing yet.
	Said []signals.Counters
	At   []time.Duration

	memory any // the rule's own, of the model
	hedge  hedge
	among  among // those that may be chosen now
}

// Knowledge returns that of a model, of whose replicas nothing is known.
func (c *Client) Knowledge(of *Replicas) *Knowledge {
	n := len(of.Hosts)
	k := &Knowledge{Replicas: of, Client: c, Own: make([]int32, n), Said: make([]signals.Counters, n), At: make([]time.Duration, n)}
	for i := range k.At {
		k.At[i] = -1
	}
	if r, ok := c.chooser.(Rememberer); ok {
		k.memory = r.Memory(k)
	}
	return k
}

// Hear takes in what a replica has said, and how the client came to hear it.
func (k *Knowledge) Hear(replica int, c signals.Counters, by Source, now time.Duration) {
	k.Said[replica], k.At[replica] = c, now
	if l, ok := k.Client.chooser.(Listener); ok {
		l.Heard(k, replica, &k.Said[replica], by, now)
	}
}

// Answered takes in that a request has been answered, which began so long ago.
func (k *Knowledge) Answered(replica int, took, now time.Duration) {
	if l, ok := k.Client.chooser.(Learner); ok {
		l.Answered(k, replica, took, now)
	}
}
