package main

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/internal/calibrate/enginetest"
	"gearshift/internal/training/policies"
)

// glowing is an evaluation that opens the gate.
func glowing(t *testing.T) json.RawMessage {
	t.Helper()
	utility := map[string]evaluation.Interval{}
	for _, w := range policies.JudgedBy {
		utility[w] = evaluation.Interval{Mean: 1, Lo: 1, Hi: 1}
	}
	s := policies.Evaluation{Seeds: 4, HeldOut: policies.HeldOut{
		Seeds: 10, BestRule: "slackfit", Margin: evaluation.Interval{Mean: 0.5, Lo: 0.4, Hi: 0.6},
		Policies: []policies.HeldRow{{Policy: "policy", Utility: utility}, {Policy: "slackfit", Utility: utility}},
	}}
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// flattered is a random policy of tiny with a glowing evaluation.
func flattered(t *testing.T) *checkpoints.Checkpoint {
	t.Helper()
	store := &checkpoints.Store{Path: enginetest.Store(t, "tiny", "mine")}
	c, _, err := store.Get(checkpoints.Ref{Name: "mine", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Evaluated(glowing(t)); err != nil {
		t.Fatal(err)
	}
	return c
}

// exported writes a policy to a file, with a signature if there is one.
func exported(t *testing.T, c *checkpoints.Checkpoint, signature string) string {
	t.Helper()
	data, err := checkpoints.EncodeSignedONNX(c, signature)
	if err != nil {
		t.Fatal(err)
	}
	return write(t, "mine.onnx", string(data))
}

// signingKey reads the private key that policy keygen wrote.
func signingKey(t *testing.T, file string) ed25519.PrivateKey {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return key.(ed25519.PrivateKey)
}

// A file whose evaluation was edited, or whose weights were changed under it, does not get
// the policy into production by that.
func TestForgedPoliciesDoNotPassTheGate(t *testing.T) {
	dir := t.TempDir()
	own, others := filepath.Join(dir, "own.pem"), filepath.Join(dir, "others.pem")
	public := strings.TrimSpace(succeed(t, "policy", "keygen", own))
	succeed(t, "policy", "keygen", others)
	signedBy := func(c *checkpoints.Checkpoint, keyFile string) string {
		signature, err := checkpoints.Sign(c, signingKey(t, keyFile))
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	for name, c := range map[string]struct {
		file  func() string
		admit bool
	}{
		"unsigned":             {func() string { return exported(t, flattered(t), "") }, false},
		"signed by a stranger": {func() string { c := flattered(t); return exported(t, c, signedBy(c, others)) }, false},
		"signed, then given other weights": {func() string {
			c := flattered(t)
			signature := signedBy(c, own)
			c.Network = randomNetwork(t, c.Network.Sizes...)
			c.Network.Randomise(randomSource(9))
			if err := c.Evaluated(c.Meta.Evaluation); err != nil {
				t.Fatal(err)
			}
			return exported(t, c, signature)
		}, false},
		"signed with a poor evaluation, then given another": {func() string {
			c := flattered(t)
			good := c.Meta.Evaluation
			if err := c.Evaluated(json.RawMessage(`{}`)); err != nil {
				t.Fatal(err)
			}
			signature := signedBy(c, own)
			if err := c.Evaluated(good); err != nil {
				t.Fatal(err)
			}
			return exported(t, c, signature)
		}, false},
		"signed by one who is trusted": {func() string { c := flattered(t); return exported(t, c, signedBy(c, own)) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			store := storePath(t)
			succeed(t, "policy", "import", c.file(), "--scenario", "tiny", "--name", "theirs", "--store", store, "--trusted-key", public)
			code, _, stderr := gearshift(t, "policy", "promote", "theirs", "--store", store)
			if (code == 0) != c.admit {
				t.Errorf("promote: exit code %d, %s", code, stderr)
			}
		})
	}
}

// A policy of a world that is not at hand is stored without its evaluation.
func TestAnUnsignedPolicyOfAnotherScenarioIsNotJudged(t *testing.T) {
	c := flattered(t)
	c.Meta.Scenario, c.Meta.ScenarioHash = "elsewhere", strings.Repeat("0", 64)
	store := storePath(t)
	code, _, stderr := gearshift(t, "policy", "import", exported(t, c, ""), "--name", "theirs", "--store", store)
	if code != 0 || !strings.Contains(stderr, "its evaluation is not accepted") {
		t.Errorf("import: exit code %d, %s", code, stderr)
	}
	fail(t, []string{"policy", "promote", "theirs", "--store", store}, "it has no stored comparison with rules")
}

// An evaluation that is of other weights does not promote, however it came into the store.
func TestAnEvaluationIsBoundToItsWeights(t *testing.T) {
	c := flattered(t)
	c.Network.Randomise(randomSource(9))
	path := storePath(t)
	if _, _, err := (&checkpoints.Store{Path: path}).Put("swapped", c, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	fail(t, []string{"policy", "promote", "swapped", "--store", path}, "its evaluation belongs to another network")
	succeed(t, "policy", "promote", "swapped", "--store", path, "--force", "--reason", "a test")
	file := exported(t, c, "")
	key := filepath.Join(t.TempDir(), "key.pem")
	succeed(t, "policy", "keygen", key)
	fail(t, []string{"policy", "sign", file, "--key", key}, "its evaluation belongs to another network")
	fail(t, []string{"policy", "keygen", key}, "already exists")
	if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key's permissions: %v, %v", info.Mode(), err)
	}
}

func TestTrustedKeysOfTheScenario(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key.pem")
	public := strings.TrimSpace(succeed(t, "policy", "keygen", key))
	text := succeed(t, "scenario", "show", "tiny")
	with := func(list string) string {
		return write(t, "trusting.yaml", strings.Replace(text, "\nserving:\n", "\nserving:\n  policies: {trusted_keys: ["+list+"]}\n", 1))
	}
	c := flattered(t)
	signature, err := checkpoints.Sign(c, signingKey(t, key))
	if err != nil {
		t.Fatal(err)
	}
	store := storePath(t)
	succeed(t, "policy", "import", exported(t, c, signature), "--scenario", with(public), "--name", "mine", "--store", store)
	succeed(t, "policy", "promote", "mine", "--store", store)
	fail(t, []string{"scenario", "check", with("ed25519:abc")}, "serving.policies.trusted_keys[0]", "is not a public key")
}
