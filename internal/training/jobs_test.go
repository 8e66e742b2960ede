package training

import (
	"bytes"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/training/policies"
	"gearshift/router/modality"
)

// tvlt is a model of two inputs, one of which is eleven times as fast as both.
func tvlt() JobsModel {
	list := []modality.Option{{Name: "audio", Quality: 0.67}, {Name: "video", Quality: 0.70}, {Name: "both", Quality: 0.80}}
	for i, each := range []float64{3, 30.3, 100. / 3} {
		for n := range 16 {
			list[i].Latency = append(list[i].Latency, each*float64(n+1))
		}
	}
	return JobsModel{"TVLT", list}
}

// TestTraining: the same options make the same policy, no worse on validation seeds than the
// plan that is its advice; it comes out of the store as it went in.
func TestTraining(t *testing.T) {
	o := JobsOptions{Models: []JobsModel{tvlt()}, Seed: 1, Decisions: 2000, Validation: 16, Comparisons: 20}
	var encoded [2][]byte
	for i := range encoded {
		made, err := TrainJobs(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		if made.Score < made.Plan {
			t.Errorf("a request is worth %v, under the plan alone %v", made.Score, made.Plan)
		}
		c, err := made.Checkpoint(o)
		if err != nil {
			t.Fatal(err)
		}
		if encoded[i], err = checkpoints.Encode(c); err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			continue
		}
		store := &checkpoints.Store{Path: filepath.Join(t.TempDir(), "policies.db")}
		ref, err := made.Store(store, "inputs", o, time.Unix(0, 0))
		if err != nil || ref.String() != "inputs@1" {
			t.Fatalf("%v, %v", ref, err)
		}
		stored, _, err := store.Get(ref)
		if err != nil {
			t.Fatal(err)
		}
		n, err := policies.JobsNetwork(stored)
		if err != nil || !slices.Equal(n.Cautions, made.Cautions) || len(n.Seen) != len(made.Seen) || n.Weights.Parameters() != made.Weights.Parameters() {
			t.Errorf("out of the store: %+v, %v", n, err)
		}
	}
	if !bytes.Equal(encoded[0], encoded[1]) {
		t.Error("two runs differ")
	}
}

func TestTrainingNeedsModels(t *testing.T) {
	if _, err := TrainJobs(t.Context(), JobsOptions{Decisions: 1000}); err == nil || !strings.Contains(err.Error(), "there are no models") {
		t.Error(err)
	}
}
