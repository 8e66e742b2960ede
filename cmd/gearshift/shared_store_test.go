package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/internal/etcd/etcdtest"
)

// routes returns the policy by which the server routes.
func (s *served) routes(t *testing.T) string {
	t.Helper()
	status, header, text := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","messages":[{"role":"user","content":"how do gears turn"}],"max_tokens":2}`)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, text)
	}
	return header.Get("X-Gearshift-Policy")
}

// TestTheStoreInEtcd: a promotion by a command is followed at once. While etcd is killed or partitioned, routing goes
// on by the last policy, and promotions are refused in one line; once it is back, what was missed is followed.
func TestTheStoreInEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	proxy := etcdtest.NewProxy(t, server.Endpoint)
	direct, proxied := "etcd://"+server.Endpoint+"/mine", "etcd://"+proxy.Endpoint+"/mine"
	succeed(t, "policy", "promote", "static:small", "--store", direct)
	s := steerTiny(t, "--no-tuning", "--store", proxied)
	follows := func(policy string) {
		t.Helper()
		etcdtest.Eventually(t, policy+" routes", func() bool { return s.routes(t) == policy })
	}
	logged := func(text string) bool { return strings.Contains(s.log.String(), text) }
	follows("static:small")
	succeed(t, "policy", "promote", "static:large", "--store", direct)
	follows("static:large")
	if out := succeed(t, "policy", "ls", "--store", direct); !strings.Contains(out, "static@2") {
		t.Errorf("policy ls: %s", out)
	}
	server.Compact(t)
	succeed(t, "policy", "rollback", "--store", direct)
	follows("static:small")

	proxy.Slow(100 * time.Millisecond)
	succeed(t, "policy", "promote", "static:large", "--store", direct)
	follows("static:large")
	succeed(t, "policy", "rollback", "--store", direct)
	follows("static:small")
	proxy.Pass()

	for i, fault := range []func(){proxy.Cut, proxy.Hold} {
		fault()
		etcdtest.Eventually(t, "the log says that the store is away", func() bool { return strings.Count(s.log.String(), "the store of policies is away") == i+1 })
		if _, _, text := s.operators.ask(t, "GET", "/metrics", ""); !strings.Contains(text, "gearshift_store_reachable 0\n") {
			t.Error("gearshift_store_reachable is not 0")
		}
		if got := s.routes(t); got != "static:small" {
			t.Errorf("%s routes", got)
		}
		for _, command := range [][]string{
			{"policy", "promote", "static:large", "--store", proxied},
			{"policy", "promote", "static:large", "--reason", "x", "--force", "--admin", s.operators.url},
		} {
			code, out, stderr := gearshift(t, command...)
			if code != 1 || out != "" || !strings.Contains(stderr, "is away: cannot") || !strings.Contains(stderr, proxy.Endpoint) || strings.Count(stderr, "\n") != 1 {
				t.Errorf("%q: exit code %d, %s\n%s", command, code, out, stderr)
			}
		}
		succeed(t, "policy", "promote", "static:large", "--store", direct)
		server.Compact(t) // what the watch has not seen
		proxy.Pass()
		follows("static:large")
		if !logged("the store of policies is back") {
			t.Error("no word that the store is back")
		}
		succeed(t, "policy", "rollback", "--store", direct)
		follows("static:small")
	}
	s.end(t)
}

// TestRollbackWhileEtcdIsAway: a rollback by /admin while etcd is away applies to that router until etcd is back. Then
// production is in charge again, though it has not changed.
func TestRollbackWhileEtcdIsAway(t *testing.T) {
	server := etcdtest.Start(t)
	proxy := etcdtest.NewProxy(t, server.Endpoint)
	direct := "etcd://" + server.Endpoint + "/mine"
	succeed(t, "policy", "promote", "static:small", "--store", direct)
	s := steerTiny(t, "--no-tuning", "--store", "etcd://"+proxy.Endpoint+"/mine")
	follows := func(policy string) {
		t.Helper()
		etcdtest.Eventually(t, policy+" routes", func() bool { return s.routes(t) == policy })
	}
	follows("static:small")
	succeed(t, "policy", "promote", "static:large", "--store", direct)
	follows("static:large")
	for range 2 {
		proxy.Cut()
		etcdtest.Eventually(t, "the store is away", func() bool {
			_, _, text := s.operators.ask(t, "GET", "/metrics", "")
			return strings.Contains(text, "gearshift_store_reachable 0\n")
		})
		gearshift(t, "policy", "rollback", "--admin", s.operators.url) // its answer says that the store has not got it
		if got := s.routes(t); got != "static:small" {
			t.Errorf("%s routes after the rollback", got)
		}
		proxy.Pass()
		follows("static:large")
	}
	s.end(t)
}

