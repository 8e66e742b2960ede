package env_test

import (
	"reflect"
	"testing"
	"time"

	"gearshift/env"
)

// Place with the replica that the balancer would pick is Step.
func TestPlaceIsStepWithTheReplica(t *testing.T) {
	c := twoByTwo(t)
	c.Balancer = firstOf{}
	stepped, placed := make2(t, c), make2(t, c)
	for _, e := range []*env.Environment{stepped, placed} {
		if _, err := e.Reset(5); err != nil {
			t.Fatal(err)
		}
	}
	for n := 0; ; n++ {
		variant := n / 2 % 2
		want, err := stepped.Step(variant)
		if err != nil {
			t.Fatal(err)
		}
		got, err := placed.Place(c.Table.ReplicasOf(variant)[0])
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("decision %d: %v\n%+v\nwant %+v", n, err, got, want)
		}
		if want.Terminated {
			break
		}
	}
	if _, err := placed.Place(0); err == nil {
		t.Error("placed after the end of the episode")
	}
}

func TestPlaceRefuses(t *testing.T) {
	c := twoByTwo(t)
	c.Losses = []env.HostLoss{{Host: 1, To: time.Hour}}
	e := make2(t, c)
	if _, err := e.Reset(1); err != nil {
		t.Fatal(err)
	}
	for _, replica := range []int{-1, 4, 3} { // no replicas, and one that is down
		if _, err := e.Place(replica); err == nil {
			t.Errorf("replica %d is taken", replica)
		}
	}
	if _, err := e.Place(2); err != nil {
		t.Error(err)
	}
}
