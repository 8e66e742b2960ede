package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/router/signals"
	"gearshift/serving/backend/models"
	"gearshift/serving/engines/gauges"
)

// tailCores is what each process gets of a processor: two kinds of hosts, 1.2 processors together.
var tailCores = [...]float64{.1, .1, .1, .1, .2, .2, .2, .2}

// tailModels are the models: two that are cheap, two that cost several times as much, asked for alike.
var tailModels = [...]models.Size{
	{Name: "cheap-a", Layers: 2, Width: 128}, {Name: "cheap-b", Layers: 2, Width: 128},
	{Name: "dear-a", Layers: 4, Width: 192}, {Name: "dear-b", Layers: 4, Width: 192},
}

// tailWords is how long prompts are: what they cost is much more than their way. One token answers.
const tailWords = 60

// tailPlacement lists the hosts of each model.
type tailPlacement [len(tailModels)][]int

var (
	// byCapacity gives each model hosts of both kinds.
	byCapacity = tailPlacement{{0, 2, 4, 6}, {1, 3, 5, 7}, {0, 1, 4, 5}, {2, 3, 6, 7}}
	// byNumber gives each model four hosts, whatever they are.
	byNumber = tailPlacement{{0, 1, 2, 3}, {4, 5, 6, 7}, {0, 1, 2, 3}, {4, 5, 6, 7}}
)

// tailHost is an engine process.
type tailHost struct {
	url    string
	client *http.Client
}

// tailTier is the processes, with the costs that were measured.
type tailTier struct {
	hosts []tailHost
	cost  [len(tailModels)]time.Duration // of a request, on one processor
}

// startTailTier starts the processes, each with all models, and measures what these cost.
func startTailTier(t *testing.T) *tailTier {
	t.Helper()
	needONNX(t)
	dir, o := t.TempDir(), models.Options{Context: 512, Seed: 1}
	args := []string{"engine", "--max-sequences", "1", "--addr", "127.0.0.1:0"}
	for _, size := range tailModels {
		o.Sizes = append(o.Sizes, size)
		args = append(args, "--model", filepath.Join(dir, size.Name))
	}
	if err := models.MakeDecoders(t.Context(), dir, o, func(string, int) {}); err != nil {
		t.Fatal(err)
	}
	x := &tailTier{}
	for i, cores := range tailCores {
		t.Setenv("GEARSHIFT_TEST_CGROUP", quota(t, fmt.Sprintf("gearshift-tail-%d-%d", os.Getpid(), i), cores))
		p := startProcess(t, append(args, "--cores", strconv.FormatFloat(cores, 'g', -1, 64))...)
		x.hosts = append(x.hosts, tailHost{
			url:    "http://" + p.listensWithin(t, time.Minute),
			client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}},
		})
	}
	t.Setenv("GEARSHIFT_TEST_CGROUP", "")
	for i := range tailModels {
		x.cost[i] = x.calibrate(t, i)
	}
	return x
}

// quota makes a control group whose processes get so much of a processor, in turns of 10 ms, and
// before others that want more. The test is skipped where the kernel does not let it.
func quota(t *testing.T, name string, cores float64) (folder string) {
	t.Helper()
	const period = 10_000 // microseconds
	share := strconv.Itoa(int(cores * period))
	for _, version := range []struct {
		root  string
		files [][2]string
	}{
		{"/sys/fs/cgroup/cpu", [][2]string{{"cpu.cfs_period_us", strconv.Itoa(period)}, {"cpu.cfs_quota_us", share}, {"cpu.shares", "20000"}}},
		{"/sys/fs/cgroup", [][2]string{{"cpu.max", share + " " + strconv.Itoa(period)}, {"cpu.weight", "5000"}}},
	} {
		folder = filepath.Join(version.root, name)
		if os.Mkdir(folder, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(folder) }) // after the process, which ends first
		ok := true
		for _, f := range version.files {
			ok = ok && os.WriteFile(filepath.Join(folder, f[0]), []byte(f[1]), 0o644) == nil
		}
		if ok {
			return folder
		}
	}
	t.Skip("processes cannot be held to a share of a processor here: it takes control groups, as root")
	return ""
}

// body is that of a request for the model.
func tailBody(model int) []byte {
	return []byte(fmt.Sprintf(`{"model":%q,"max_tokens":1,"prompt":%q}`, tailModels[model].Name, strings.Repeat("gear ", tailWords)))
}

// ask sends a request for the model to the host, and returns the load that comes with the answer.
func (h *tailHost) ask(ctx context.Context, body []byte) (signals.Load, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return signals.Load{}, err
	}
	r.Header[gauges.FormatHeader] = []string{"TEXT"}
	response, err := h.client.Do(r)
	if err != nil {
		return signals.Load{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %s", response.StatusCode, text)
	}
	if err != nil {
		return signals.Load{}, err
	}
	return gauges.ParseLoad(response.Header.Get(gauges.MetricsHeader))
}

// poll asks the host for its load of the model.
func (h *tailHost) poll(ctx context.Context, model int) (signals.Load, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url+gauges.LoadsPath, nil)
	if err != nil {
		return signals.Load{}, err
	}
	response, err := h.client.Do(r)
	if err != nil {
		return signals.Load{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return signals.Load{}, err
	}
	l, _, err := gauges.ParseLoads(text, tailModels[model].Name)
	return l, err
}

// calibrate measures how much of a processor a request for the model takes, by how many of them one
// of the large hosts answers when it always has some.
func (x *tailTier) calibrate(t *testing.T, model int) time.Duration {
	t.Helper()
	const host, warm, length = 4, time.Second, 4 * time.Second
	body := tailBody(model)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	began := time.Now()
	answers := 0
	var mu sync.Mutex // protects answers
	var clients sync.WaitGroup
	for range 3 {
		clients.Go(func() {
			for ctx.Err() == nil {
				if _, err := x.hosts[host].ask(ctx, body); err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				if time.Since(began) > warm {
					answers++
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(warm + length)
	stop()
	clients.Wait()
	if answers == 0 {
		t.Fatalf("%s: no answer in %v", tailModels[model].Name, length)
	}
	return time.Duration(tailCores[host] * float64(length) / float64(answers))
}

// costs says what the models cost.
func (x *tailTier) costs() string {
	var list []string
	for i, m := range tailModels {
		list = append(list, fmt.Sprintf("%s takes %.1f ms", m.Name, x.cost[i].Seconds()*1000))
	}
	return strings.Join(list, ", ")
}

// capacity is how many requests a second the processes can compute.
func (x *tailTier) capacity() float64 {
	var cores, cost float64
	for _, c := range tailCores {
		cores += c
	}
	for _, c := range x.cost {
		cost += c.Seconds() / float64(len(x.cost))
	}
	return cores / cost
}
