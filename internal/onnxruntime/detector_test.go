package onnxruntime

import (
	"fmt"
	"os"
	"testing"

	"gearshift/workloads/scenes"
)

// BenchmarkDetector measures a batch of each size on the model in the folder that BOXES names, as
// `gearshift models make --family boxes` makes it.
func BenchmarkDetector(b *testing.B) {
	path := os.Getenv("BOXES")
	if path == "" {
		b.Skip("BOXES names no model")
	}
	if err := Available(); err != nil {
		b.Skip(err)
	}
	d, err := OpenDetector(path, 1)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	var frames [][]float32
	for i := range 8 {
		frame, input := scenes.NewFrame(), make([]float32, scenes.Side*scenes.Side)
		scenes.New(uint64(i), scenes.Usual).Draw(frame, i)
		scenes.Input(input, frame)
		frames = append(frames, input)
	}
	for n := 1; n <= len(frames); n++ {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				if _, err := d.Detect(frames[:n]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
