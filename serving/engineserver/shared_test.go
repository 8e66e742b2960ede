package engineserver

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving/backend"
)

// withPair gives the rig a model of images and sounds, whose three variants take 10, 30 and 70 ms
// for any batch.
func withPair(t *testing.T) func(*Config) {
	return func(c *Config) {
		var err error
		c.Engines.Table, err = fleet.NewTable(
			[]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{0.5, 0.7, 1}}},
			[]fleet.Variant{{Name: "pair-image"}, {Name: "pair-audio"}, {Name: "pair-image-audio"}},
			[]fleet.Host{{Name: "host"}},
			[]fleet.Replica{{Name: "a", Worker: 1}, {Name: "b", Variant: 1, Worker: 1}, {Name: "c", Variant: 2, Worker: 1}},
		)
		if err != nil {
			t.Fatal(err)
		}
		c.Engines.Engines = nil
		for _, ms := range []float64{10, 30, 70} {
			times, err := profile.NewBatches(map[string]map[int]float64{"": {1: ms, 8: ms}})
			if err != nil {
				t.Fatal(err)
			}
			e, err := engine.New(engine.Config{MaxSequences: 8}, &profile.Profile{Batches: times}, 0)
			if err != nil {
				t.Fatal(err)
			}
			c.Engines.Engines = append(c.Engines.Engines, e)
		}
		c.Shared = []Shared{{Name: "pair", Modalities: []string{"image", "audio"}, Combinations: []Combination{
			{"pair-image", []string{"image"}}, {"pair-audio", []string{"audio"}}, {"pair-image-audio", []string{"image", "audio"}},
		}}}
	}
}

const classify = backend.ClassifyPath

const pairImage, pairAudio, pairBoth = `"image":"i"`, `"audio":"a"`, `"image":"i","audio":"a"`

// TestTheModelOfVariants: requests that name it take the time of the variant for what they have.
func TestTheModelOfVariants(t *testing.T) {
	tensor := func(names ...string) string {
		var inputs []string
		for _, name := range names {
			inputs = append(inputs, fmt.Sprintf(`{"name":%q,"datatype":"UINT8","shape":[2],"data":[1,2]}`, name))
		}
		return `{"inputs":[` + strings.Join(inputs, ",") + `]}`
	}
	withRig(t, withPair(t), func(r *rig) {
		for _, c := range []struct {
			path, body string
			ms         int
			part       string
		}{
			{classify, `{"model":"pair",` + pairImage + `}`, 10, `"model":"pair-image"`},
			{classify, `{"model":"pair",` + pairAudio + `,"image":""}`, 30, `"model":"pair-audio"`},
			{classify, `{"model":"pair","inputs":[{` + pairBoth + `},{` + pairBoth + `}]}`, 70, `"index":1`},
			{classify, `{"model":"pair","inputs":[{` + pairImage + `},{` + pairAudio + `}]}`, 70, `"index":1`},
			{classify, `{"model":"pair-image","inputs":[{` + pairImage + `}]}`, 10, `"model":"pair-image"`},
			{"/v2/models/pair/infer", tensor("image"), 10, `"shape":[2,10]`},
			{"/v2/models/pair/infer", tensor("input_values"), 30, `"shape":[2,10]`},
			{"/v2/models/pair/versions/1/infer", tensor("image_0", "audio"), 70, `"shape":[2,10]`},
		} {
			begin := time.Now()
			r.expect("POST", c.path, c.body, http.StatusOK, c.part)
			if took := time.Since(begin); took != time.Duration(c.ms)*time.Millisecond {
				t.Errorf("%s %s took %v; want %d ms", c.path, c.body, took, c.ms)
			}
		}
		r.expect("GET", "/v1/models", "", http.StatusOK, `"id":"pair"`, `"id":"pair-image-audio"`)
		r.expect("GET", "/v2/models/pair/ready", "", http.StatusOK, `"ready":true`)
		r.expect("GET", "/v2/models/pair", "", http.StatusOK, `"name":"pair","versions":["1"]`, `"pixel_values"`, `"input_values"`)
		if text := r.expect("GET", "/v2/models/pair", "", http.StatusOK); strings.Contains(text, `"text"`) {
			t.Errorf("the metadata have a text: %s", text)
		}
		r.expect("POST", classify, `{"model":"pair"}`, http.StatusBadRequest, `"input_missing"`, "the model pair takes image, audio")
		r.expect("POST", classify, `{"model":"pair","input":"t","image":"i"}`, http.StatusBadRequest, `"input_missing"`,
			"the request has text, image, which no variant of pair takes; there are pair-image (image), pair-audio (audio), pair-image-audio (image, audio)")
		r.expect("POST", "/v2/models/pair/infer", tensor("smell"), http.StatusBadRequest, "the model pair takes image, audio")
		r.expect("POST", "/v2/repository/models/pair-audio/unload", "", http.StatusOK)
		r.expect("GET", "/v2/models/pair/ready", "", http.StatusBadRequest, `"ready":false`)
		if text := r.expect("GET", "/v1/models", "", http.StatusOK); strings.Contains(text, `"id":"pair"`) {
			t.Errorf("a variant is unloaded: %s", text)
		}
		r.expect("POST", classify, `{"model":"pair",`+pairAudio+`}`, http.StatusNotFound, `"model_not_found"`)
	})
}

// TestASharedModelIsInTheIndex: with the state of its variants, which are loaded and unloaded by its
// name.
func TestASharedModelIsInTheIndex(t *testing.T) {
	withRig(t, withPair(t), func(r *rig) {
		const ready, one = `{"name":"pair","version":"1","state":"READY","reason":""}`, `{"name":"pair-image","version":"1","state":"READY","reason":""}`
		r.expect("POST", "/v2/repository/index", "", http.StatusOK, ready, one)
		r.expect("POST", "/v2/repository/models/pair-audio/unload", "", http.StatusOK)
		if text := r.expect("POST", "/v2/repository/index", `{"ready":true}`, http.StatusOK, one); strings.Contains(text, `"pair"`) {
			t.Errorf("a variant is unloaded: %s", text)
		}
		r.expect("POST", "/v2/repository/index", "", http.StatusOK, `{"name":"pair","version":"1","state":"UNAVAILABLE","reason":"unloaded"}`)
		r.expect("POST", "/v2/repository/models/pair/load", "", http.StatusOK)
		r.expect("POST", "/v2/repository/index", "", http.StatusOK, ready)
		r.expect("POST", "/v2/repository/models/pair/unload", "", http.StatusOK)
		if text := r.expect("POST", "/v2/repository/index", `{"ready":true}`, http.StatusOK); text != "[]\n" && text != "[]" {
			t.Errorf("all variants are unloaded: %s", text)
		}
	})
}

// TestASharedModelHasItsVariants: a name that is no model of the server is refused at the start.
func TestASharedModelHasItsVariants(t *testing.T) {
	c := testConfig(t)
	c.Shared = []Shared{{Name: "pair", Modalities: []string{"image"}, Combinations: []Combination{{"pair-image", []string{"image"}}}}}
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), `the model "pair": there is no model "pair-image"`) {
		t.Errorf("error %v", err)
	}
}
