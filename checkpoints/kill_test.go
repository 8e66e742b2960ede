package checkpoints_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"gearshift/checkpoints"
)

// writerEnv, set to a store's path, makes the test binary a process that writes
// to that store until it is killed.
const writerEnv = "GEARSHIFT_TEST_WRITER"

// writeForEver stores versions and progress that tell their number, and prints
// the number once they are stored.
func writeForEver(path string) {
	s := &checkpoints.Store{Path: path, Keep: 3}
	start := 1
	if got, err := s.GetTraining("run"); err == nil {
		n, _ := strconv.Atoi(string(got.Meta))
		start = n + 1
	}
	for n := start; ; n++ {
		c, err := makeSample(uint64(n), 500)
		if err == nil {
			_, _, err = s.Put("chat", c, epoch)
		}
		if err == nil {
			err = s.PutTraining("run", json.RawMessage(strconv.Itoa(n)), numbered(n))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		fmt.Println(n)
	}
}

// numbered is progress of a size and content that only n has.
func numbered(n int) []byte {
	return bytes.Repeat([]byte(fmt.Sprintf("%08d", n)), 100_000+n)
}

func TestKilledWriterLeavesAWholeStore(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	s := newStore(t)
	s.Keep = 3
	acknowledged, done := 0, 0
	for range 12 {
		n := killed(t, s.Path, rng)
		acknowledged = max(acknowledged, n)
		done = wantWhole(t, s, acknowledged)
	}
	if done < 3 {
		t.Errorf("12 writers stored %d versions: they were killed too early to tell anything", done)
	}
	// A killed process's lock died with it, and the store takes writes.
	if v, _, err := s.Put("chat", sample(t, 1), epoch); err != nil || v <= acknowledged {
		t.Errorf("Put = %d, %v; want a version above %d", v, err, acknowledged)
	}
}

// killed runs a writer, kills it at a random moment, and returns the last
// number that it printed, 0 for none.
func killed(t *testing.T, path string, rng *rand.Rand) int {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), writerEnv+"="+path)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Whatever the writer does at that moment is what the test is about.
	timer := time.AfterFunc(time.Duration(20+rng.IntN(250))*time.Millisecond, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	last := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if last, err = strconv.Atoi(lines.Text()); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait() // "signal: killed"
	if complaint.Len() > 0 {
		t.Fatalf("the writer failed: %s", complaint.String())
	}
	return last
}

// wantWhole checks that all that was acknowledged is there, that all that is
// there is whole, and returns the newest version.
func wantWhole(t *testing.T, s *checkpoints.Store, acknowledged int) int {
	t.Helper()
	list, err := s.List()
	if err != nil {
		if acknowledged == 0 && missing(err) {
			return 0 // killed before it had made the store
		}
		t.Fatal(err)
	}
	newest := 0
	for _, e := range list {
		if _, _, err := s.Get(e.Ref()); err != nil {
			t.Fatal(err)
		}
		newest = e.Version
	}
	if newest < acknowledged || len(list) != min(newest, s.Keep) {
		t.Fatalf("version %d was acknowledged; the store has %d versions up to %d", acknowledged, len(list), newest)
	}
	run, err := s.GetTraining("run")
	if err != nil {
		if acknowledged == 0 && missing(err) {
			return newest
		}
		t.Fatal(err)
	}
	n, err := strconv.Atoi(string(run.Meta))
	if err != nil || n < acknowledged || !bytes.Equal(run.Progress, numbered(n)) {
		t.Fatalf("progress %d was acknowledged; the store has progress %d, whole: %t", acknowledged, n, bytes.Equal(run.Progress, numbered(n)))
	}
	return newest
}
