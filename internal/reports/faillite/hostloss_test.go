package faillite

import (
	"io"
	"slices"
	"testing"
	"time"

	"gearshift/env/evaluation"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// rule is a policy that is quick to play.
const rule = "task-aware:0.98,0.08,1,0.5,0.15"

// The four tasks fall on at most three hosts in 14 ways but for the hosts' order, with one of
// three variants each. No backup is on the lost host.
func TestAssignments(t *testing.T) {
	s, err := scenario.Load(on)
	if err != nil {
		t.Fatal(err)
	}
	table := s.Table()
	list := assignments(table, 3)
	if len(list) != 14*3*3*3*3 {
		t.Errorf("%d assignments, want 14 × 81", len(list))
	}
	seen := map[string]bool{}
	uniform := 0
	for _, a := range list {
		if seen[a.name(table)] {
			t.Errorf("%s is there twice", a.name(table))
		}
		seen[a.name(table)] = true
		if a.uniform() {
			uniform++
		}
		if slices.ContainsFunc(a, func(r int) bool { return table.Replicas[r].Host == 3 }) {
			t.Errorf("%s has a backup on the lost host", a.name(table))
		}
	}
	if uniform != 3 {
		t.Errorf("%d have one backup for all tasks, want one for each variant", uniform)
	}
}

// From the loss on, a quarter of the requests go to their tasks' backups and nothing else, the
// other three where the policy says, and hardly any to the lost host.
func TestFixedBackupsTakeTheLostHostsShare(t *testing.T) {
	s, err := scenario.Load(on)
	if err != nil {
		t.Fatal(err)
	}
	c, err := policies.Contestant(s, &policies.Source{}, rule, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	balancer, err := s.Balancer()
	if err != nil {
		t.Fatal(err)
	}
	l := loss{host: 3, at: 5 * time.Second, from: 2 * time.Second, to: 12 * time.Second}
	work, err := s.Evaluated([]string{l.workload(s, 32, false)}, 0)
	if err != nil {
		t.Fatal(err)
	}
	a := assignments(s.Table(), 3)[700]
	with := withBackups(c, balancer, a, l)
	samples, err := evaluation.Samples(t.Context(), &with, &work[0], workloads.Seed(workloads.Training, 1))
	if err != nil {
		t.Fatal(err)
	}
	others, elsewhere, lost := 0, 0, 0
	for i, x := range samples {
		switch {
		case x.Arrival >= l.at && i%4 == 3:
			if x.Replica != a[x.Task] {
				t.Fatalf("request %d of task %d is answered by replica %d, want %d", i, x.Task, x.Replica, a[x.Task])
			}
		case x.Arrival >= l.at+l.from:
			if others++; x.Replica != a[x.Task] {
				elsewhere++
			}
			if s.Table().Replicas[x.Replica].Host == 3 {
				lost++
			}
		}
	}
	if lost > others/100 { // the first that shows that a replica which is seldom asked is gone
		t.Errorf("%d of %d requests go to the lost host", lost, others)
	}
	if others < 500 || elsewhere < others/3 {
		t.Errorf("%d of %d other requests go elsewhere than to their tasks' backups", elsewhere, others)
	}
}

// The report holds a policy against three hosts and fixed backups, and against nothing it trains
// if it is named.
func TestTheReport(t *testing.T) {
	p := &study{Run: &reports.Run{Seeds: 2, Quick: true, Stderr: io.Discard}, screened: 1, finalists: 1, rate: 32, refs: []string{rule}}
	made := p.study()
	r, err := made.Make(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r.Repeat = "again"
	if err := r.Validate(); err != nil {
		t.Error(err)
	}
	if len(r.Sections) != 2 || len(r.Sections[0].Tables[1].Rows) < 3 {
		t.Errorf("%d sections, with %d assignments", len(r.Sections), len(r.Sections[0].Tables[1].Rows))
	}
}
