package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/internal/apiserver"
	"gearshift/serving/discovery/settings"
)

// onClusters runs a test on client-go's fake, and on a real API server where it has been built.
func onClusters(t *testing.T, test func(t *testing.T, c *apiserver.Cluster)) {
	t.Run("fake", func(t *testing.T) { test(t, apiserver.Fake()) })
	t.Run("real", func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		s, err := apiserver.Start(ctx, "../../.cache/apiserver", t.TempDir())
		if errors.Is(err, apiserver.ErrNone) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop)
		c, err := apiserver.Real(ctx, s)
		if err != nil {
			t.Fatal(err)
		}
		test(t, c)
	})
}

// heard keeps what a source lists.
type heard struct {
	mu   sync.Mutex
	last []string
	list []Endpoint
	news chan struct{}
}

// follow watches the source until the test ends.
func follow(t *testing.T, s Source) *heard {
	t.Helper()
	h := &heard{news: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		if err := s.Watch(ctx, h.set); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		done.Wait()
	})
	return h
}

func (h *heard) set(list []Endpoint) {
	texts := []string{}
	for _, e := range list {
		text := e.Name + " " + e.Address
		if e.Variant != "" {
			text += " " + e.Variant
		}
		if e.Ready {
			text += " ready"
		}
		if e.Ending {
			text += " ending"
		}
		texts = append(texts, text)
	}
	slices.Sort(texts)
	h.mu.Lock()
	h.last, h.list = texts, slices.Clone(list)
	h.mu.Unlock()
	select {
	case h.news <- struct{}{}:
	default:
	}
}

