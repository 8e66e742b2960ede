package checkpoints_test

import (
	"testing"

	"gearshift/checkpoints"
)

// go test -run '^$' -bench Store ./checkpoints
//
// What a store costs that also holds the 30 MB of progress of a training run.
func BenchmarkStore(b *testing.B) {
	s := newStore(b)
	if err := s.PutTraining("run", nil, noise(1, 30<<20)); err != nil {
		b.Fatal(err)
	}
	put(b, s, "chat", 1, 1)
	c := sample(b, 1)
	b.Run("Get", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.Get(checkpoints.Ref{Name: "chat"}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Put", func(b *testing.B) {
		for b.Loop() {
			if _, _, err := s.Put("chat", c, epoch); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("PutTraining", func(b *testing.B) {
		progress := noise(2, 30<<20)
		b.SetBytes(30 << 20)
		for b.Loop() {
			if err := s.PutTraining("run", nil, progress); err != nil {
				b.Fatal(err)
			}
		}
	})
}
