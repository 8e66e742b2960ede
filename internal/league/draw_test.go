package league

import (
	"bytes"
	"testing"
)

// Every seed gives a fleet within the bounds, and always the same.
func TestDraw(t *testing.T) {
	sizes, hosts, tasks, partial := map[int]int{}, map[int]int{}, map[int]int{}, 0
	for seed := range uint64(100) {
		text, err := Draw(seed)
		if err != nil {
			t.Fatal(err)
		}
		if again, _ := Draw(seed); !bytes.Equal(text, again) {
			t.Errorf("seed %d gives two fleets", seed)
		}
		s, err := Fleet(seed)
		if err != nil {
			t.Fatal(err)
		}
		f := s.Table()
		sizes[len(f.Variants)]++
		hosts[len(f.Hosts)]++
		tasks[len(f.Tasks)]++
		if len(f.Replicas) < len(f.Hosts)*len(f.Variants) {
			partial++
		}
		if len(f.Variants) < 2 || len(f.Variants) > 6 || len(f.Hosts) > 16 || len(f.Tasks) > 6 {
			t.Errorf("seed %d: %d sizes, %d hosts, %d tasks", seed, len(f.Variants), len(f.Hosts), len(f.Tasks))
		}
	}
	if len(sizes) < 4 || len(hosts) < 8 || len(tasks) < 6 || partial < 50 {
		t.Errorf("100 seeds give sizes %v, hosts %v, tasks %v and %d partial placements", sizes, hosts, tasks, partial)
	}
	t.Logf("sizes %v, hosts %v, tasks %v, %d partial placements", sizes, hosts, tasks, partial)
}
