package main

import (
	"strings"
	"testing"

	"gearshift/internal/etcd/etcdtest"
)

// TestASecuredStoreInEtcd: with TLS, a certificate, a user and its password, commands and a router use the store, and the
// router starts while etcd is away. Each credential that is missing or wrong is one line that says which.
func TestASecuredStoreInEtcd(t *testing.T) {
	server := etcdtest.Start(t)
	cert, key := server.Secure(t, "gears", "sesame", "/mine/")
	proxy := etcdtest.NewProxy(t, server.Endpoint)
	direct, proxied := "etcds://"+server.Endpoint+"/mine", "etcds://"+proxy.Endpoint+"/mine"
	good := map[string]string{"CACERT": cert, "CERT": cert, "KEY": key, "USER": "gears", "PASSWORD": "sesame"}
	use := func(name, value string) {
		for n, v := range good {
			if n == name {
				v = value
			}
			t.Setenv("GEARSHIFT_ETCD_"+n, v)
		}
	}
	use("", "")
	succeed(t, "policy", "promote", "static:small", "--store", direct)
	if out := succeed(t, "policy", "ls", "--store", direct); !strings.Contains(out, "static@1") {
		t.Errorf("policy ls: %s", out)
	}
	proxy.Cut()
	s := steerTiny(t, "--scenario", "testdata/two-sizes.yaml", "--store", proxied)
	if got := s.routes(t); got == "static:small" {
		t.Errorf("%s routes while etcd is away", got)
	}
	proxy.Pass()
	etcdtest.Eventually(t, "the policy in production routes", func() bool { return s.routes(t) == "static:small" })
	etcdtest.Eventually(t, "the router acts", func() bool {
		_, _, text := s.operators.ask(t, "GET", "/metrics", "")
		return strings.Contains(text, "gearshift_leader 1\n")
	})
	s.end(t)

	foreign, _ := etcdtest.Certificate(t)
	for _, c := range []struct{ name, value, store, says string }{
		{"PASSWORD", "wrong", direct, "refuses the user or the password; see GEARSHIFT_ETCD_USER"},
		{"USER", "none", direct, "refuses the user or the password; see GEARSHIFT_ETCD_USER"},
		{"USER", "", direct, "GEARSHIFT_ETCD_USER"},
		{"", "", strings.Replace(direct, "/mine", "/theirs", 1), "permission denied"},
		{"CACERT", foreign, direct, "certificate signed by unknown authority"},
		{"CACERT", "", direct, "certificate signed by unknown authority"},
		{"CACERT", key, direct, "has no certificate in PEM"},
		{"KEY", "", direct, "go together"},
		{"", "", strings.Replace(direct, "etcds://", "etcd://", 1), "etcds://"},
	} {
		use(c.name, c.value)
		code, out, stderr := gearshift(t, "policy", "promote", "static:large", "--store", c.store)
		t.Log(stderr)
		if code != 1 || out != "" || !strings.Contains(stderr, c.says) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%s=%q: exit code %d, %s\n%s\nwant one line with %q", c.name, c.value, code, out, stderr, c.says)
		}
	}
	use("CERT", "")
	t.Setenv("GEARSHIFT_ETCD_KEY", "")
	fail(t, []string{"policy", "promote", "static:large", "--store", direct}, "certificate", "GEARSHIFT_ETCD_CERT")
}
