package families

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"os"
	"path/filepath"

	"gearshift/workloads/scenes"
)

// WriteBoxes writes frames of held-out scenes as JPEG files, a second of each scene, and a row for each box.
func (s Samples) WriteBoxes() error {
	list, err := s.vacant()
	if err != nil {
		return err
	}
	if s.Count < 1 {
		return fmt.Errorf("--sample-count %d: want 1 or more", s.Count)
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	rows := [][]string{{"image", "x0", "y0", "x1", "y1"}}
	frame := scenes.NewFrame()
	var scene *scenes.Scene
	for i := range s.Count {
		at := i % scenes.FPS
		if at == 0 {
			scene = scenes.New(s.Seed+uint64(i/scenes.FPS), scenes.Usual)
		}
		scene.Draw(frame, at)
		file, err := scenes.Encode(frame)
		if err != nil {
			return err
		}
		name := fmt.Sprintf("%04d.jpg", i)
		if err := os.WriteFile(filepath.Join(s.Dir, name), file, 0o644); err != nil {
			return err
		}
		for _, b := range scene.Boxes(at) {
			row := []string{name}
			for _, v := range []float32{b.X0, b.Y0, b.X1, b.Y1} {
				row = append(row, fmt.Sprintf("%.2f", v))
			}
			rows = append(rows, row)
		}
	}
	var labels bytes.Buffer
	if err := csv.NewWriter(&labels).WriteAll(rows); err != nil {
		return err
	}
	return os.WriteFile(list, labels.Bytes(), 0o644) // last, so that a list is of files that are there
}
