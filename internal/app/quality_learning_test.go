package app

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/router/quality"
	predictors "gearshift/serving/quality"
)

// sampleOf returns the features of a prompt.
func sampleOf(text string) *quality.Sample {
	var f quality.Features
	f.Read(&quality.Prompt{Parts: [][]byte{[]byte(text)}}, 1)
	return &f.Sample
}

// taught returns what is in charge after it has learned n times that small is bad.
func taught(l *predictors.Loaded, n int) *quality.Regression {
	learner := quality.NewLearner(l.Regression())
	for range n {
		learner.Learn(sampleOf("prompt of seed 1"), 0, 0, 1)
	}
	return learner.Regression()
}

// scoreOfSmall returns what is predicted of the small model for a prompt.
func scoreOfSmall(m *quality.Regression) float64 {
	var scores [quality.MostColumns]float64
	m.Predict(sampleOf("prompt of seed 1"), scores[:])
	return scores[0]
}

// A router goes on from what was learned from the predictor in charge, and from nothing else.
func TestARouterGoesOnFromWhatWasLearned(t *testing.T) {
	p := newPredicted(t)
	p.put(t, fitted(t, 1, "small", "large"))
	p.check(t, "at first", "mine@1", false)
	in := p.predictors.InCharge()
	fitted1, learned := scoreOfSmall(in.Regression()), taught(in, 20)
	for range 5 {
		if err := p.save(in, learned); err != nil {
			t.Fatal(err)
		}
	}
	again := newPredictedIn(t, p.dir)
	again.check(t, "after a restart", "mine@1", false)
	if got, want := scoreOfSmall(again.predictors.InCharge().Regression()), scoreOfSmall(learned); got != want || got == fitted1 {
		t.Errorf("predicts %v after a restart, has learned to predict %v", got, want)
	}
	list, err := p.store.List()
	if err != nil || len(list) != 1+keptLearned {
		t.Errorf("%d versions are stored, %v; want one and %d that have learned", len(list), err, keptLearned)
	}
	p.put(t, fitted(t, 2, "small", "large"))
	again.check(t, "once there is another", "mine@2", false)
	if got, want := again.predictors.InCharge().Regression().Encode(), fitted(t, 2, "small", "large"); !bytes.Equal(got, want) {
		t.Error("another predictor goes on from what the first has learned")
	}
	// What was learned may be promoted, and goes on under its own name.
	if err := p.store.Promote("mine.learned", 5, "test"); err != nil {
		t.Fatal(err)
	}
	p.write(t, "mine.learned")
	p.check(t, "once what was learned is promoted", "mine.learned@5", false)
	if err := p.save(p.predictors.InCharge(), learned); err != nil {
		t.Fatal(err)
	}
	if e, err := p.lookup("mine.learned@" + checkpoints.Newest); err != nil || e.Version != 6 || e.Predictor.From != p.predictors.InCharge().Digest {
		t.Errorf("%+v, %v", e, err)
	}
}

// savesEnv, set to a folder, has the test binary save what was learned there until it is killed.
const savesEnv = "GEARSHIFT_TEST_SAVES"

func TestSavesUntilKilled(t *testing.T) {
	dir := os.Getenv(savesEnv)
	if dir == "" {
		t.Skip("nothing to do by itself: TestAKilledRouterLeavesAWholePredictor starts it as a process and kills it")
	}
	p := newPredictedIn(t, dir)
	in := p.predictors.InCharge()
	for n := 1; ; n++ {
		if err := p.save(in, taught(in, n%50)); err != nil {
			t.Fatal(err)
		}
		fmt.Println("saved")
	}
}

// Killed at any moment while it saves, a router starts with the last predictor that was whole.
func TestAKilledRouterLeavesAWholePredictor(t *testing.T) {
	p := newPredicted(t)
	p.put(t, fitted(t, 1, "small", "large"))
	p.check(t, "at first", "mine@1", false)
	was := scoreOfSmall(p.predictors.InCharge().Regression())
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random, saved := rand.New(rand.NewPCG(seed, 0)), 0
	for range 5 {
		saved += savesUntilKilled(t, p.dir, time.Duration(random.IntN(40))*time.Millisecond)
		again := newPredictedIn(t, p.dir)
		again.check(t, "after a kill", "mine@1", false)
		if now := scoreOfSmall(again.predictors.InCharge().Regression()); saved > 0 && now == was {
			t.Errorf("%d versions were saved, and none is in use", saved)
		}
		if bytes.Contains(again.logs.Bytes(), []byte("level=ERROR")) {
			t.Errorf("the log says %s", &again.logs)
		}
	}
	if saved == 0 {
		t.Error("every process was killed before it had saved anything")
	}
}

// savesUntilKilled has a process save, kills it some time after its first, and returns how many
// times it has said so.
func savesUntilKilled(t *testing.T, dir string, after time.Duration) (saved int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSavesUntilKilled$")
	cmd.Env = append(os.Environ(), savesEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var timer *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if lines.Text() != "saved" {
			continue
		}
		if saved++; timer == nil { // whatever it does at that moment is what this is about
			timer = time.AfterFunc(after, func() { _ = cmd.Process.Kill() })
		}
	}
	if timer == nil {
		_ = cmd.Process.Kill()
	}
	_ = cmd.Wait()
	return saved
}

// newPredictedIn is newPredicted in a folder that may have a store and a scenario.
func newPredictedIn(t *testing.T, dir string) *predicted {
	t.Helper()
	p := &predicted{dir: dir, file: filepath.Join(dir, "mine.yaml"), store: (&checkpoints.Store{Path: filepath.Join(dir, "store.db")}).Predictors()}
	p.start(t)
	return p
}
