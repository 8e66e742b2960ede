package main

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"gearshift/checkpoints"
	"gearshift/internal/calibrate/enginetest"
)

// again stores the newest version of the name once more, by its digest another.
func again(t *testing.T, path, name string) {
	t.Helper()
	store := &checkpoints.Store{Path: path}
	c, _, err := store.Get(checkpoints.Ref{Name: name, Alias: checkpoints.Newest})
	if err != nil {
		t.Fatal(err)
	}
	c.Network.Biases[0][0]++
	if _, _, err := store.Put(name, c, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
}

func TestScenarioFilesRoundTrip(t *testing.T) {
	for _, name := range strings.Fields(succeed(t, "scenario", "ls")) {
		path := write(t, "copy.yaml", succeed(t, "scenario", "show", name))
		if out := succeed(t, "scenario", "check", path); !strings.Contains(out, "valid") {
			t.Errorf("check of a copy of %s: %s", name, out)
		}
	}
}

func TestEvalRefuses(t *testing.T) {
	fail(t, []string{"eval", "--scenario", "titan"}, `"titan"`, "titan-rtx-opt")
	fail(t, []string{"eval", "--scenario", "tiny", "--policy", "static:huge"}, "huge", "small, large")
	fail(t, []string{"eval", "--scenario", "tiny", "--policy", "threshold:9,3"}, "threshold")
	fail(t, []string{"eval", "--scenario", "tiny", "--workload", "u3"}, "u3", "poisson:RATE")
	fail(t, []string{"eval", "--scenario", "tiny", "--format", "xml"}, "xml", "table")
	fail(t, []string{"eval", "--scenario", "tiny", "--seeds", "0"}, "--seeds")
	fail(t, []string{"eval", "--scenario", "tiny", "--seeds", "9000000000000000000"}, "--seeds", "at most 100000")
	fail(t, []string{"eval", "--scenario", "tiny", "--tune", "--tune-seeds", "9000000000000000000"}, "--tune-seeds", "at most 100000")
	fail(t, []string{"bound", "--scenario", "tiny", "--seeds", "9000000000000000000"}, "--seeds", "at most 100000")
	fail(t, []string{"eval", "--scenario", "tiny", "--routers", "0"}, "--routers 0: want 1 to 1000")
	fail(t, []string{"eval", "--scenario", "tiny", "--routers", "1000000"}, "--routers 1000000: want 1 to 1000")
	fail(t, []string{"eval", "--scenario", "tiny", "--gauge-interval", "-1s"}, "--gauge-interval -1s is negative")
	fail(t, []string{"eval", "--scenario", "tiny", "--gauge-interval", "2s"}, "--gauge-interval has no meaning with one router; see --routers")
	fail(t, []string{"eval", "--scenario", "tiny", "--share-interval", "1s"}, "--share-interval has no meaning with one router; see --routers")
	fail(t, []string{"eval", "--scenario", "tiny", "--routers", "2", "--share-interval", "-1s"}, "--share-interval -1s is negative")
	fail(t, []string{"eval", "--scenario", "tiny", "--routers", "2", "--share-delay", "1s"}, "--share-delay 1s; want it from 0s to below --share-interval, which is 0s")
	fail(t, []string{"eval", "--scenario", "tiny", "--tune-for", "near-peak"}, "--tune-for has no meaning without --tune")
	fail(t, []string{"eval", "--scenario", "tiny", "--routers", "2", "--policy", "clairvoyant:slackfit"}, "sees the whole fleet; want 1")
	fail(t, []string{"eval", "--scenario", "tiny", "--policy", "mine", "--store", filepath.Join(t.TempDir(), "none.db")}, "none.db", "gearshift train")
	over := edited(t, "tiny", "memory: 80%", "memory: 90%")
	fail(t, []string{"scenario", "check", over}, "edited.yaml:", "replicas", "memory")
	broken := write(t, "broken.csv", "req_time_s,client,prompt_len,output_len\n0.0,1,10,20\n0.5,1,ten,20\n")
	fail(t, []string{"eval", "--scenario", "tiny", "--workload", "trace:" + broken}, "broken.csv:3", "prompt_len", "ten")
}

// Where several names have a version in production, the list tells which one serve takes.
func TestTheListTellsWhichPolicyIsServed(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	store := &checkpoints.Store{Path: path}
	c, _, err := store.Get(checkpoints.Ref{Name: "mine", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Put("other", c, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	listed := func(want string) {
		t.Helper()
		if out := succeed(t, "policy", "ls", "--store", path); strings.Contains(out, "serve takes") != (want != "") || !strings.Contains(out, want) {
			t.Errorf("want %q:\n%s", want, out)
		}
	}
	promote := func(name string) {
		t.Helper()
		succeed(t, "policy", "promote", name, "--force", "--reason", "a test", "--store", path)
	}
	promote("mine")
	listed("")
	promote("other")
	listed("serve takes other@1 without --policy")
	promote("mine")
	listed("serve takes mine@1 without --policy")
	succeed(t, "policy", "rm", "mine", "--force", "--store", path)
	listed("serve takes none without --policy")
}

// A folder that cannot be made is said before anything is played.
func TestEvalMakesItsFolderFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be played
	var stdout, stderr strings.Builder
	args := []string{"eval", "--scenario", "tiny", "--seeds", "1", "--policy", "slackfit", "--out", filepath.Join(write(t, "file", ""), "folder")}
	if code := run(ctx, args, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "cannot make folder for reports") {
		t.Errorf("exit code %d: %s", code, stderr.String())
	}
}

// Results that a file does not take are shown all the same.
func TestEvalShowsWhatItCannotWrite(t *testing.T) {
	out := t.TempDir()
	if err := os.Mkdir(filepath.Join(out, "eval.json"), 0o755); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := gearshift(t, "eval", "--scenario", "tiny", "--seeds", "1", "--requests", "10", "--policy", "slackfit", "--workload", "u1", "--out", out)
	if code != 1 || !strings.Contains(stderr, "cannot write report") || !strings.Contains(stdout, "slackfit:0.93") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// What is wrong with a clairvoyant is said before anything is played.
func TestClairvoyantsAreCheckedFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be played
	for ref, want := range map[string]string{
		"clairvoyant:slackfit@-1s": "a horizon of -1s lies in the past", "clairvoyant:slackfit@1s,-1": "-1 passes",
		"clairvoyant:slackfit@1s,2,3": "not a number",
	} {
		var stdout, stderr strings.Builder
		args := []string{"eval", "--scenario", "tiny", "--seeds", "1", "--policy", "slackfit", "--policy", ref}
		if code := run(ctx, args, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), ref) || !strings.Contains(stderr.String(), want) {
			t.Errorf("%s: exit code %d: %s", ref, code, stderr.String())
		}
	}
}

// A loss that leaves a policy no replica is said before anything is played or tuned.
func TestLossesOfEveryHostAreRefusedFirst(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // nothing can be played
	for _, command := range [][]string{{"eval"}, {"eval", "--tune"}, {"bound"}} {
		var stdout, stderr strings.Builder
		args := append(command, "--scenario", "tiny", "--workload", "u1", "--workload", "u1+lost:gpu0@60-120")
		if code := run(ctx, args, &stdout, &stderr); code != 1 || !strings.Contains(stderr.String(), "on u1+lost:gpu0@60-120: ") || !strings.Contains(stderr.String(), "no replica is left") {
			t.Errorf("%v: exit code %d: %s", command, code, stderr.String())
		}
	}
}

// A policy trained for other variants never routes.
func TestForeignPolicyIsRefused(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	for _, command := range []string{"eval", "serve"} {
		fail(t, []string{command, "--scenario", "titan-rtx-opt", "--store", path, "--policy", "mine"},
			"mine@1", "trained for variants [small large]", "opt-125m")
		fail(t, []string{command, "--scenario", "tiny", "--store", path, "--policy", "store:yours"}, "yours", "mine")
	}
}

func TestDamagedAndLockedStore(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := write(t, "damaged.db", string(data[:len(data)/3]))
	fail(t, []string{"policy", "ls", "--store", damaged}, "damaged.db")
	fail(t, []string{"serve", "--scenario", "tiny", "--store", damaged, "--policy", "mine"}, "damaged.db")
	text := write(t, "text.db", "not a store")
	fail(t, []string{"policy", "ls", "--store", text}, "text.db")

	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	fail(t, []string{"policy", "ls", "--store", path}, "locked")
}

// A command whose results do not get through, as on a full disk, has not succeeded.
func TestResultsThatCannotBePrintedAreAnError(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	for _, args := range [][]string{
		{"version"}, {"--help"}, {"scenario", "ls"}, {"scenario", "check", "tiny"}, {"workload", "stat", "poisson:1", "--scenario", "tiny"},
		{"policy", "ls", "--store", path}, {"policy", "rm", "mine", "--store", path},
	} {
		var stderr strings.Builder
		code := run(t.Context(), args, brokenOutput{}, &stderr)
		if code != 1 || !strings.HasSuffix(stderr.String(), "no space\n") || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("gearshift %s: exit code %d, %q", strings.Join(args, " "), code, stderr.String())
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	code, _, stderr := gearshift(t, "serve", "--scenario", "tiny", "--store", filepath.Join(t.TempDir(), "none.db"), "--addr", l.Addr().String())
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if last := lines[len(lines)-1]; code != 1 || !strings.Contains(last, l.Addr().String()) || !strings.Contains(last, "in use") {
		t.Errorf("exit code %d, %q", code, last)
	}
}

func TestPolicyCommands(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	at := func(args ...string) []string { return append(append([]string{"policy"}, args...), "--store", path) }
	if out := succeed(t, at("ls")...); !strings.Contains(out, "mine@1") {
		t.Errorf("ls: %s", out)
	}
	if out := succeed(t, at("show", "mine", "--format", "json")...); !strings.Contains(out, `"sha256"`) || !strings.Contains(out, `"small"`) {
		t.Errorf("show: %s", out)
	}
	fail(t, at("promote", "mine"), "mine@1", "no stored comparison")
	fail(t, at("promote", "mine", "--force"), "--reason")
	fail(t, at("promote", "mine", "--reason", "why not"), "--force")
	succeed(t, at("promote", "store:mine@1", "--force", "--reason", "a test")...)
	if out := succeed(t, at("show", "mine", "--wide")...); !strings.Contains(out, `"forced": "a test"`) {
		t.Errorf("the reason is not kept: %s", out)
	}
	fail(t, at("rm", "mine"), "production")
	fail(t, at("rollback", "mine"), "mine")
	fail(t, at("promote", "mine@2"), "mine", "2")
	again(t, path, "mine")
	fail(t, at("promote", "mine"), "cannot promote mine@2") // the newest, and not the one in production
	if out := succeed(t, at("promote", "mine", "--force", "--reason", "a test")...); out != "mine@2 is in production\n" {
		t.Errorf("promote: %s", out)
	}
	if out := succeed(t, at("promote", "mine@previous", "--force", "--reason", "a test")...); out != "mine@1 is in production\n" {
		t.Errorf("promote: %s", out)
	}
	succeed(t, at("rm", "mine", "--force")...)
	fail(t, at("show", "mine"), "mine")
}

func TestCommandLineFaults(t *testing.T) {
	fail(t, []string{"polcy"}, `unknown command "polcy"`, "policy")
	for _, name := range []string{"failover", "key", "lease", "modality", "models", "offload", "policy", "profile", "quality", "replica", "scenario", "store", "workload"} {
		fail(t, []string{name, "lst"}, `unknown command "lst" for "gearshift `+name+`"`)
		if out := succeed(t, name); !strings.Contains(out, "Available Commands") {
			t.Errorf("%s alone: %s", name, out)
		}
	}
	for _, command := range [][]string{{"serve"}, {"train"}, {"failover", "simulate"}} {
		fail(t, append(command, "mine.yaml"), `unexpected argument "mine.yaml": gearshift `+strings.Join(command, " ")+" takes flags alone; want --scenario mine.yaml")
	}
	fail(t, []string{"failover", "failback", "h1"}, `unexpected argument "h1": gearshift failover failback takes flags alone; see gearshift failover failback --help`)
	fail(t, []string{"policy", "show"}, "want gearshift policy show NAME[@VERSION]")
	fail(t, []string{"scenario", "show", "a", "b"}, "want gearshift scenario show NAME|FILE")
	fail(t, []string{"replay", "--url", "x", "--trace", "y", "--rate", "NaN"}, "--rate NaN")
	fail(t, []string{"replay", "--url", "x", "--trace", "y", "--format", "xml"}, "table or json")
	fail(t, []string{"replay", "--url", "x", "--trace", "y", "--api-key-env", "NO_SUCH_KEY"}, "NO_SUCH_KEY", "empty")
	fail(t, []string{"serve", "--scenario", "tiny", "--policy", "static:small", "--addr", "127.0.0.1:0", "--http3", ":8443"}, "--http3 :8443: tiny has no streaming clients; want a section serving.streams, or no such flag")
	fail(t, []string{"stream", "--url", "x", "--arise-estimate"}, "--arise-estimate is for --scenes")
	fail(t, []string{"stream", "--url", "x", "--warmup", "10s"}, "--warmup 10s", "less than --duration 10s")
	fail(t, []string{"stream", "--url", "x", "--link", "3g"}, "--link 3g: want 5g, lte, or a file")
	fail(t, []string{"stream", "--url", "x", "--simulate", "tiny"}, "--simulate tiny: the scenario has no serving.streams")
	fail(t, []string{"serve", "--adr", "x"}, "--adr", "gearshift serve --help")
}

func TestWorkloadCommands(t *testing.T) {
	path := filepath.Join(t.TempDir(), "u1.jsonl")
	succeed(t, "workload", "gen", "u1", "--scenario", "tiny", "--requests", "500", "--out", path)
	out := succeed(t, "workload", "stat", "trace:"+path+"@4", "--scenario", "tiny")
	if !strings.Contains(out, "requests             500") || !strings.Contains(out, "mean rate            4/s") {
		t.Errorf("stat of what gen wrote, at 4/s: %s", out)
	}
	fail(t, []string{"workload", "stat", "gamma:2"}, "gamma:2,3")
	fail(t, []string{"workload", "stat", "stable"}, "stable:5")
	fail(t, []string{"workload", "gen", "u1", "--requests", "-1"}, "--requests -1")
	none := filepath.Join(t.TempDir(), "none")
	fail(t, []string{"workload", "gen", "u1", "--out", none + "/u1.jsonl"}, "cannot make a file in the folder "+none+": no such file or directory")
	fail(t, []string{"workload", "gen", "u1+gpu:x2"}, "+gpu and +lost change the fleet")
	fail(t, []string{"workload", "stat", "u1+outputs:x2+lost:gpu0@1-"}, "+gpu and +lost change the fleet")
	fail(t, []string{"workload", "stat", "trace:nowhere.csv"}, "nowhere.csv")
}

// The trace flag writes the first run's events.
func TestEvalTrace(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.json")
	succeed(t, "eval", "--scenario", "tiny", "--policy", "threshold", "--workload", "poisson:2", "--seeds", "2", "--requests", "50", "--trace", path)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(data), "[\n{") || !strings.HasSuffix(string(data), "]\n") {
		t.Errorf("trace: %.80s", data)
	}
}

func TestVersion(t *testing.T) {
	if out := succeed(t, "version"); !strings.Contains(out, "gearshift "+version) || !strings.Contains(out, "training:") {
		t.Errorf("version: %s", out)
	}
}
