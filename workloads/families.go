package workloads

import (
	_ "embed"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ImageModel is a published image model.
type ImageModel struct {
	Family, Name string
	// Source is the package that publishes it: torchvision or timm.
	Source string
	Params float64 // in millions
	GMACs  float64 // 10⁹ multiplications and additions of an answer
	Top1   float64 // accuracy on ImageNet in percent
}

// What follows from the sizes: weights of 32 bits and 50 MB for what runs them, and the load
// times that FailLite measured, 594 ms for 158 MB and 2294 ms for 806 MB, on a line. An answer
// takes the time of its arithmetic at half of the 4.5 TFLOP/s of an NVIDIA A2, and 3 ms at
// least.
const (
	runtimeMB  = 50
	loadMS     = 179.5
	loadMSByMB = 2.6235
	answerMS   = 3
	macsByMS   = 1.125e9
)

// MemoryMB returns what the model takes once loaded.
func (m *ImageModel) MemoryMB() float64 { return m.Params*1e6*4/(1<<20) + runtimeMB }

// LoadMS returns how long it takes to load from a disk.
func (m *ImageModel) LoadMS() float64 { return loadMS + loadMSByMB*m.MemoryMB() }

// ServiceMS returns how long a single answer takes.
func (m *ImageModel) ServiceMS() float64 { return max(answerMS, m.GMACs*1e9/macsByMS) }

// Family is models of one kind, the smallest first.
type Family struct {
	Name   string
	Models []ImageModel
}

// The classes of families.
const (
	SmallFamily  = "small"
	MediumFamily = "medium"
	LargeFamily  = "large"
)

// The bounds between the classes, in MB between the smallest and the largest model.
const (
	mediumFrom = 100
	largeFrom  = 400
)

// Class returns the family's, by the memory between its smallest and its largest model that
// answers within the bound.
func (f *Family) Class(boundMS float64) string {
	least, most := math.Inf(1), 0.
	for i := range f.Models {
		if m := &f.Models[i]; m.ServiceMS() <= boundMS {
			least, most = min(least, m.MemoryMB()), max(most, m.MemoryMB())
		}
	}
	switch spread := most - least; {
	case spread >= largeFrom:
		return LargeFamily
	case spread >= mediumFrom:
		return MediumFamily
	}
	return SmallFamily
}

//go:embed families/models.csv
var imageModels string

// ImageFamilies returns the families: five of torchvision, then eleven of timm.
func ImageFamilies() []Family {
	var all []Family
	for i, line := range strings.Split(strings.TrimSpace(imageModels), "\n")[1:] {
		m, err := parseImageModel(strings.Split(line, ","))
		if err != nil {
			panic(fmt.Sprintf("families: line %d of models.csv: %v", i+2, err)) // the table is the program's own
		}
		if n := len(all); n == 0 || all[n-1].Name != m.Family {
			all = append(all, Family{Name: m.Family})
		}
		f := &all[len(all)-1]
		f.Models = append(f.Models, m)
	}
	return all
}

func parseImageModel(fields []string) (m ImageModel, err error) {
	if len(fields) != 6 {
		return m, fmt.Errorf("%d fields, want 6", len(fields))
	}
	m.Family, m.Name, m.Source = fields[0], fields[1], fields[2]
	for i, x := range []*float64{&m.Params, &m.GMACs, &m.Top1} {
		if *x, err = strconv.ParseFloat(fields[3+i], 64); err != nil {
			return m, err
		}
	}
	return m, nil
}

// TorchvisionFamilies returns the five families of torchvision.
func TorchvisionFamilies() (list []Family) {
	for _, f := range ImageFamilies() {
		if f.Models[0].Source == "torchvision" {
			list = append(list, f)
		}
	}
	return list
}
