package experience

import (
	"fmt"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// Version is that of the files. A reader refuses others.
const Version = 1

// Header is the first line of each file: the fleet that the rows speak of, by
// name, whatever policy or observation is in use.
type Header struct {
	Version      int    `json:"gearshift_experience"`
	Scenario     string `json:"scenario"`
	ScenarioHash string `json:"scenario_hash"`
	// Run distinguishes one life of a server from others: requests are numbered from 1 in each.
	Run string `json:"run"`
	// Began is when the run did.
	Began    time.Time `json:"began"`
	Sample   float64   `json:"sample"`
	Tasks    []string  `json:"tasks"`
	Variants []string  `json:"variants"`
	Hosts    []string  `json:"hosts"`
	Replicas []Replica `json:"replicas"`
	// States is whether views show the states and versions of replicas, and Busy whether they
	// show how busy hosts are.
	States bool `json:"states,omitempty"`
	Busy   bool `json:"busy_hosts,omitempty"`
}

// Replica is one of the fleet, by name.
type Replica struct {
	Name    string `json:"name"`
	Variant string `json:"variant"`
	Host    string `json:"host"`
	Limit   int    `json:"limit,omitempty"`
}

// NewHeader is the header of a log of the fleet.
func NewHeader(t *fleet.Table) Header {
	h := Header{Version: Version, States: !t.Bare, Busy: t.Measured}
	for i := range t.Tasks {
		h.Tasks = append(h.Tasks, t.Tasks[i].Name)
	}
	for _, v := range t.Variants {
		h.Variants = append(h.Variants, v.Name)
	}
	for _, x := range t.Hosts {
		h.Hosts = append(h.Hosts, x.Name)
	}
	for _, r := range t.Replicas {
		h.Replicas = append(h.Replicas, Replica{Name: r.Name, Variant: t.Variants[r.Variant].Name, Host: t.Hosts[r.Host].Name, Limit: r.Limit})
	}
	return h
}

// validate says what is wrong with a header that was read.
func (h *Header) validate() error {
	switch {
	case h.Version == 0:
		return fmt.Errorf("the first line is no header; want {\"gearshift_experience\": %d, …}, as gearshift serve writes it", Version)
	case h.Version != Version:
		return fmt.Errorf("the file is of version %d; this gearshift reads version %d", h.Version, Version)
	case h.Run == "" || len(h.Tasks) == 0 || len(h.Variants) == 0 || len(h.Hosts) == 0 || len(h.Replicas) == 0:
		return fmt.Errorf("the header lacks a run, tasks, variants, hosts or replicas")
	}
	for _, r := range h.Replicas {
		if !slices.Contains(h.Variants, r.Variant) || !slices.Contains(h.Hosts, r.Host) || r.Limit < 0 {
			return fmt.Errorf("the header's replica %q is of no variant, host or limit that can be", r.Name)
		}
	}
	return nil
}

// Match explains why the log is not of the fleet, or returns nil. The names count,
// and their order; limits are the log's own, see [Header.Table].
func (h *Header) Match(t *fleet.Table) error {
	now := NewHeader(t)
	return h.sameFleet(&now, false)
}

// sameFleet compares the names of two fleets, and the limits if asked to.
func (h *Header) sameFleet(o *Header, limits bool) error {
	differ := func(what string, was, is any) error {
		return fmt.Errorf("the log is of a fleet with %s %v, not %v", what, was, is)
	}
	switch {
	case !slices.Equal(h.Tasks, o.Tasks):
		return differ("tasks", h.Tasks, o.Tasks)
	case !slices.Equal(h.Variants, o.Variants):
		return differ("variants", h.Variants, o.Variants)
	case !slices.Equal(h.Hosts, o.Hosts):
		return differ("hosts", h.Hosts, o.Hosts)
	case len(h.Replicas) != len(o.Replicas):
		return differ("as many replicas as", len(h.Replicas), len(o.Replicas))
	}
	for i, r := range h.Replicas {
		if x := o.Replicas[i]; r.Name != x.Name || r.Variant != x.Variant || r.Host != x.Host || limits && r.Limit != x.Limit {
			return differ("the replica", r, x)
		}
	}
	return nil
}

// Table is the fleet t, which the header matches, with the limits that held when
// the log was written: they say which replicas had a place left. Views show what the log has.
func (h *Header) Table(t *fleet.Table) (*fleet.Table, error) {
	if err := h.Match(t); err != nil {
		return nil, err
	}
	replicas := slices.Clone(t.Replicas)
	for i := range replicas {
		replicas[i].Limit = h.Replicas[i].Limit
	}
	logged, err := fleet.NewTable(t.Tasks, t.Variants, t.Hosts, replicas, t.Models...)
	if err == nil {
		logged.Bare, logged.Measured = !h.States, h.Busy
	}
	return logged, err
}
