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

	"gearshift/serving/engines/agents"
)

// fleetToken is the secret of the test's fleet.
const fleetToken = "the-fleet's"

// send sends an order with header fields, and checks the answer.
func (r *rig) send(path string, header map[string]string, status int, part string) http.Header {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, "http://engine"+path, strings.NewReader(""))
	if err != nil {
		r.t.Fatal(err)
	}
	for name, value := range header {
		request.Header.Set(name, value)
	}
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != status || !strings.Contains(string(text), part) {
		r.t.Errorf("%s with %v: status %d, %s, %v; want %d and %q", path, header, response.StatusCode, text, err, status, part)
	}
	return response.Header
}

// order sends an order with an epoch of the term, and the fleet's token.
func (r *rig) order(path string, term, placement uint64, status int, part string) http.Header {
	r.t.Helper()
	return r.send(path, map[string]string{agents.HeaderEpoch: strconv.FormatUint(term<<32|placement, 10), agents.HeaderFleet: fleetToken}, status, part)
}

// withFence is an engine with an agent, whose router has given it the term 2.
func withFence(t *testing.T, test func(*rig, *Fence)) {
	fence := &Fence{Secret: fleetToken}
	withRig(t, func(c *Config) {
		withModels(c)
		c.Memory, c.Fence = 0, fence
	}, func(r *rig) {
		if err := fence.Begin(2); err != nil {
			t.Fatal(err)
		}
		test(r, fence)
	})
}

// Orders of a router that has been replaced are refused, and so are those about a model that a
// later one has overtaken; others pass, also those without an epoch.
func TestOlderOrders(t *testing.T) {
	withFence(t, func(r *rig, fence *Fence) {
		const models = "/v2/repository/models/"
		if term := r.order(models+"large/load", 1, 7, http.StatusConflict, "the order is of term 1, and term 2 has begun").Get(agents.HeaderTerm); term != "2" {
			t.Errorf("the engine says that it follows term %q, want 2", term)
		}
		r.order(models+"large/load", 2, 7, http.StatusOK, "")
		r.order(models+"small/unload", 2, 6, http.StatusOK, "") // another model: orders come over many connections
		r.order(models+"large/unload", 2, 6, http.StatusConflict, "the order is of epoch 8589934598, and one of epoch 8589934599 has been seen")
		r.order("/sleep?level=1&model=large", 2, 6, http.StatusConflict, `"code":"older_epoch"`)
		r.is("UNAVAILABLE unloaded", "READY")
		r.order(models+"large/unload", 2, 7, http.StatusOK, "")
		r.send(models+"large/load", map[string]string{agents.HeaderFleet: fleetToken}, http.StatusOK, "") // an operator's
		if err := fence.Begin(3); err != nil {
			t.Fatal(err)
		}
		r.order(models+"small/load", 3, 1, http.StatusOK, "")
		r.order(models+"large/unload", 2, 9, http.StatusConflict, "term 3 has begun")
		r.is("READY", "READY")
		if err := fence.Begin(2); err == nil || !strings.Contains(err.Error(), "the router gives the term 2, and another one has given 3") {
			t.Errorf("term 2 after 3: %v", err)
		}
	})
}

// An engine with an agent takes orders with the fleet's token alone, whether or not clients have a key.
func TestOrdersNeedTheFleetsToken(t *testing.T) {
	withFence(t, func(r *rig, _ *Fence) {
		for _, path := range []string{"/v2/repository/models/small/load", "/v2/repository/models/small/unload", "/sleep?level=1", "/wake_up"} {
			for _, token := range []string{"", "another"} {
				r.send(path, map[string]string{agents.HeaderFleet: token, agents.HeaderEpoch: "8589934600"}, http.StatusForbidden, "takes orders with the fleet's token alone")
			}
		}
		r.is("READY", "UNAVAILABLE not loaded")
		r.expect("POST", chat, ask, http.StatusOK)
	})
}

// An engine never believes a term that its router has not given it, also of an order with the token:
// its router's orders are carried out after it as before. One of a router that has just started waits
// for the registration.
func TestTermsComeFromRegistrations(t *testing.T) {
	withFence(t, func(r *rig, fence *Fence) {
		const path = "/v2/repository/models/large/"
		began := time.Now()
		r.order(path+"load", 1<<32-1, 1<<32-1, http.StatusConflict, "the order is of term 4294967295, and the router that this engine reports to has given it term 2")
		if waited := time.Since(began); waited != registering {
			t.Errorf("refused after %v, want %v", waited, registering)
		}
		r.order(path+"load", 2, 1, http.StatusOK, "")
		time.AfterFunc(time.Second, func() {
			if err := fence.Begin(3); err != nil {
				t.Error(err)
			}
		})
		r.order(path+"unload", 3, 1, http.StatusOK, "")
	})
}

// Who guesses the fleet's token is slowed down, and its router is not.
func TestGuessedTokensAreSlowed(t *testing.T) {
	withFence(t, func(r *rig, _ *Fence) {
		began := time.Now()
		for range 200 {
			r.send("/wake_up", map[string]string{agents.HeaderFleet: "guess"}, http.StatusForbidden, "")
		}
		if took := time.Since(began); took < 4*time.Second {
			t.Errorf("200 guesses in %v", took)
		}
		began = time.Now()
		r.order("/v2/repository/models/small/load", 2, 1, http.StatusOK, "")
		if took := time.Since(began); took > 0 {
			t.Errorf("the router waits %v", took)
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
