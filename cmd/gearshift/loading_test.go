package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestLoadingUnderLoad: two engines in processes of their own, each with three models,
// the router before them in another, and clients that do not stop asking while an operator has
// models unloaded, loaded, put to sleep, woken and drained, on one host at a time. Each
// request is answered, client and router agree on how many there were, and every order is
// followed. GEARSHIFT_LOADING=5m is the long run, on models that ONNX Runtime computes
// (build tag onnx): in it what loads do to the other models' latency is bounded, too.
// Without it the engines are simulated, and the run is short.
func TestLoadingUnderLoad(t *testing.T) {
	length, real := 4*time.Second, false
	if text := os.Getenv("GEARSHIFT_LOADING"); text != "" {
		var err error
		if length, err = time.ParseDuration(text); err != nil || length <= 0 {
			t.Fatalf("GEARSHIFT_LOADING=%s: want a time such as 5m", text)
		}
		needONNX(t)
		real = true
	}
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	l := newLoading(t, real)
	l.run(length)
	l.check(length, real)
}

// loadingScenario is three sizes on two hosts. The real sizes are those of loadingSizes,
// the memory of a replica what the engine says that it takes.
const loadingScenario = `name: loading
tasks:
  - {name: chat, deadline_ms: 500, quality: {small: 0.6, medium: 0.8, large: 1}}
models:
  - {name: small, memory: 37MiB, load_ms: 200}
  - {name: medium, memory: 78MiB, load_ms: 300}
  - {name: large, memory: 150MiB, load_ms: 400}
variants: [{name: small, model: small}, {name: medium, model: medium}, {name: large, model: large}]
hosts: [{name: cpu0, memory: 300MiB}, {name: cpu1, memory: 300MiB}]
replicas:
  - {variant: small, hosts: [cpu0, cpu1], memory: 37MiB}
  - {variant: medium, hosts: [cpu0, cpu1], memory: 78MiB}
  - {variant: large, hosts: [cpu0, cpu1], memory: 150MiB}
profiles:
  - {variant: small, launch_floor_ms: 0.1, weights_ms: 0.8, growth_per_sequence: 0.01, token_ms: 0.1, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.5, weight_bytes: 9_000_000, activation_bytes: 4_000_000, kv_bytes_per_token: 6144}
  - {variant: medium, launch_floor_ms: 0.1, weights_ms: 2.5, growth_per_sequence: 0.01, token_ms: 0.3, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.5, weight_bytes: 32_000_000, activation_bytes: 8_000_000, kv_bytes_per_token: 15360}
  - {variant: large, launch_floor_ms: 0.1, weights_ms: 6, growth_per_sequence: 0.01, token_ms: 0.8, context_token_ms: 0.001, overhead_ms: 0.3,
      sequence_ms: 0.1, contention: 0.5, weight_bytes: 81_000_000, activation_bytes: 16_000_000, kv_bytes_per_token: 28672}
workload:
  prompt_tokens: {distribution: uniform, min: 8, max: 32}
  output_tokens: {distribution: geometric, mean: 4, max: 16}
serving:
  overload: {shed: never}
`

var (
	loadingModels = []string{"small", "medium", "large"}
	loadingHosts  = []string{"cpu0", "cpu1"}
	loadingSizes  = []string{"--size", "small=4x192", "--size", "medium=6x320", "--size", "large=8x448"}
)

// loading is one run.
type loading struct {
	t          *testing.T
	url, admin string
	windows    []window

	mu    sync.Mutex
	asked []asked
}

// window is a time in which one replica is being loaded, or is cold and is not.
type window struct {
	model, host string
	load        bool
	from, to    time.Time
}

// asked is one request, and how it ended: well if wrong is empty.
type asked struct {
	model, host string
	from, to    time.Time
	wrong       string
}

func newLoading(t *testing.T, real bool) *loading {
	path := write(t, "loading.yaml", loadingScenario)
	if real {
		succeed(t, append([]string{"models", "make", "--out", path + ".models"}, loadingSizes...)...)
	}
	args := []string{"scenario", "upstreams", path}
	for _, host := range loadingHosts {
		engine := []string{"engine", "--addr", "127.0.0.1:0"}
		if real {
			engine = append(engine, "--repository", path+".models", "--load", "*", "--memory", "300MiB", "--max-sequences", "8", "--kv-tokens", "1024")
		} else {
			engine = append(engine, "--scenario", path, "--host", host)
		}
		args = append(args, "--at", host+"=http://"+startProcess(t, engine...).listensWithin(t, 3*time.Minute))
	}
	served := strings.ReplaceAll(succeed(t, args...), "{url:", "{lifecycle: gearshift, url:")
	l := &loading{t: t, admin: freeAddr(t)}
	router := startProcess(t, "serve", "--scenario", write(t, "served.yaml", served), "--addr", "127.0.0.1:0",
		"--admin-addr", l.admin, "--store", path+".db", "--policy", "slackfit")
	l.url, l.admin = "http://"+router.listens(t), "http://"+l.admin
	return l
}

// run has clients ask and an operator order for as long.
func (l *loading) run(length time.Duration) {
	ctx, stop := context.WithTimeout(l.t.Context(), length)
	defer stop()
	var clients sync.WaitGroup
	for i, model := range slices.Concat(loadingModels, loadingModels, []string{"auto"}) {
		clients.Go(func() { l.ask(ctx, model, rand.New(rand.NewPCG(1, uint64(i)))) })
	}
	for turn := 0; ctx.Err() == nil; turn++ {
		model, host := loadingModels[turn%len(loadingModels)], loadingHosts[turn/len(loadingModels)%len(loadingHosts)]
		l.unloadAndLoad(ctx, model, host)
		if turn%3 == 0 && ctx.Err() == nil {
			l.order("sleep", model+"@"+host, "--level", fmt.Sprint(1+turn/3%2))
			l.order("wake", model+"@"+host)
			l.order("drain", model+"@"+host)
			l.order("undrain", model+"@"+host)
		}
	}
	clients.Wait()
}

// unloadAndLoad has a replica unloaded and loaded again. In between it is left cold for as
// long as the load takes, within limits, so that the two can be compared.
func (l *loading) unloadAndLoad(ctx context.Context, model, host string) {
	name := model + "@" + host
	l.order("unload", name)
	cold := time.Now()
	pause(ctx, l.lastLoad(model))
	began := time.Now()
	l.windows = append(l.windows, window{model, host, false, cold, began})
	// The admin API answers at the end; the command would look for it now and then.
	request, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.admin+"/admin/replicas/"+name+"/load?wait", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		l.t.Fatalf("the load of %s: status %d", name, response.StatusCode)
	}
	l.windows = append(l.windows, window{model, host, true, began, time.Now()})
	pause(ctx, 200*time.Millisecond)
}

// lastLoad is how long the model's last load took, at most 10 s.
func (l *loading) lastLoad(model string) time.Duration {
	for _, w := range slices.Backward(l.windows) {
		if w.load && w.model == model {
			return min(w.to.Sub(w.from), 10*time.Second)
		}
	}
	return 300 * time.Millisecond
}

// pause waits for the time, or for the end of the run.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// order gives an order by the command, and waits for its end.
func (l *loading) order(verb, name string, flags ...string) {
	args := append([]string{"replica", verb, name, "--admin", l.admin}, flags...)
	if verb != "undrain" {
		args = append(args, "--wait")
	}
	succeed(l.t, args...)
}
