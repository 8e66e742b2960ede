//go:build !serveonly

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
)

// N+M decisions straight are the same bytes as N, a stop, and M more.
func TestTrainingResumes(t *testing.T) {
	straight := trainTiny(t, storePath(t), "--steps", "5000")
	store := storePath(t)
	part := trainTiny(t, store, "--steps", "2345")
	resumed := trainTiny(t, store, "--steps", "5000", "--resume")
	if resumed != straight {
		t.Errorf("resumed %s, straight %s", resumed, straight)
	}
	if part == straight {
		t.Error("2345 and 5000 decisions give the same checkpoint")
	}
}

// A run with nothing left to do is not repeated, and one that is over leaves no
// progress behind.
func TestFinishedTrainingIsNotRepeated(t *testing.T) {
	path := storePath(t)
	store := &checkpoints.Store{Path: path}
	resume := func(want string, flags ...string) {
		t.Helper()
		args := []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--resume"}
		if out := succeed(t, append(args, flags...)...); !strings.Contains(out, want) {
			t.Errorf("--resume %v says %q, want %q", flags, out, want)
		}
	}
	part := trainTiny(t, path, "--steps", "1000")
	resume(`run "tiny" is finished after 1000 decisions: its policy is tiny@1 in `+path+" (sha256 "+part, "--steps", "1000")
	succeed(t, "policy", "rm", "tiny@1", "--store", path)
	resume("stored policy tiny@2", "--steps", "1000") // its progress still has it
	resume("stored policy tiny@3 in")
	resume(`run "tiny" is finished after 6000 decisions: its policy is tiny@3 in`)
	resume(`run "tiny" is finished after 6000 decisions: its policy is tiny@3 in`, "--steps", "2000")
	if list, err := store.List(); err != nil || len(list) != 2 {
		t.Errorf("%d versions, %v", len(list), err)
	}
	if run, err := store.GetTraining("tiny"); err != nil || len(run.Progress) != 0 {
		t.Errorf("%d bytes of progress are left, %v", len(run.Progress), err)
	}
	if _, err := store.GetTraining("tiny+2"); !errors.Is(err, checkpoints.ErrNotFound) {
		t.Errorf("the second network's progress is left: %v", err)
	}
	again := []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--resume"}
	fail(t, append(again, "--seed", "2"), "seed 1", "now it is 2")
	succeed(t, "policy", "rm", "tiny", "--store", path)
	fail(t, again, `run "tiny" is finished, but no policy "tiny"`, "starts from the beginning")
	if code, _, stderr := gearshift(t, append(again[:len(again)-1], "--steps", "100")...); code != 0 || strings.Contains(stderr, "interrupted") {
		t.Errorf("anew: exit code %d, %s", code, stderr)
	}
}

// What an earlier run of the name has left of its further networks does not keep a
// run from being resumed that was killed before it had saved its own: neither if that
// was of another seed, nor if it was of the same ingredients and went further.
func TestTrainingResumesBesideProgressOfAnEarlierRun(t *testing.T) {
	for _, seed := range []string{"2", "1"} {
		straight := trainTiny(t, storePath(t), "--steps", "1000", "--seed", seed)
		path := storePath(t)
		trainTiny(t, path, "--steps", "1500", "--seed", "1")
		store := &checkpoints.Store{Path: path}
		earlier, err := store.GetTraining("tiny+2")
		if err != nil {
			t.Fatal(err)
		}
		trainTiny(t, path, "--steps", "500", "--seed", seed, "--restart")
		if err := store.PutTraining("tiny+2", earlier.Meta, earlier.Progress); err != nil {
			t.Fatal(err)
		}
		if got := trainTiny(t, path, "--steps", "1000", "--seed", seed, "--resume"); got != straight {
			t.Errorf("seed %s: resumed %s, straight %s", seed, got, straight)
		}
	}
}

// A run that was interrupted when all networks still met the same episodes does not go
// on with others.
func TestRunsOnSharedEpisodesAreNotResumed(t *testing.T) {
	path := storePath(t)
	trainTiny(t, path, "--steps", "500")
	store := &checkpoints.Store{Path: path}
	stored, err := store.GetTraining("tiny")
	if err != nil {
		t.Fatal(err)
	}
	var meta checkpoints.Meta
	if err := json.Unmarshal(stored.Meta, &meta); err != nil || !meta.OwnEpisodes {
		t.Fatalf("%v: %s", err, stored.Meta)
	}
	meta.OwnEpisodes = false
	if err := store.PutTraining("tiny", []byte(toJSON(t, meta)), stored.Progress); err != nil {
		t.Fatal(err)
	}
	fail(t, []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path, "--resume"}, `cannot resume run "tiny"`, "the same episodes")
}

