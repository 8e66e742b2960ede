package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"gearshift/serving/admin/overview"
)

// ask sends one request after the other for a model until the context ends. The last one
// is answered, too.
func (l *loading) ask(ctx context.Context, model string, random *rand.Rand) {
	client := &http.Client{Timeout: 2 * time.Minute}
	for ctx.Err() == nil {
		a := asked{model: model, from: time.Now()}
		a.host, a.wrong = l.once(client, model, 2+random.IntN(6))
		a.to = time.Now()
		l.mu.Lock()
		l.asked = append(l.asked, a)
		l.mu.Unlock()
		pause(ctx, time.Duration(random.ExpFloat64()*float64(150*time.Millisecond)))
	}
}

// once sends one request, and returns the host that answered and what was wrong.
func (l *loading) once(client *http.Client, model string, tokens int) (host, wrong string) {
	body := fmt.Sprintf(`{"model":%q,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"how are you today"}]}`, model, tokens)
	response, err := client.Post(l.url+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		return "", err.Error()
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return "", err.Error()
	}
	var answer struct {
		Choices []json.RawMessage
	}
	if err := json.Unmarshal(text, &answer); err != nil || response.StatusCode != http.StatusOK || len(answer.Choices) != 1 {
		return "", fmt.Sprintf("status %d: %.300s", response.StatusCode, text)
	}
	_, host, _ = strings.Cut(response.Header.Get("X-Gearshift-Replica"), "@")
	return host, ""
}

// check holds the run against what it must be.
func (l *loading) check(length time.Duration, real bool) {
	wrong := map[string]int{}
	for _, a := range l.asked {
		if a.wrong != "" {
			wrong[a.wrong]++
		}
	}
	for text, n := range wrong {
		l.t.Errorf("%d requests failed: %s", n, text)
	}
	s := soak{t: l.t, url: l.url}
	metrics := s.metrics()
	counts := countsOf(metrics)
	if counts.completed != len(l.asked) || counts.all() != len(l.asked) {
		l.t.Errorf("the clients sent %d requests, the router counts %+v", len(l.asked), counts)
	}
	var list []overview.ReplicaStatus
	if err := json.Unmarshal([]byte(succeed(l.t, "replica", "ls", "--format", "json", "--admin", l.admin)), &list); err != nil {
		l.t.Fatal(err)
	}
	for _, r := range list {
		if r.Lifecycle.State != "up" || r.InFlight != 0 {
			l.t.Errorf("%s is %s, with %d in flight", r.Name, r.Lifecycle.State, r.InFlight)
		}
	}
	actions := map[string]int{}
	for sample, value := range metrics {
		if labels, ok := strings.CutPrefix(sample, "gearshift_replica_actions_total{"); ok {
			verb := strings.SplitN(labels, `"`, 3)[1]
			if strings.Contains(labels, `result="failure"`) && value > 0 {
				l.t.Errorf("%v %ss failed", value, verb)
			}
			actions[verb] += int(value)
		}
	}
	l.t.Logf("%v: %d requests, all answered but %d; actions %v", length, len(l.asked), len(wrong), actions)
	if actions["load"] == 0 || actions["unload"] == 0 {
		l.t.Errorf("no model was loaded and unloaded: %v", actions)
	}
	l.compare(real, actions["load"])
}

// compare holds the latencies of other models during loads against those while the same
// replicas are cold and nothing loads.
func (l *loading) compare(real bool, loads int) {
	during, without := l.pooled(true, ""), l.pooled(false, "")
	if len(during) == 0 || len(without) == 0 {
		l.t.Errorf("%d requests for other models during loads, %d without: nothing to compare", len(during), len(without))
		return
	}
	ratio := percentile(during, .99) / percentile(without, .99)
	l.t.Logf("other models, milliseconds: p50 %.1f during %d loads, %.1f without; p99 %.1f and %.1f, a ratio of %.2f (of %d and %d requests)",
		percentile(during, .5), loads, percentile(without, .5), percentile(during, .99), percentile(without, .99), ratio, len(during), len(without))
	for _, model := range loadingModels {
		d, w := l.pooled(true, model), l.pooled(false, model)
		if len(d) > 0 && len(w) > 0 {
			l.t.Logf("  by loads of %s: p99 %.1f of %d, %.1f of %d", model, percentile(d, .99), len(d), percentile(w, .99), len(w))
		}
	}
	if real && loads >= 30 && ratio > 1.5 {
		l.t.Errorf("the p99 of other models is %.2f times as long during loads, want at most 1.5", ratio)
	}
}

// pooled are the latencies in milliseconds, sorted, of requests for models other than the
// window's, in windows of loads or without. Loaded names the model of the windows; empty is
// all. A request that overlaps a load counts for that alone.
func (l *loading) pooled(load bool, loaded string) (ms []float64) {
	for _, a := range l.asked {
		if slices.ContainsFunc(l.windows, func(w window) bool {
			return w.load == load && (loaded == "" || w.model == loaded) && w.model != a.model && a.model != "auto" && a.from.Before(w.to) && a.to.After(w.from)
		}) && (load || !l.overlapsLoad(a)) {
			ms = append(ms, float64(a.to.Sub(a.from).Microseconds())/1000)
		}
	}
	slices.Sort(ms)
	return ms
}

func (l *loading) overlapsLoad(a asked) bool {
	return slices.ContainsFunc(l.windows, func(w window) bool { return w.load && a.from.Before(w.to) && a.to.After(w.from) })
}

// percentile of sorted values.
func percentile(sorted []float64, p float64) float64 {
	return sorted[min(len(sorted)-1, int(p*float64(len(sorted))))]
}
