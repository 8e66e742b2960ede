package jobs

import (
	"strings"
	"testing"
)

// small is a model of an image and sound on so many workers, whose replicas are in order.
func small(workers int) Model {
	m := Model{
		Name: "digits", Modalities: []string{"image", "audio"},
		Options: []Option{
			{"digits-image", []string{"image"}}, {"digits-audio", []string{"audio"}}, {"digits-image-audio", []string{"image", "audio"}},
		},
		Tasks: []Task{{Name: "digits", Quality: map[string]float64{"digits-image": 0.8, "digits-audio": 0.88, "digits-image-audio": 0.96}}},
	}
	for i := range workers {
		m.Workers = append(m.Workers, Worker{
			Name:    "host" + string(rune('0'+i)),
			Latency: [][]float64{{10, 15, 20, 25}, {20, 30, 40, 50}, {40, 60, 80, 100}}, Replicas: []int{3 * i, 3*i + 1, 3*i + 2},
		})
	}
	return m
}

// TestNamesOfModels: a name stands for one model; an option may have that of its own.
func TestNamesOfModels(t *testing.T) {
	one, two := small(1), small(1)
	one.Options[0].Variant = one.Name
	if err := (&Config{Models: []Model{one}}).Validate(); err != nil {
		t.Fatal(err)
	}
	two.Name = "letters"
	if err := (&Config{Models: []Model{one, two}}).Validate(); err == nil || !strings.Contains(err.Error(), `models "digits" and "letters": the name "digits-audio" stands for both`) {
		t.Error(err)
	}
}
