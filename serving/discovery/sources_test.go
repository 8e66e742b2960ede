package discovery

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/internal/scenario"
	"gearshift/serving/discovery/settings"
)

// A changed file is read again; an invalid one changes nothing, and the log reports why.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.yaml")
	write := func(text string) {
		must(t, os.WriteFile(path+".new", []byte(text), 0o600), os.Rename(path+".new", path))
	}
	var log lockedBuffer
	source := NewFile(path, scenario.Decode, slog.New(slog.NewTextHandler(&log, nil)))
	h := follow(t, source)
	log.wait(t, "there are none until it can be read", "no such file")
	write("- {variant: small, address: 10.0.0.1:8000}\n")
	h.want(t, "10.0.0.1:8000 10.0.0.1:8000 small ready")
	write("- {variant: small, address: 10.0.0.1:8000, ready: false}\n- {variant: large, address: '[::1]:8000', name: a, host: l4, ending: true}\n")
	h.want(t, "10.0.0.1:8000 10.0.0.1:8000 small", "a [::1]:8000 large ready ending")
	write("- {variant: small, address: nowhere}\n- {address: 10.0.0.2:8000, port: 1}\n")
	log.wait(t, "list.yaml:2: [1].variant: missing", "unknown key", "the last good one stays")
	log.wait(t, `list.yaml:1: [0].address: \"nowhere\" is not an address; want host:port, such as 10.0.0.1:8000`)
	write("- {variant: small, address: 10.0.0.1:8000}\n- {variant: small, address: 10.0.0.2:8000}\n- {variant: small, address: 10.0.0.2:8000}\n")
	log.wait(t, "[2]: is listed as [1] already")
	h.want(t, "10.0.0.1:8000 10.0.0.1:8000 small", "a [::1]:8000 large ready ending")
	if m := New(Options{Source: source}); m.reachable() {
		t.Error("reachable, although the file is invalid")
	}
	write("[]")
	h.want(t)
	if m := New(Options{Source: source}); !m.reachable() {
		t.Error("not reachable, although the file can be read")
	}
}

// lockedBuffer is a log that may be read while it is written.
type lockedBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// wait returns once the log has all of the texts.
func (b *lockedBuffer) wait(t *testing.T, texts ...string) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(10 * time.Second); ; {
		b.mu.Lock()
		got := b.text.String()
		b.mu.Unlock()
		missing := ""
		for _, text := range texts {
			if !strings.Contains(got, text) {
				missing = text
			}
		}
		if missing == "" {
			return
		}
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("the log has no %s:\n%s", missing, got)
		}
	}
}

// names is a resolver of its entries. A missing name is not found; an empty list fails the look-up.
type names struct {
	mu      sync.Mutex
	hosts   map[string][]string
	records map[string][]*net.SRV
}

func (n *names) set(name string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hosts[name] = addresses
}

func (n *names) LookupNetIP(_ context.Context, _, host string) (list []netip.Addr, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	addresses, ok := n.hosts[host]
	switch {
	case !ok:
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case len(addresses) == 0:
		return nil, errors.New("the name server does not answer")
	}
	for _, a := range addresses {
		list = append(list, netip.MustParseAddr(a))
	}
	return list, nil
}

func (n *names) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	return name, n.records[name], nil
}

// Names are looked up repeatedly. One whose look-up fails keeps its engines; one that does not exist loses them.
func TestDNS(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		groups := fleetOf()
		groups[0].Port, groups[1].Port = 8000, 9000
		config := &settings.DNS{Names: map[string]string{"small": "small.local", "fast": "fast.local", "big": "_http._tcp.big.local"}}
		found := &names{hosts: map[string][]string{}, records: map[string][]*net.SRV{"_http._tcp.big.local": {{Target: "big-0.local.", Port: 8100}}}}
		found.set("small.local", "10.0.0.1", "::ffff:10.0.0.2")
		var log lockedBuffer
		source := newDNS(config, groups, found, slog.New(slog.NewTextHandler(&log, nil)))
		h := follow(t, source)
		big := "big-0.local:8100 big-0.local:8100 big ready"
		h.want(t, "10.0.0.1:8000 10.0.0.1:8000 small ready", "10.0.0.2:8000 10.0.0.2:8000 small ready", big)
		found.set("fast.local", "10.0.0.3")
		found.set("small.local")
		time.Sleep(2 * time.Second)
		h.want(t, "10.0.0.1:8000 10.0.0.1:8000 small ready", "10.0.0.2:8000 10.0.0.2:8000 small ready", "10.0.0.3:9000 10.0.0.3:9000 fast ready", big)
		if source.Reachable() {
			t.Error("reachable, although a look-up fails")
		}
		found.mu.Lock()
		delete(found.hosts, "small.local")
		found.mu.Unlock()
		time.Sleep(2 * time.Second)
		h.want(t, "10.0.0.3:9000 10.0.0.3:9000 fast ready", big)
		time.Sleep(10 * time.Second)
		if !source.Reachable() {
			t.Error("not reachable, although the name server answers")
		}
		text := log.text.String()
		for _, line := range []string{"cannot look up the name of a variant", "can be looked up again", "does not resolve: the variant has no engines\" variant=fast", "does not resolve: the variant has no engines\" variant=small", "resolves\" variant=fast"} {
			if strings.Count(text, line) != 1 {
				t.Errorf("want once %s:\n%s", line, text)
			}
		}
	})
}
