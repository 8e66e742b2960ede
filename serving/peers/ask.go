package peers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Lookup returns the addresses of a name.
type Lookup func(ctx context.Context, host string) ([]string, error)

// resolveEach is the time between two look-ups of the routers' name.
const resolveEach = 2 * time.Second

// longest bounds an answer, in bytes.
const longest = 4 << 20

// errRefused is the error of a router with another fleet's token, or none.
var errRefused = errors.New("it refuses this router's token")

// Begin asks the others until end is called or the context ends. A nil module asks none.
func (m *Module) Begin(ctx context.Context) (end func()) {
	if m == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	m.mu.Lock()
	m.began, m.since = true, m.clock()
	m.mu.Unlock()
	var asking sync.WaitGroup
	asking.Go(func() { m.ask(ctx, &asking) })
	if m.Config.DNS != "" {
		asking.Go(func() { m.resolve(ctx) })
	}
	return func() {
		cancel()
		asking.Wait()
		m.client.CloseIdleConnections()
	}
}

// ask asks each of the others once in a poll, except those that have not answered yet.
func (m *Module) ask(ctx context.Context, asking *sync.WaitGroup) {
	tick := time.NewTicker(m.Config.Poll)
	defer tick.Stop()
	for {
		for _, p := range m.idle() {
			asking.Go(func() { m.askOne(ctx, p) })
		}
		m.correct(m.clock()) // answers that are too old no longer count
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// idle returns the peers that are to be asked now.
func (m *Module) idle() (list []*peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.peers {
		if !p.asking {
			p.asking = true
			list = append(list, p)
		}
	}
	return list
}

func (m *Module) askOne(ctx context.Context, p *peer) {
	at := m.clock()
	s, err := m.get(ctx, p.url)
	m.mu.Lock()
	if p.asking = false; err != nil {
		m.failed++
		p.tried, p.err = true, err
		if errors.Is(err, errRefused) && !p.refuses {
			p.refuses, p.lost = true, true
			m.Log.Warn("a router refuses this router's token, so that its requests do not count: give both the same fleet's token", "peer", p.url, "error", err)
		}
	}
	m.mu.Unlock()
	if err == nil {
		m.take(p, s, at-min(time.Duration(max(0, s.AgeMS)*float64(time.Millisecond)), m.Config.SilentAfter))
	}
}

// get asks the router at a URL, for as long as its answer would count.
func (m *Module) get(ctx context.Context, url string) (*Share, error) {
	ctx, cancel := context.WithTimeout(ctx, m.Config.SilentAfter)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+Path, nil)
	if err != nil {
		return nil, err
	}
	if m.Token != "" {
		r.Header.Set("Authorization", "Bearer "+m.Token)
	}
	answer, err := m.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusUnauthorized || answer.StatusCode == http.StatusForbidden {
		return nil, fmt.Errorf("%s answers with status %d: %w", url, answer.StatusCode, errRefused)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers with status %d; want a router of this version", url, answer.StatusCode)
	}
	var s Share
	if err := json.NewDecoder(io.LimitReader(answer.Body, longest)).Decode(&s); err != nil {
		return nil, fmt.Errorf("%s does not answer with a share: %w", url, err)
	}
	if s.Instance == "" {
		return nil, fmt.Errorf("%s does not answer with a share: it has no instance", url)
	}
	return &s, nil
}

// resolve looks up the routers' name until the context ends. If a look-up fails, the last addresses stay.
func (m *Module) resolve(ctx context.Context) {
	host, port, _ := net.SplitHostPort(m.Config.DNS) // validated
	scheme := "http://"
	if m.TLS {
		scheme = "https://"
	}
	lookup := m.Lookup
	if lookup == nil {
		lookup = net.DefaultResolver.LookupHost
	}
	tick := time.NewTicker(resolveEach)
	defer tick.Stop()
	for failed := false; ; {
		addresses, err := lookup(ctx, host)
		if err == nil {
			slices.Sort(addresses)
			for i, a := range addresses {
				addresses[i] = scheme + net.JoinHostPort(a, port)
			}
			m.list(slices.Compact(addresses))
		} else if ctx.Err() == nil && !failed {
			m.Log.Warn("cannot look up the name of the routers: keeping the last addresses", "name", host, "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
