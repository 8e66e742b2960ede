package serving_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/jobs"
)

// TestModelsThatTakeJobs: they are listed after the variants, and described, for clients that may
// use a variant of theirs.
func TestModelsThatTakeJobs(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"all": {}, "big": {Grants: access.Grants{Models: []string{"large"}}}})
	g := newRig(t, nil, withPair, withKeys(file), func(o *serving.Options) {
		small := o.Modality.Models[0]
		small.Name, small.Options = "tiny", small.Options[:1]
		small.Tasks[0].Quality = map[string]float64{"small": 0.75}
		small.Workers[0].Latency, small.Workers[0].Replicas = small.Workers[0].Latency[:1], small.Workers[0].Replicas[:1]
		withPair(o)
		o.Modality.Models[0].Options = o.Modality.Models[0].Options[1:]
		o.Modality.Models[0].Tasks[0].Quality = map[string]float64{"large": 1}
		o.Modality.Models[0].Workers[0].Latency = o.Modality.Models[0].Workers[0].Latency[1:]
		o.Modality.Models[0].Workers[0].Replicas = o.Modality.Models[0].Workers[0].Replicas[1:]
		o.Modality.Models = append(o.Modality.Models, small)
	})
	for key, want := range map[string]string{"all": "auto small large pair tiny", "big": "auto large pair"} {
		var list struct{ Data []struct{ ID string } }
		if err := json.Unmarshal(g.do("GET", "/v1/models", "", bearing(secrets[key])...).Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s sees %s, want %s", key, got, want)
		}
	}
	for name, want := range map[string]int{"pair": http.StatusOK, "tiny": http.StatusNotFound} {
		if w := g.do("GET", "/v1/models/"+name, "", bearing(secrets["big"])...); w.Code != want {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

// TestKeysNameModelsOfJobs: the name of a model that takes jobs stands for all its variants, and one
// that neither a variant nor such a model has is an error of the file.
func TestKeysNameModelsOfJobs(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"pair": {Grants: access.Grants{Models: []string{"pair"}}}, "small": {Grants: access.Grants{Models: []string{"small"}}}})
	g := newRig(t, says(http.StatusOK, jsonType, fine), withPair, withKeys(file))
	const both = `{"model":"pair","inputs":[{"image":"x","audio":"y"}],"min_quality":1}`
	for key, want := range map[string]int{"pair": http.StatusOK, "small": http.StatusBadRequest} {
		if w := g.do("POST", classify, both, bearing(secrets[key])...); w.Code != want {
			t.Errorf("%s: status %d, %s", key, w.Code, w.Body)
		}
	}
	if text := g.do("GET", "/v1/models", "", bearing(secrets["pair"])...).Body.String(); !strings.Contains(text, `"id":"large"`) || !strings.Contains(text, `"id":"pair"`) {
		t.Errorf("the key's models: %s", text)
	}
	o := serving.Options{Config: config.Default(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
	unknown := keysText(t, `{"name":"a","sha256":"`+strings.Repeat("ab", 32)+`","models":["piar"]}`)
	withPair(&o)
	withKeys(unknown)(&o)
	if _, err := serving.New(o); err == nil || !strings.Contains(err.Error(), unknown+`:1: models: there is no model "piar"; there are auto, small, large, pair`) {
		t.Errorf("a model that is not there: %v", err)
	}
}

// TestJobsEndWithTheServer: the job that runs when the end is ordered and the one that waits for it
// are both answered; where the time to drain is too short for the second, it is cut off and the
// server ends all the same.
func TestJobsEndWithTheServer(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		drain    time.Duration
		answered int
	}{{30 * s, 2}, {5 * s, 1}} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, nil, withPair, func(o *serving.Options) {
				o.Config.DrainTimeout = c.drain
				o.Backends[smallOnA].Transport = transport(func(r *http.Request) (*http.Response, error) {
					select {
					case <-time.After(4 * s):
						return pair(r)
					case <-r.Context().Done():
						return nil, r.Context().Err()
					}
				})
				o.Backends[largeA].Transport = o.Backends[smallOnA].Transport
			})
			l, stop, ended := serve(t, g)
			clients := []*wireClient{connect(t, l), connect(t, l)}
			for i, client := range clients {
				client.ask(t, "POST", classify, fmt.Sprintf(`{"model":"pair","inputs":[{"image":"%d","audio":"a"}],"min_quality":0.8,"total_ms":20000}`, i))
				synctest.Wait()
			}
			time.Sleep(s)
			begun := time.Now()
			stop()
			for i, client := range clients[:c.answered] {
				r := client.answer(t)
				text, err := io.ReadAll(r.Body)
				if took := time.Since(begun); err != nil || r.StatusCode != http.StatusOK || !r.Close || !strings.Contains(string(text), fmt.Sprintf(`"label":"%d/a"`, i)) || took != time.Duration(4*i+3)*s {
					t.Errorf("job %d after %v: %d %s, closes %v, %v", i, took, r.StatusCode, text, r.Close, err)
				}
			}
			for _, client := range clients[c.answered:] {
				if r, err := http.ReadResponse(client.in, nil); err == nil {
					t.Errorf("a job that was cut off is answered: %d", r.StatusCode)
				}
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > c.drain+2*s {
				t.Errorf("the server ends after %v", took)
			}
			if n := g.core.Ledger().InFlight(); n != 0 {
				t.Errorf("%d places are held at the end", n)
			}
		})
	}
}

// TestMetadataAreBounded: metadata without end, and such that never come, cost a bounded time and memory that is
// charged; those of another engine are passed on, under the name of the model.
func TestMetadataAreBounded(t *testing.T) {
	answering := func(body io.Reader) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if body == nil {
				<-r.Context().Done()
				return nil, r.Context().Err()
			}
			return reply(http.StatusOK, jsonType, io.NopCloser(body)), nil
		})
	}
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil, withPair, func(o *serving.Options) {
			m := &o.Modality.Models[0]
			m.Options, m.Tasks[0].Quality = m.Options[:1], map[string]float64{"small": 0.75}
			first := m.Workers[0]
			first.Latency, first.Replicas = first.Latency[:1], []int{smallOnA}
			second := first
			second.Name, second.Replicas = "b", []int{smallOnB}
			m.Workers = []jobs.Worker{first, second}
		}, func(o *serving.Options) {
			o.Backends[smallOnA].Transport = answering(nil)
			o.Backends[smallOnB].Transport = answering(strings.NewReader(`{"inputs":[{"name":"image"}],"name":"engine","x<":1}`))
		})
		began := time.Now()
		w := g.do("GET", "/v2/models/pair", "")
		var said map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &said); w.Code != http.StatusOK || err != nil || said["name"] != "pair" || said["x<"] != 1.0 || strings.Count(w.Body.String(), `"name"`) != 2 {
			t.Errorf("%d %s, %v", w.Code, w.Body, err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it took %v", took)
		}
		if held := g.counted("gearshift_memory_bytes"); len(held) > 0 {
			t.Errorf("after it %v", held)
		}
	})
	g := newRig(t, nil, withPair, func(o *serving.Options) {
		o.Backends[smallOnA].Transport = answering(noEnd{})
	})
	if w := g.do("GET", "/v2/models/pair", ""); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), "the engine on a: its answer is longer than 1048576 bytes") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// noEnd is a body of zeros.
type noEnd struct{}

func (noEnd) Read(p []byte) (int, error) { clear(p); return len(p), nil }
