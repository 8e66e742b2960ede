package proxy_test

import (
	"slices"
	"testing"
	"time"

	"gearshift/serving/openai/proxy"
)

func TestTable(t *testing.T) {
	table := proxy.NewAbilities(2)
	expect := func(what string, now time.Duration, want ...int) {
		t.Helper()
		if got := table.Lacking(1, now); !slices.Equal(got, want) {
			t.Errorf("%s: %v lack it, want %v", what, got, want)
		}
	}
	expect("at first", 0)
	if !table.Lacks(1, 7, 0) || !table.Lacks(1, 3, time.Minute) || table.Lacks(1, 7, 2*time.Minute) {
		t.Error("what is new is known, or what is known is new")
	}
	expect("of two", 2*time.Minute, 3, 7)
	if got := table.Lacking(0, 0); got != nil {
		t.Errorf("another endpoint: %v", got)
	}
	expect("once the first is forgotten", time.Minute+proxy.AbilityMemory, 7)
	expect("once both are", 2*time.Minute+proxy.AbilityMemory)
	table.Lacks(1, 3, time.Hour)
	table.Lacks(1, 4, time.Hour)
	table.Forget(3)
	table.Forget(99)
	expect("of a replica that is another now", time.Hour, 4)
	if n := testing.AllocsPerRun(100, func() { table.Lacking(1, time.Hour) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
