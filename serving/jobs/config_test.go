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

// TestConfigurations: each fault has its line.
func TestConfigurations(t *testing.T) {
	good := Config{Models: []Model{small(1)}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Config){
		`unknown policy "best"`:                  func(c *Config) { c.Policy = "best" },
		"bounds must not be negative":            func(c *Config) { c.MaxWaiting = -1 },
		"there is no name":                       func(c *Config) { c.Models[0].Name = "" },
		"0 modalities":                           func(c *Config) { c.Models[0].Modalities = nil },
		"at least one of each":                   func(c *Config) { c.Models[0].Workers = nil },
		`modality "image" is empty or there`:     func(c *Config) { c.Models[0].Modalities[1] = "image" },
		`tensor "x": there is no modality "tex`:  func(c *Config) { c.Models[0].Tensors = map[string]string{"x": "text"} },
		`option "digits-audio": modality "text"`: func(c *Config) { c.Models[0].Options[1].Modalities = []string{"text"} },
		`option ""`:                              func(c *Config) { c.Models[0].Options[1].Variant = "" },
		`quality 1 of "huge"`:                    func(c *Config) { c.Models[0].Tasks[0].Quality["huge"] = 1 },
		`task ""`:                                func(c *Config) { c.Models[0].Tasks[0].Name = "" },
		"times of 1 options":                     func(c *Config) { c.Models[0].Workers[0].Latency = [][]float64{{1}} },
		"1 replicas":                             func(c *Config) { c.Models[0].Workers[0].Replicas = []int{1} },
		`the name "digits" is there twice`:       func(c *Config) { c.Models = append(c.Models, small(1)) },
	} {
		c := Config{Models: []Model{small(1)}}
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want %s", err, want)
		}
	}
}
