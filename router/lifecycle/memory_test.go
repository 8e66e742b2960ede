package lifecycle_test

import (
	"errors"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
)

func TestRefusals(t *testing.T) {
	w := newFixture(t, lifecycle.Options{}, fleet.Up, fleet.Up, fleet.Cold, fleet.Warm, fleet.Cold)
	w.refused(large0, fleet.Up, "host gpu0 has 24 GiB, 12 GiB of them free; large takes 14 GiB: 2 GiB are missing")
	w.refused(large0, fleet.Warm, "host gpu0 has 24 GiB, 12 GiB of them free; large takes 14 GiB: 2 GiB are missing")
	w.refused(5, fleet.Up, "there is no replica 5: the fleet has 5, counted from 0")
	w.refused(-1, fleet.Up, "there is no replica -1: the fleet has 5, counted from 0")
	w.refused(tiny0, fleet.Down, "tiny@gpu0 cannot be brought into the state down; want up, warm, cold or draining")
	w.refused(large0, fleet.Draining, "large@gpu0 is cold: there is nothing to drain")
	w.refused(3, fleet.Draining, "small@gpu1 is warm: there is nothing to drain")
	w.want(3, fleet.Up, lifecycle.Order{})
	w.refused(3, fleet.Up, "small@gpu1 is about to be brought into the state up already")
	w.wake(0)
	w.refused(3, fleet.Up, "small@gpu1 is being woken already; wait until that has ended")
	w.refused(3, fleet.Cold, "small@gpu1 is being woken already; wait until that has ended")
	w.ledger.Place(large0, fleet.Loading)
	w.refused(large0, fleet.Up, "large@gpu0 is loading, begun from outside; wait until that has ended")
}

// A variant without a model cannot be loaded where others have one, but where no
// model is listed the actuator knows what there is.
func TestModelThatIsNotThere(t *testing.T) {
	table := catalogue(t, fleet.Cold)
	variants := append([]fleet.Variant(nil), table.Variants...)
	variants[0].Model = -1
	for _, models := range [][]fleet.Model{table.Models, nil} {
		other, err := fleet.NewTable(table.Tasks, variants, table.Hosts, table.Replicas, models...)
		if err != nil {
			t.Fatal(err)
		}
		err = lifecycle.New(fleet.NewLedger(other), &engines{}, lifecycle.Options{}).Want(tiny0, fleet.Up, lifecycle.Order{})
		want := `tiny@gpu0 cannot be loaded: its variant "tiny" has no model; name one in variants[0].model`
		if models == nil && err != nil || models != nil && (err == nil || err.Error() != want) {
			t.Errorf("with %d models: %v", len(models), err)
		}
	}
}

// A load waits for the memory of what is being unloaded, and is given up if that stays.
func TestLoadWaitsForMemory(t *testing.T) {
	for _, fails := range []bool{false, true} {
		w := newFixture(t, lifecycle.Options{Interval: time.Second}, fleet.Up, fleet.Up, fleet.Cold)
		w.want(small0, fleet.Cold, lifecycle.Order{})
		w.want(large0, fleet.Up, lifecycle.Order{})
		if due := w.wake(0); due != time.Second {
			t.Errorf("due at %v, want a look in a second", due)
		}
		w.acted(1, control.Unload, small0)
		if got := w.c.Free(0); got != 12*gib {
			t.Errorf("%d bytes are free while the unload lasts", got)
		}
		if fails {
			w.answer(control.ActionFailed, errors.New("the engine is gone"))
			w.wake(time.Second)
			w.is(small0, fleet.Up, "small@gpu0 was not unloaded: the engine is gone")
			w.is(large0, fleet.Cold, "host gpu0 has 24 GiB, 12 GiB of them free; large takes 14 GiB: 2 GiB are missing")
			continue
		}
		w.answer(control.Unloaded, nil)
		w.wake(time.Second)
		w.acted(2, control.Load, large0)
		w.refused(small0, fleet.Up, "host gpu0 has 24 GiB, 9 GiB of them free; small takes 11 GiB: 2 GiB are missing")
	}
}

// A load that waits is given up if what was to make room is wanted again.
func TestLoadLosesItsMemory(t *testing.T) {
	w := newFixture(t, lifecycle.Options{})
	w.ledger.Begin(small0, 0)
	w.want(small0, fleet.Cold, lifecycle.Order{})
	w.want(large0, fleet.Up, lifecycle.Order{})
	w.wake(time.Second)
	w.want(small0, fleet.Up, lifecycle.Order{})
	w.wake(time.Second)
	w.acted(0, 0, 0)
	w.is(large0, fleet.Cold, "host gpu0 has 24 GiB, 12 GiB of them free; large takes 14 GiB: 2 GiB are missing")
}
