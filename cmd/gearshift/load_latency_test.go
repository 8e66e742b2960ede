package main

import (
	"flag"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var loadsMeasured = flag.Int("loads", 0, "loads that TestLatencyDuringLoads measures; below 30 it checks nothing, and at 0 it is skipped")

// A load does not hold up the answers of another model: their 99th percentile while models
// are loaded is at most one and a half times that of the time in between.
func TestLatencyDuringLoads(t *testing.T) {
	needONNX(t)
	if *loadsMeasured == 0 {
		t.Skip("a measurement of minutes, on a machine with nothing else to do: -loads 30")
	}
	dir := filepath.Join(t.TempDir(), "models")
	succeed(t, "models", "make", "--out", dir)
	p := startProcess(t, "engine", "--repository", dir, "--load", "small", "--kv-tokens", "2048", "--max-sequences", "2", "--addr", "127.0.0.1:0")
	e := &engineProcess{process: p, url: "http://" + p.listens(t)}
	var quiet, loading latencies
	var took time.Duration
	for i := range *loadsMeasured {
		model := []string{"medium", "large"}[i%2]
		stop := e.ask(t, &loading)
		begin := time.Now()
		e.expect(t, "POST", "/v2/repository/models/"+model+"/load", "", http.StatusOK)
		took += time.Since(begin)
		stop()
		e.expect(t, "POST", "/v2/repository/models/"+model+"/unload", "", http.StatusOK)
		stop = e.ask(t, &quiet)
		time.Sleep(time.Since(begin))
		stop()
	}
	during, between := loading.percentile(0.99), quiet.percentile(0.99)
	ratio := float64(during) / float64(between)
	t.Logf("%d loads of %v on average; p50 %v during loads (%d answers), %v between (%d); p99 %v and %v: %.2f times",
		*loadsMeasured, (took / time.Duration(*loadsMeasured)).Round(time.Millisecond), loading.percentile(0.5), len(loading.all),
		quiet.percentile(0.5), len(quiet.all), during, between, ratio)
	if *loadsMeasured >= 30 && ratio > 1.5 {
		t.Errorf("the 99th percentile during loads is %.2f times that between them; want at most 1.5", ratio)
	}
}

// latencies are those of answers, from any goroutine.
type latencies struct {
	mu  sync.Mutex
	all []time.Duration
}

// percentile is the latency that the share of the answers does not exceed.
func (l *latencies) percentile(share float64) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.all)
	return l.all[int(share*float64(len(l.all)-1))].Round(10 * time.Microsecond)
}

// ask has the small model answer ten requests a second, whether or not the earlier ones are
// answered, until stop is called, which waits for the answers.
func (e *engineProcess) ask(t *testing.T, to *latencies) (stop func()) {
	const prompt = `{"model": "small", "prompt": "word word word word word word word word", "max_tokens": 2, "ignore_eos": true}`
	ended, group := make(chan struct{}), new(sync.WaitGroup)
	one := func() {
		begin := time.Now()
		response, err := http.Post(e.url+"/v1/completions", "application/json", strings.NewReader(prompt))
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("status %d, %v, %s", response.StatusCode, err, text)
		}
		to.mu.Lock()
		defer to.mu.Unlock()
		to.all = append(to.all, time.Since(begin))
	}
	group.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				group.Go(one)
			case <-ended:
				return
			}
		}
	})
	return func() {
		close(ended)
		group.Wait()
	}
}
