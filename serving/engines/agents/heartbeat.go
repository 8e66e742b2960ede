package agents

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"
)

// Protocol is the number of the protocol. Agents and routers of different numbers do not work
// together.
const Protocol = 2

// Header fields.
const (
	// HeaderEpoch is in each order to an engine that a router with a failover controller sends: a
	// decimal number that never runs back, with the term of [Accepted] in its upper half. An engine
	// with an agent answers 409 to an order whose number is smaller than one that it has seen, or
	// whose term is not the one that its router gave it.
	HeaderEpoch = "X-Gearshift-Epoch"
	// HeaderTerm is in such an answer: the term that the engine follows.
	HeaderTerm = "X-Gearshift-Term"
	// HeaderFleet is in each order to an engine with an agent: the fleet's secret, which routers and
	// agents share. Agents send it to the router as Authorization: Bearer SECRET.
	HeaderFleet = "X-Gearshift-Fleet-Token"
	// HeaderDigest is in the answer with a model's files: the SHA-256 of the tar in hexadecimal
	// digits.
	HeaderDigest = "X-Gearshift-Digest"
)

// Registration is the body of POST /admin/agents/HOST: an agent that has started, or that was
// asked to register again.
type Registration struct {
	// Version is that of the engine's program, for people.
	Version string `json:"version"`
	// Protocol is [Protocol].
	Protocol int `json:"protocol"`
	// Incarnation is a number above 0 that is another at each start of the engine.
	Incarnation uint64 `json:"incarnation"`
	// Term is the newest that a router has given this engine; 0 if none has.
	Term uint64 `json:"term,omitempty"`
	// URL is where the engine serves.
	URL string `json:"url"`
	// Memory is what models may take, in bytes; 0 is unknown.
	Memory int64 `json:"memory"`
	// Loaded are the models that can take requests now, by the engine's names for them.
	Loaded []string `json:"loaded"`
}

// Validate says what is wrong with the registration. The protocol is first: what another one
// means by the rest is unknown.
func (r *Registration) Validate() error {
	switch {
	case r.Protocol != Protocol:
		return fmt.Errorf("protocol: the agent, of version %q, speaks %d and this router %d; run the same version of gearshift on both", r.Version, r.Protocol, Protocol)
	case r.Incarnation == 0:
		return errors.New("incarnation: 0; want a number above 0 that is another at each start of the engine")
	case r.Term > MaxTerm:
		return fmt.Errorf("term: %d; want at most %d, as a router gives them", r.Term, uint64(MaxTerm))
	case r.Memory < 0:
		return fmt.Errorf("memory: %d is negative; want bytes, or 0 if it is unknown", r.Memory)
	case slices.Contains(r.Loaded, ""):
		return errors.New("loaded: a model's name is empty")
	}
	if u, err := url.Parse(r.URL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("url: %q; want where the engine serves, such as http://10.0.0.7:9001", r.URL)
	}
	return nil
}

// MaxTerm is the largest term of a registration, so that a larger one fits an epoch's upper half.
const MaxTerm = 1<<31 - 1

// Accepted is the answer to a registration.
type Accepted struct {
	// Term is the number of this run of the router's controller for the engine: larger than those of
	// all other runs that the engine has followed.
	Term uint64 `json:"term"`
	// HeartbeatMS is how often the agent is to send a heartbeat, in milliseconds, and Misses how
	// many may fail in a row before the host counts as lost.
	HeartbeatMS int `json:"heartbeat_ms"`
	Misses      int `json:"misses"`
}

// Heartbeat is how often the agent is to send a heartbeat.
func (a *Accepted) Heartbeat() time.Duration { return time.Duration(a.HeartbeatMS) * time.Millisecond }

// Pulse is the body of POST /admin/agents/HOST/heartbeat. The router answers 204, or 409 to an agent
// that has to register again.
type Pulse struct {
	// Incarnation is that of the registration.
	Incarnation uint64 `json:"incarnation"`
	// Sequence counts the heartbeats of the incarnation. One that comes after a later one says
	// nothing.
	Sequence uint64 `json:"sequence"`
	// Loaded are the models that can take requests, if those have changed since the last
	// heartbeat that was answered; nil if not.
	Loaded *[]string `json:"loaded,omitempty"`
}

// AgentPath is the path of the host's agent on the router's admin listener.
func AgentPath(host string) string { return "/admin/agents/" + url.PathEscape(host) }

// HeartbeatPath is where the host's agent sends its heartbeats.
func HeartbeatPath(host string) string { return AgentPath(host) + "/heartbeat" }

// PresencePath is what the host's agent keeps open, with its incarnation as a parameter.
func PresencePath(host string) string { return AgentPath(host) + "/presence" }

// ModelPath is where an agent gets the files of a model: a tar of its folder, whose names begin
// below it. HEAD answers with the digest alone.
func ModelPath(name string) string { return "/admin/models/" + url.PathEscape(name) }