// atFirst does something before the first line that it is written.
type atFirst struct {
	bytes.Buffer
	do func()
}

func (w *atFirst) Write(p []byte) (int, error) {
	if w.Len() == 0 {
		w.do()
	}
	return w.Buffer.Write(p)
}

// Whoever interrupts a run is told how to go on with it, and what went wrong when its
// progress was saved.
func TestInterruptedTrainingSaysHowToContinue(t *testing.T) {
	interrupt := func(store string, meanwhile func(), want ...string) {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		stderr := &atFirst{do: func() { meanwhile(); cancel() }}
		code := run(ctx, []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", store}, io.Discard, stderr)
		text := stderr.String()
		if code != 130 || !strings.HasSuffix(text, "\ngearshift: interrupted\n") {
			t.Errorf("exit code %d: %s", code, text)
		}
		for _, w := range append(want, "stopped after 0 decisions; the same command with --resume continues") {
			if !strings.Contains(text, w) {
				t.Errorf("no %q in %s", w, text)
			}
		}
	}
	path := storePath(t)
	interrupt(path, func() {})
	store := &checkpoints.Store{Path: path}
	for _, name := range []string{"tiny", "tiny+2"} {
		if run, err := store.GetTraining(name); err != nil || len(run.Progress) == 0 {
			t.Errorf("%s: %d bytes of progress, %v", name, len(run.Progress), err)
		}
	}
	path = storePath(t)
	interrupt(path, func() {
		if err := os.WriteFile(path, []byte("no store"), 0o600); err != nil {
			t.Error(err)
		}
	}, "gearshift: cannot save training progress after 0 decisions: store "+path+" is corrupted")
}

// Progress that cannot be read keeps nobody from starting anew.
func TestTrainingStartsAnewBesideUnreadableProgress(t *testing.T) {
	args := func(store string, flags ...string) []string {
		return append([]string{"train", "--scenario", "tiny", "--preset", "quick", "--store", store}, flags...)
	}
	for what, damage := range map[string]func(store *checkpoints.Store, progress []byte){
		"version 255": func(*checkpoints.Store, []byte) {},
		"CRC-32C": func(store *checkpoints.Store, progress []byte) {
			file, err := os.ReadFile(store.Path)
			if err != nil {
				t.Fatal(err)
			}
			file = bytes.ReplaceAll(file, progress, append([]byte{1}, progress[1:]...))
			if err := os.WriteFile(store.Path, file, 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		store := &checkpoints.Store{Path: storePath(t)}
		trainTiny(t, store.Path, "--steps", "10")
		run, err := store.GetTraining("tiny")
		if err != nil {
			t.Fatal(err)
		}
		progress := append([]byte{255, 0, 0, 0}, "of another version of gearshift"...)
		if err := store.PutTraining("tiny", run.Meta, progress); err != nil {
			t.Fatal(err)
		}
		damage(store, progress)
		fail(t, args(store.Path, "--resume"), what)
		if code, _, stderr := gearshift(t, args(store.Path, "--steps", "10")...); code != 0 || strings.Contains(stderr, "interrupted") {
			t.Errorf("%s: exit code %d: %s", what, code, stderr)
		}
	}
}

// A training process killed at any moment leaves a store that opens, and a run
// that resumes to the bytes of an undisturbed one.
func TestTrainingSurvivesKill(t *testing.T) {
	want := trainTiny(t, storePath(t))
	path := storePath(t)
	store := &checkpoints.Store{Path: path}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// In the midst of a write, then between writes, then in a write again: the
	// run has progress to resume from by the end. One may be quicker than its kill.
	kills := 0
	for kill, moment := range []func(*testing.T, *checkpoints.Store) func() bool{writing, advanced, writing} {
		args := []string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path}
		if _, err := store.GetTraining("tiny"); err == nil {
			args = append(args, "--resume")
		}
		c := exec.Command(self, args...)
		c.Env = append(os.Environ(), "GEARSHIFT_TEST_MAIN=1")
		now := moment(t, store)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if killWhen(t, c, now) {
			kills++
		}
		if _, err := store.List(); err != nil {
			t.Fatalf("after kill %d: %v", kill+1, err)
		}
	}
	if kills < 2 {
		t.Errorf("killed %d times", kills)
	}
	if got := trainTiny(t, path, "--resume"); got != want {
		t.Errorf("after %d kills: %s, undisturbed %s", kills, got, want)
	}
}

// A run over saved progress, of one that was interrupted or of one that stopped at its
// --steps, neither goes on with it nor takes its place unasked.
func TestTrainingAsksWhatToDoWithSavedProgress(t *testing.T) {
	path := storePath(t)
	store := &checkpoints.Store{Path: path}
	args := func(flags ...string) []string {
		return append([]string{"train", "--scenario", "tiny", "--preset", "quick", "--store", path}, flags...)
	}
	straight := trainTiny(t, path, "--steps", "500", "--restart") // over nothing
	saved, err := store.GetTraining("tiny")
	if err != nil {
		t.Fatal(err)
	}
	want := `run "tiny" has progress saved in ` + path + ", of 500 decisions: --resume continues it, --restart starts over"
	for what, prepare := range map[string]func() error{
		"stopped":     func() error { return nil },
		"interrupted": func() error { return store.PutTraining("tiny", saved.Meta, saved.Progress) },
	} {
		if err := prepare(); err != nil {
			t.Fatal(err)
		}
		fail(t, args("--steps", "700"), want)
		fail(t, args("--seed", "2"), want)
		fail(t, args("--resume", "--restart"), "--resume and --restart exclude each other")
		if now, err := store.GetTraining("tiny"); err != nil || !bytes.Equal(now.Progress, saved.Progress) {
			t.Errorf("%s: the progress is another, %v", what, err)
		}
	}
	trainTiny(t, path, "--steps", "500", "--name", "other") // is nobody's progress
	if again := trainTiny(t, path, "--steps", "500", "--restart"); again != straight {
		t.Errorf("--restart ends with %s, the first run with %s", again, straight)
	}
	trainTiny(t, path, "--restart")
	trainTiny(t, path, "--steps", "10") // a run that is over has none
}

// writing is when the store's file changes. An empty store is smaller than any
// progress, and its birth does not count.
func writing(_ *testing.T, store *checkpoints.Store) func() bool {
	modified := func() time.Time {
		if info, err := os.Stat(store.Path); err == nil && info.Size() > 1<<17 {
			return info.ModTime()
		}
		return time.Time{}
	}
	before := modified()
	return func() bool { return modified() != before }
}

// advanced is when the run's progress in the store is another.
func advanced(t *testing.T, store *checkpoints.Store) func() bool {
	progress := func() []byte {
		stored, err := store.GetTraining("tiny")
		if err != nil && !errors.Is(err, checkpoints.ErrNotFound) {
			t.Error(err)
		}
		return stored.Progress
	}
	before := progress()
	return func() bool { return !bytes.Equal(progress(), before) }
}

// killWhen kills the process once now is true, in the midst of whatever it does. It is
// false if the process ended before.
func killWhen(t *testing.T, c *exec.Cmd, now func() bool) bool {
	t.Helper()
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return false
		case <-deadline:
			t.Fatal("the moment to kill did not come within a minute")
		case <-tick.C:
			if now() {
				_ = c.Process.Kill()
				var exit *exec.ExitError
				return errors.As(<-ended, &exit) && !exit.Exited()
			}
		}
	}
}