// want waits until the source lists these.
func (h *heard) want(t *testing.T, want ...string) {
	t.Helper()
	late := time.After(20 * time.Second)
	for {
		h.mu.Lock()
		got := slices.Clone(h.last)
		h.mu.Unlock()
		if got != nil && slices.Equal(got, want) {
			return
		}
		select {
		case <-h.news:
		case <-late:
			t.Fatalf("the source lists\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// must fails the test at an error.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// A selector's pods are listed with their ports, readiness and end: an ending pod has a deletion time while it is still
// ready.
func TestPodsBySelector(t *testing.T) {
	onClusters(t, func(t *testing.T, c *apiserver.Cluster) {
		ctx := t.Context()
		groups := fleetOf()
		groups[0].Port, groups[1].Port, groups[2].Port = 8000, 9000, 8100
		config := settings.Default()
		config.Kubernetes = &settings.Kubernetes{}
		k := Watching(c.Router, apiserver.Namespace, &config, groups, slog.New(slog.DiscardHandler))
		must(t, c.AddPod(ctx, "before", map[string]string{"app": "small"}), c.SetPod(ctx, "before", "10.0.0.1", true))
		h := follow(t, k)
		h.want(t, "before 10.0.0.1:8000 ready")
		must(t, c.Watched(ctx, "pods"))
		must(t, c.AddPod(ctx, "a", map[string]string{"app": "fast"}), c.AddPod(ctx, "other", map[string]string{"app": "other"}), c.SetPod(ctx, "other", "10.0.0.9", true))
		must(t, c.AddPod(ctx, "big", map[string]string{"app": "x", "gearshift.dev/variant": "big"}), c.SetPod(ctx, "big", "10.0.0.3", false))
		h.want(t, "before 10.0.0.1:8000 ready", "big 10.0.0.3:8100 big")
		must(t, c.SetPod(ctx, "a", "10.0.0.2", false), c.SetPod(ctx, "big", "10.0.0.3", true))
		h.want(t, "a 10.0.0.2:9000", "before 10.0.0.1:8000 ready", "big 10.0.0.3:8100 big ready")
		must(t, c.SetPod(ctx, "a", "10.0.0.2", true), c.EndPod(ctx, "before"))
		h.want(t, "a 10.0.0.2:9000 ready", "before 10.0.0.1:8000 ready ending", "big 10.0.0.3:8100 big ready")
		must(t, c.RemovePod(ctx, "before"), c.FailPod(ctx, "a", "10.0.0.2"))
		h.want(t, "big 10.0.0.3:8100 big ready")
	})
}

// Changes of a pool's selector and ports apply; each port of a pod is an endpoint.
func TestPodsOfAPool(t *testing.T) {
	onClusters(t, func(t *testing.T, c *apiserver.Cluster) {
		ctx := t.Context()
		groups := []Group{{Name: "small", Variant: "small", Selector: map[string]string{"size": "small"}, Slots: []Slot{{0, "small-0"}}}}
		config := settings.Default()
		config.Kubernetes = &settings.Kubernetes{Pool: "pool"}
		for i, app := range []string{"one", "two"} {
			name := fmt.Sprint("pod-", app)
			must(t, c.AddPod(ctx, name, map[string]string{"app": app, "size": "small"}), c.SetPod(ctx, name, fmt.Sprint("10.0.0.", i+1), true))
		}
		h := follow(t, Watching(c.Router, apiserver.Namespace, &config, groups, slog.New(slog.DiscardHandler)))
		h.want(t)
		must(t, c.Watched(ctx, "inferencepools"))
		must(t, c.AddPool(ctx, "pool", map[string]string{"app": "one"}, 8000))
		h.want(t, "pod-one 10.0.0.1:8000 ready")
		must(t, c.AddPool(ctx, "pool", map[string]string{"app": "one"}, 8000, 8001))
		h.want(t, "pod-one:8000 10.0.0.1:8000 ready", "pod-one:8001 10.0.0.1:8001 ready")
		must(t, c.AddPool(ctx, "pool", map[string]string{"app": "two"}, 8000))
		h.want(t, "pod-two 10.0.0.2:8000 ready")
		must(t, c.RemovePool(ctx, "pool"))
		h.want(t)
		must(t, c.AddPool(ctx, "pool", map[string]string{"size": "small"}, 8000))
		h.want(t, "pod-one 10.0.0.1:8000 ready", "pod-two 10.0.0.2:8000 ready")
	})
}

// Each engine of a pod takes a slot of the entry with its port, also where other entries have the pool's port.
func TestEntriesSharePods(t *testing.T) {
	for name, c := range map[string]struct{ small, pool int }{"ports of entries": {8000, 0}, "a pool's port and an entry's": {0, 8000}} {
		t.Run(name, func(t *testing.T) {
			ctx, cluster := t.Context(), apiserver.Fake()
			app := map[string]string{"app": "both"}
			groups := []Group{
				{Name: "small", Variant: "small", Selector: app, Port: c.small, Slots: []Slot{{0, "small-0"}, {1, "small-1"}}},
				{Name: "large", Variant: "large", Selector: app, Port: 8001, Slots: []Slot{{2, "large-0"}, {3, "large-1"}}},
			}
			config := settings.Default()
			config.Kubernetes = &settings.Kubernetes{}
			if c.pool > 0 {
				config.Kubernetes.Pool = "pool"
				must(t, cluster.AddPool(ctx, "pool", app, c.pool))
			}
			for i, name := range []string{"a", "b"} {
				must(t, cluster.AddPod(ctx, name, app), cluster.SetPod(ctx, name, fmt.Sprint("10.0.0.", i+1), true))
			}
			h := follow(t, Watching(cluster.Router, apiserver.Namespace, &config, groups, slog.New(slog.DiscardHandler)))
			h.want(t, "a:8000 10.0.0.1:8000 ready", "a:8001 10.0.0.1:8001 ready", "b:8000 10.0.0.2:8000 ready", "b:8001 10.0.0.2:8001 ready")
			s := NewSlots(groups)
			h.mu.Lock()
			s.Set(h.list)
			h.mu.Unlock()
			got := map[int]string{}
			for replica, e := range taken(s) {
				got[replica] = e.Name
			}
			if want := map[int]string{0: "a:8000", 1: "b:8000", 2: "a:8001", 3: "b:8001"}; !maps.Equal(got, want) {
				t.Errorf("slots are those of %v, want %v", got, want)
			}
		})
	}
}
