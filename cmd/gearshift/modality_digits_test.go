package main

import (
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The quality and times of the simulated engine, of batches of 1, 2, 4, 8 and 16.
var simulatedDigits = []struct {
	variant string
	quality float64
	times   []float64
}{
	{"digits-image", 0.8, []float64{3, 4, 6, 10, 18}},
	{"digits-audio", 0.86, []float64{6, 8, 12, 20, 36}},
	{"digits-image-audio", 0.94, []float64{10, 14, 22, 38, 70}},
}

var batchSizes = []int{1, 2, 4, 8, 16}

// A picture of one pixel and a sound of eight samples, in base 64.
const (
	tinyPNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgABSK+kcQAAAABJRU5ErkJggg=="
	tinyWAV = "UklGRjQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YRAAAAAAAAAAAAAAAAAAAAAAAAAA"
)

// digitsScenario is the model on one host.
func digitsScenario(qualities map[string]float64, times map[string][]float64) string {
	var b, quality strings.Builder
	for _, o := range simulatedDigits {
		fmt.Fprintf(&quality, "%s: %v, ", o.variant, qualities[o.variant])
	}
	fmt.Fprintf(&b, `name: digits
tasks:
  - {name: digits, total_ms: %d, quality: {%s}}
models:
  - {name: digits, memory: 400MiB, modalities: [image, audio]}
hosts: [{name: cpu0, memory: 2GiB}]
replicas:
  - {model: digits, hosts: [cpu0], memory: 50%%}
workload: {output_tokens: {distribution: none}}
profiles:
`, jobDeadline.Milliseconds(), strings.TrimSuffix(quality.String(), ", "))
	for _, o := range simulatedDigits {
		var list []string
		for i, n := range batchSizes {
			list = append(list, fmt.Sprintf("%d: %.3f", n, times[o.variant][i]))
		}
		fmt.Fprintf(&b, "  - {variant: %s, batch_ms: {%s}}\n", o.variant, strings.Join(list, ", "))
	}
	return b.String()
}

// betweenSizes is the times of batches of 1, 2, 3, … between those listed.
func betweenSizes(listed []float64) (all []float64) {
	for i, n := range batchSizes {
		for k := len(all) + 1; k < n; k++ {
			before := batchSizes[i-1]
			all = append(all, listed[i-1]+(listed[i]-listed[i-1])*float64(k-before)/float64(n-before))
		}
		all = append(all, listed[i])
	}
	return all
}

// measureBatches is the median time of batches by variant, of the engine as a router sees it,
// and how many times the median each batch took. The first rounds warm the engine up, and do
// not count.
func measureBatches(t *testing.T, engine string, samples []sample, warm, rounds int) (times map[string][]float64, noise []float64) {
	runs := map[string][][]float64{}
	for round := range rounds {
		for _, o := range simulatedDigits {
			for i, n := range batchSizes {
				var inputs []sample
				for k := range n {
					s := samples[(round*17+k)%len(samples)]
					if !strings.Contains(o.variant, "image") {
						s.image = ""
					}
					if !strings.Contains(o.variant, "audio") {
						s.audio = ""
					}
					inputs = append(inputs, s)
				}
				body := jobBody(inputs, -1)
				began := time.Now()
				response, err := http.Post(engine+"/v1/gearshift/classify", "application/json", strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(response.Body)
				_ = response.Body.Close()
				if err != nil || response.StatusCode != http.StatusOK {
					t.Fatalf("status %d, %v: %.300s", response.StatusCode, err, text)
				}
				if round < warm {
					continue
				}
				if runs[o.variant] == nil {
					runs[o.variant] = make([][]float64, len(batchSizes))
				}
				runs[o.variant][i] = append(runs[o.variant][i], 1000*time.Since(began).Seconds())
			}
		}
	}
	times = map[string][]float64{}
	for _, o := range simulatedDigits {
		longest := 0.0
		for _, one := range runs[o.variant] {
			slices.Sort(one)
			longest = max(longest, one[len(one)/2]) // a larger batch takes no less
			times[o.variant] = append(times[o.variant], longest)
			for _, ms := range one {
				noise = append(noise, ms/longest)
			}
		}
	}
	return times, noise
}

// jobBody asks for the inputs as a job, or of an engine, with a floor below 0.
func jobBody(inputs []sample, floor float64) string {
	var b strings.Builder
	b.WriteString(`{"model":"digits",`)
	if floor >= 0 {
		fmt.Fprintf(&b, `"min_quality":%v,"total_ms":%d,`, floor, jobDeadline.Milliseconds())
	}
	b.WriteString(`"inputs":[`)
	for i, s := range inputs {
		if i > 0 {
			b.WriteByte(',')
		}
		var members []string
		if s.image != "" {
			members = append(members, `"image":"`+s.image+`"`)
		}
		if s.audio != "" {
			members = append(members, `"audio":"`+s.audio+`"`)
		}
		b.WriteString("{" + strings.Join(members, ",") + "}")
	}
	return b.String() + "]}"
}

func readQualities(t *testing.T, path string) map[string]float64 {
	var q struct {
		HeldOut []struct {
			Modalities []string
			Accuracy   float64
		} `json:"held_out"`
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &q)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for _, a := range q.HeldOut {
		all["digits-"+strings.Join(a.Modalities, "-")] = a.Accuracy
	}
	return all
}

func readSamples(t *testing.T, dir string) (list []sample) {
	file, err := os.Open(filepath.Join(dir, "labels.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	encoded := func(name string) string {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return base64.StdEncoding.EncodeToString(content)
	}
	for _, row := range rows[1:] {
		label, err := strconv.Atoi(row[0])
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, sample{strconv.Itoa(label), encoded(row[1]), encoded(row[2])})
	}
	return list
}