// TestTheFirstPromotionIsTakenBack: a rollback by /admin to the fallback is followed by the other routers.
func TestTheFirstPromotionIsTakenBack(t *testing.T) {
	server := etcdtest.Start(t)
	store := "etcd://" + server.Endpoint + "/mine"
	a, b := steerTiny(t, "--no-tuning", "--store", store), steerTiny(t, "--no-tuning", "--store", store)
	fallback := a.routes(t)
	for range 2 {
		succeed(t, "policy", "promote", "static:large", "--reason", "x", "--force", "--admin", a.operators.url)
		etcdtest.Eventually(t, "both route by the policy", func() bool { return a.routes(t) == "static:large" && b.routes(t) == "static:large" })
		succeed(t, "policy", "rollback", "--admin", a.operators.url)
		etcdtest.Eventually(t, "both route by the fallback", func() bool { return a.routes(t) == fallback && b.routes(t) == fallback })
	}
	a.end(t)
	b.end(t)
}

// TestServeStartsWithoutEtcd: the fallback routes until etcd is there, then the policy in production.
func TestServeStartsWithoutEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	proxy := etcdtest.NewProxy(t, server.Endpoint)
	succeed(t, "policy", "promote", "static:large", "--store", "etcd://"+server.Endpoint+"/mine")
	proxy.Cut()
	s := steerTiny(t, "--no-tuning", "--store", "etcd://"+proxy.Endpoint+"/mine")
	if got := s.routes(t); !strings.HasPrefix(got, "slackfit") {
		t.Errorf("%s routes, not the fallback", got)
	}
	proxy.Pass()
	etcdtest.Eventually(t, "the policy in production routes", func() bool { return s.routes(t) == "static:large" })
	s.end(t)
}

// TestStoreCommandsInEtcd: a store moves from a file into etcd and back.
func TestStoreCommandsInEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	file, address, back := storePath(t), "etcd://"+server.Endpoint+"/copied", filepath.Join(t.TempDir(), "back.db")
	succeed(t, "policy", "promote", "static:small", "--store", file)
	if out := succeed(t, "store", "copy", address, "--store", file); !strings.Contains(out, "1 versions of 1 policies") {
		t.Errorf("copy: %s", out)
	}
	if out := succeed(t, "store", "verify", "--store", address); !strings.Contains(out, "it is intact") {
		t.Errorf("verify: %s", out)
	}
	succeed(t, "store", "backup", back, "--store", address)
	if out := succeed(t, "policy", "ls", "--store", back); !strings.Contains(out, "static@1") {
		t.Errorf("policy ls: %s", out)
	}
	if code, _, stderr := gearshift(t, "store", "compact", "--store", address); code != 1 || !strings.Contains(stderr, "it is for stores in files") {
		t.Errorf("compact: exit code %d, %s", code, stderr)
	}
}

// TestOneOfTwoRoutersActs: with a store in etcd, both routers of a scenario with failover start and route, one acts, and
// the other takes over when that ends.
func TestOneOfTwoRoutersActs(t *testing.T) {
	server := etcdtest.Start(t)
	store := "etcd://" + server.Endpoint + "/mine"
	start := func() *steered {
		return steerTiny(t, "--scenario", "faillite-testbed", "--no-tuning", "--store", store)
	}
	leads := func(s *steered) bool {
		_, _, text := s.operators.ask(t, "GET", "/metrics", "")
		return strings.Contains(text, "gearshift_leader 1\n")
	}
	a := start()
	etcdtest.Eventually(t, "the first acts", func() bool { return leads(a) })
	b := start()
	if leads(b) || !leads(a) {
		t.Errorf("the second acts: %v, the first: %v", leads(b), leads(a))
	}
	a.end(t)
	etcdtest.Eventually(t, "the second acts", func() bool { return leads(b) })
	if log := b.log.String(); !strings.Contains(log, "this router acts: controllers begin") {
		t.Errorf("no word that the second acts: %s", log)
	}
	b.end(t)
	for flag, want := range map[string]string{"--failover-state": "--state keeps all states in etcd", "--state": "has no controller that keeps a state"} {
		scenario := "tiny"
		if flag != "--state" {
			scenario = "faillite-testbed"
		}
		code, _, stderr := gearshift(t, "serve", "--scenario", scenario, "--addr", "127.0.0.1:0", "--store", storePath(t), flag, store)
		if code != 1 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %s", flag, code, stderr)
		}
	}
}
