package statefile_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/control/statefile"
)

// TestSaver: a state that comes while another is written waits, an older one that waits is left out,
// and what is being written at the end is written whole.
func TestSaver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written []int
		s := statefile.NewSaver(func(x int) { time.Sleep(time.Second); written = append(written, x) })
		s.Keep(1)
		time.Sleep(time.Millisecond)
		s.Keep(2)
		s.Keep(3)
		time.Sleep(1500 * time.Millisecond)
		s.Close()
		if !slices.Equal(written, []int{1, 3}) {
			t.Errorf("written %v, want 1 and 3", written)
		}
	})
}
