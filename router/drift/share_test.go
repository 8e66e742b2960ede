package drift

import "testing"

// Doubt needs a third of the latest answers from replicas whose forecasts are off.
func TestDoubtNeedsAShareOfTheAnswers(t *testing.T) {
	for _, want := range []bool{false, true} {
		var d doubt
		for i := range 3000 {
			replica := 0
			if i%5 == 0 || want && i%2 == 0 {
				replica = 1
			}
			d.answered(replica, 2)
		}
		stands, _, share := d.look(0, func(replica int) (float64, bool) { return 1 + 0.2*float64(replica), true })
		if stands != want {
			t.Errorf("of a share of %.2f doubt is %v", share, stands)
		}
		if unknown, _, _ := new(doubt).look(0, nil); unknown {
			t.Error("without answers there is doubt")
		}
	}
}