// A resumed run goes on with the curves: no row and no event is lost, nor is there
// a second header. Rows that a killed one wrote after its last save are not repeated.
func TestResumedTrainingAppendsCurves(t *testing.T) {
	straight, resumed := t.TempDir(), t.TempDir()
	trainTiny(t, storePath(t), "--out", straight, "--steps", "4000")
	store := storePath(t)
	trainTiny(t, store, "--out", resumed, "--steps", "2000")
	table, err := os.OpenFile(filepath.Join(resumed, "progress.csv"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := table.WriteString("3000,1.5,0,1,0,,,0,0,\n4000,1"); err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); err != nil {
		t.Fatal(err)
	}
	trainTiny(t, store, "--out", resumed, "--steps", "4000", "--resume")
	steps := func(folder string) (column []string, events int64) {
		text, err := os.ReadFile(filepath.Join(folder, "progress.csv"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range strings.Fields(string(text)) {
			step, _, _ := strings.Cut(line, ",")
			column = append(column, step)
		}
		files, _ := filepath.Glob(filepath.Join(folder, "events.out.tfevents.*"))
		for _, f := range files {
			info, err := os.Stat(f)
			if err != nil {
				t.Fatal(err)
			}
			events += info.Size()
		}
		return column, events
	}
	want, wantEvents := steps(straight)
	got, gotEvents := steps(resumed)
	if !slices.Equal(got, want) || gotEvents < wantEvents {
		t.Errorf("resumed: rows %v and %d bytes of events, straight: %v and %d", got, gotEvents, want, wantEvents)
	}
}
