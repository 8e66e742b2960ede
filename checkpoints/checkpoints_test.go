package checkpoints_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/etcd/etcdtest"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

// TestMain lets the test binary play the process that is killed, see
// TestKilledWriterLeavesAWholeStore.
func TestMain(m *testing.M) {
	if path := os.Getenv(writerEnv); path != "" {
		writeForEver(path)
	}
	code := m.Run()
	if etcdStarted.Load() {
		if s, err := server(); err == nil {
			s.Close()
		}
	}
	os.Exit(code)
}

// server is the etcd of all tests; the first use starts it.
var server = sync.OnceValues(func() (*etcdtest.Server, error) {
	etcdStarted.Store(true)
	return etcdtest.New()
})

var etcdStarted atomic.Bool

// newShared returns a store in etcd that does not exist yet.
func newShared(t testing.TB) *checkpoints.Store {
	t.Helper()
	s, err := server()
	if err != nil {
		t.Fatal(err)
	}
	return &checkpoints.Store{Path: "etcd://" + s.Endpoint + "/" + url.PathEscape(t.Name()), Timeout: time.Minute}
}

// onBoth runs a test of the store in a file and in etcd.
func onBoth(t *testing.T, test func(t *testing.T, s *checkpoints.Store)) {
	t.Run("file", func(t *testing.T) { test(t, newStore(t)) })
	t.Run("etcd", func(t *testing.T) { test(t, newShared(t)) })
}

// epoch is when the tests' policies are created.
var epoch = time.Date(2024, 2, 29, 12, 0, 0, 123456789, time.UTC)

// sample is a small checkpoint, different for each seed.
func sample(t testing.TB, seed uint64) *checkpoints.Checkpoint {
	t.Helper()
	c, err := makeSample(seed, 8)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// makeSample is sample with a hidden layer of some width.
func makeSample(seed uint64, hidden int) (*checkpoints.Checkpoint, error) {
	spec := observation.Spec{
		Version: observation.Version, Tasks: []string{"chat", "code"}, Variants: []string{"small", "large"},
		Features: []observation.Feature{
			{Kind: observation.TaskOneHot},
			{Kind: observation.InFlight, Scale: []float64{16, 8}},
			{Kind: observation.Rate, Scale: []float64{10}},
		},
	}
	network, err := nn.New(spec.Dim(), hidden, len(spec.Variants))
	if err != nil {
		return nil, err
	}
	network.Randomise(rand.New(rand.NewPCG(seed, 1)))
	return &checkpoints.Checkpoint{Network: network, Meta: checkpoints.Meta{
		Scenario: "tiny", ScenarioHash: "5ca1ab1e", Spec: spec, SpecHash: spec.Hash(), Preset: "quick",
		Config: json.RawMessage(`{"decisions":1000,"hidden":[8]}`), Seed: seed, Decisions: 1000,
		Evaluation: json.RawMessage(`{"utility":0.875}`),
	}}, nil
}

func encode(t testing.TB, c *checkpoints.Checkpoint) []byte {
	t.Helper()
	data, err := checkpoints.Encode(c)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// newStore is a store that is not there yet.
func newStore(t testing.TB) *checkpoints.Store {
	return &checkpoints.Store{Path: filepath.Join(t.TempDir(), "store.db")}
}

// put stores the sample of a seed and wants a version.
func put(t testing.TB, s *checkpoints.Store, name string, seed uint64, want int) {
	t.Helper()
	v, _, err := s.Put(name, sample(t, seed), epoch.Add(time.Duration(seed)*time.Second))
	if err != nil || v != want {
		t.Fatalf("Put(%q) = %d, %v; want version %d", name, v, err, want)
	}
}

// wantSample fails unless ref is the policy stored by put with that seed.
func wantSample(t testing.TB, s *checkpoints.Store, ref string, seed uint64, version int) {
	t.Helper()
	r, err := checkpoints.ParseRef(ref)
	if err != nil {
		t.Fatal(err)
	}
	c, e, err := s.Get(r)
	if err != nil {
		t.Fatalf("Get(%s): %v", ref, err)
	}
	want := sample(t, seed)
	want.Meta.Format = checkpoints.Format
	if !reflect.DeepEqual(c, want) {
		t.Errorf("Get(%s) is not the policy of seed %d", ref, seed)
	}
	data := encode(t, want)
	wantEntry := checkpoints.Entry{Name: r.Name, Version: version, Created: epoch.Add(time.Duration(seed) * time.Second),
		Digest: checkpoints.Digest(data), Size: len(data), Aliases: e.Aliases, Meta: want.Meta}
	if !reflect.DeepEqual(e, wantEntry) {
		t.Errorf("Get(%s) has entry\n%+v\nwant\n%+v", ref, e, wantEntry)
	}
}

// wantError fails unless err is a sentinel and has that text.
func wantError(t testing.TB, err, sentinel error, text string) {
	t.Helper()
	if !errors.Is(err, sentinel) || err.Error() != text {
		t.Errorf("error is\n\t%v\nwant one that is %q, with text\n\t%s", err, sentinel, text)
	}
}
