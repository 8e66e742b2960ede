package engineserver

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/serving/heartbeat"
)

// order sends an order with an epoch of the term.
func (r *rig) order(path string, term, placement uint64, status int, part string) {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://engine"+path, strings.NewReader(""))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set(heartbeat.HeaderEpoch, strconv.FormatUint(term<<32|placement, 10))
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status || !strings.Contains(string(text), part) {
		r.t.Errorf("%s of term %d, placement %d: status %d, %s, %v; want %d and %q", path, term, placement, response.StatusCode, text, err, status, part)
	}
}

// Orders of a router that has been replaced are refused, and so are those about a model that a
// later one has overtaken; others pass, also those without an epoch.
func TestOlderOrders(t *testing.T) {
	fence := &Fence{}
	change := func(c *Config) {
		withModels(c)
		c.Memory, c.Fence = 0, fence
	}
	withRig(t, change, func(r *rig) {
		const models = "/v2/repository/models/"
		if err := fence.Begin(2); err != nil {
			t.Fatal(err)
		}
		r.order(models+"large/load", 1, 7, http.StatusConflict, "the order is of term 1, and term 2 has begun")
		r.order(models+"large/load", 2, 7, http.StatusOK, "")
		r.order(models+"small/unload", 2, 6, http.StatusOK, "") // another model: orders come over many connections
		r.order(models+"large/unload", 2, 6, http.StatusConflict, "the order is of epoch 8589934598, and one of epoch 8589934599 has been seen")
		r.order("/sleep?level=1&model=large", 2, 6, http.StatusConflict, `"code":"older_epoch"`)
		r.is("UNAVAILABLE unloaded", "READY")
		r.order(models+"large/unload", 2, 7, http.StatusOK, "")
		r.expect("POST", models+"large/load", "", http.StatusOK) // an operator's
		r.order(models+"small/load", 3, 1, http.StatusOK, "")
		r.order(models+"large/unload", 2, 9, http.StatusConflict, "term 3 has begun")
		r.is("READY", "READY")
		if err := fence.Begin(2); err == nil || !strings.Contains(err.Error(), "the router's term 2 is older than 3") {
			t.Errorf("term 2 after 3: %v", err)
		}
	})
}

// Without a fence, as without an agent, epochs mean nothing.
func TestNoFence(t *testing.T) {
	withRig(t, withModels, func(r *rig) {
		r.order("/v2/repository/models/small/unload", 2, 2, http.StatusOK, "")
		r.order("/v2/repository/models/small/load", 1, 1, http.StatusOK, "")
	})
}

// A model that the source lacks is fetched before it is loaded, and why it is not is the load's
// error.
func TestFetchesBeforeALoad(t *testing.T) {
	var asked []string
	withRig(t, func(c *Config) {
		c.Fetch = func(_ context.Context, model string) error {
			asked = append(asked, model)
			return fmt.Errorf("the router has no model %q", model)
		}
	}, func(r *rig) {
		r.expect("POST", "/v2/repository/models/other/load", "", http.StatusBadRequest, `failed to load \"other\": the router has no model \"other\"`)
		r.expect("POST", "/v2/repository/models/small/load", "", http.StatusOK)
		if len(asked) != 1 || asked[0] != "other" {
			t.Errorf("fetched %q", asked)
		}
	})
}

// As many models as there are loaders are loaded at the same time.
func TestLoaders(t *testing.T) {
	for loaders, want := range map[int]time.Duration{0: 30 * time.Second, 2: 20 * time.Second} {
		withRig(t, func(c *Config) {
			withModels(c)
			c.Memory, c.Loaders, c.Load = 0, loaders, []string{}
		}, func(r *rig) {
			began := time.Now()
			var both sync.WaitGroup
			for _, model := range []string{"small", "large"} {
				both.Go(func() { r.expect("POST", "/v2/repository/models/"+model+"/load", "", http.StatusOK) })
			}
			both.Wait()
			if took := time.Since(began); took != want {
				t.Errorf("%d loaders: both are loaded after %v, want %v", loaders, took, want)
			}
		})
	}
}
