// Package onnxruntime is what this process computes by ONNX Runtime: models that answer
// requests, and the networks of policies. Behind the build tag onnx; without it, everything
// here says so.
package onnxruntime

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving/backend"
	"gearshift/serving/backend/classifier"
	"gearshift/serving/backend/decoder"
	"gearshift/serving/backend/models"
	"gearshift/workloads"
)

// Engine is a model that is computed in this process.
type Engine interface {
	http.RoundTripper
	Model() string
	Context() int // tokens
	Load() backend.Load
	Close()
}

// decoderEngine is a decoder behind OpenAI's wire forms.
type decoderEngine struct {
	*decoder.Engine
	*backend.Front
}

// Config is what an engine is made with, whatever its family.
type Config struct {
	scenario.Local
	Name    string
	Seed    uint64
	Memory  int64 // bytes; 0 is no bound
	Observe func(backend.Span)
	AtLeast *profile.Batches // see [Repository]
}

// Engines starts the models of the scenario, one engine for each replica.
func Engines(s *scenario.Scenario, t *fleet.Table) ([]Engine, func(), error) {
	var engines, own []Engine
	giveBack := RoomForModels(len(t.Replicas))
	closeAll := func() {
		for _, e := range own {
			e.Close()
		}
		giveBack()
	}
	memory := s.ReplicaMemory()
	for i, l := range s.LocalModels() {
		if first := t.FirstOf(i); first != i { // variants share it
			engines = append(engines, engines[first])
			continue
		}
		e, err := New(Config{
			Local: l, Name: engineName(t, i),
			Seed: workloads.Seed(workloads.Serving, 1+uint64(i)), Memory: memory[i],
		})
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("replica %s: %w", t.Replicas[i].Name, err)
		}
		engines, own = append(engines, e), append(own, e)
	}
	return engines, closeAll, nil
}

// engineName is what the replica's engine calls its model: the variant, or the model where
// variants share it.
func engineName(t *fleet.Table, replica int) string {
	r := &t.Replicas[replica]
	if m := t.ModelOf(r.Variant); r.Worker > 0 && m >= 0 {
		return t.Models[m].Name
	}
	return t.Variants[r.Variant].Name
}

// RoomForModels has Go run as many more threads as models may compute at once. A
// model's step holds the thread that it is called on, and with it one of
// GOMAXPROCS: on two cores two models would leave nothing to serve with until the
// runtime notices. A GOMAXPROCS of the environment stays.
func RoomForModels(n int) (giveBack func()) {
	if os.Getenv("GOMAXPROCS") != "" {
		return func() {}
	}
	before := runtime.GOMAXPROCS(0)
	runtime.GOMAXPROCS(before + n)
	return func() { runtime.GOMAXPROCS(before) }
}

// New loads the model and starts its engine.
func New(c Config) (Engine, error) {
	o, err := open(c)
	if err != nil {
		return nil, err
	}
	return o.start()
}

// opened is a model whose weights are loaded, and that has no cache and no engine yet.
type opened interface {
	// start makes the engine, which closes the model at its end, or leaves it to be started
	// again if keep says so before. Where start fails the model is closed.
	start() (Engine, error)
	keep(bool)
	close()
}

// keptDecoder is a decoder that may outlive its engine, without its cache.
type keptDecoder struct {
	decoder.Model
	kept bool
}

// Close implements [decoder.Model].
func (m *keptDecoder) Close() {
	if !m.kept {
		m.Model.Close()
	} else if r, ok := m.Model.(interface{ Rest() }); ok {
		r.Rest()
	}
}

// keptClassifier is a classifier that may outlive its engine.
type keptClassifier struct {
	classifier.Model
	kept bool
}

// Close implements [classifier.Model].
func (m *keptClassifier) Close() {
	if !m.kept {
		m.Model.Close()
	}
}

// open loads the weights of the model.
func open(c Config) (opened, error) {
	if err := checkFolder(c.Path); err != nil {
		return nil, err
	}
	if modelType(c.Path) == models.ClassifierType {
		return openClassifierFolder(c)
	}
	return openDecoderFolder(c)
}

// modelType returns what the folder says of the model's family. What is wrong with the file is
// reported by who reads all of it.
func modelType(dir string) string {
	var config struct {
		Type string `json:"model_type"`
	}
	if data, err := os.ReadFile(filepath.Join(dir, "config.json")); err == nil {
		_ = json.Unmarshal(data, &config)
	}
	return config.Type
}

// openedDecoder is a decoder before its engine.
type openedDecoder struct {
	config Config
	folder *decoder.Folder
	model  *keptDecoder
}

func openDecoderFolder(c Config) (opened, error) {
	folder, err := decoder.ReadFolder(c.Path)
	if err != nil {
		return nil, err
	}
	model, err := openDecoder(c)
	if err != nil {
		return nil, err
	}
	return &openedDecoder{c, folder, &keptDecoder{Model: model}}, nil
}

func (o *openedDecoder) keep(yes bool) { o.model.kept = yes }

func (o *openedDecoder) close() { o.model.Model.Close() }

func (o *openedDecoder) start() (Engine, error) {
	c := o.config
	config := decoder.Config{
		Name: c.Name, Context: o.folder.Context, End: o.folder.End, MaxSequences: c.MaxSequences, Seed: c.Seed, Observe: c.Observe,
	}
	if c.Context > 0 {
		config.Context = min(c.Context, o.folder.Context)
	}
	var err error
	config.KVTokens, err = roomFor(o.model.Layout(), config.Context, c.wantedTokens(config.Context), c.KVTokens > 0, c.Memory)
	var e *decoder.Engine
	if err == nil {
		e, err = decoder.New(o.model, o.folder.Tokenizer, config)
	}
	if err != nil {
		o.close()
		return nil, fmt.Errorf("cannot run model %s: %w", c.Path, err)
	}
	return decoderEngine{e, backend.NewFront(e)}, nil
}

// wantedTokens returns how many tokens the cache is to hold, if the memory has room.
func (c Config) wantedTokens(context int) int {
	return min(cmp.Or(c.KVTokens, math.MaxInt), c.MaxSequences*context)
}

// openedClassifier is a classifier before its engine.
type openedClassifier struct {
	config Config
	folder *classifier.Folder
	model  *keptClassifier
}

func openClassifierFolder(c Config) (opened, error) {
	folder, err := classifier.ReadFolder(c.Path)
	if err != nil {
		return nil, err
	}
	model, err := openClassifier(c, folder.Vocabulary)
	if err != nil {
		return nil, err
	}
	return &openedClassifier{c, folder, &keptClassifier{Model: model}}, nil
}

func (o *openedClassifier) keep(yes bool) { o.model.kept = yes }

func (o *openedClassifier) close() { o.model.Model.Close() }

func (o *openedClassifier) start() (Engine, error) {
	c, folder := o.config, o.folder
	var least func(n int) time.Duration
	if c.AtLeast != nil {
		least = func(n int) time.Duration { return profile.Duration(c.AtLeast.Time(0, n)) }
	}
	e, err := classifier.New(o.model, folder.Tokenizer, classifier.Config{
		Name: c.Name, Labels: folder.Labels, Context: min(cmp.Or(c.Context, folder.Context), folder.Context),
		SamplingRate: folder.SamplingRate, MaxBatch: c.MaxSequences, Observe: c.Observe, AtLeast: least,
	})
	if err != nil {
		o.close()
		return nil, fmt.Errorf("cannot run model %s: %w", c.Path, err)
	}
	return e, nil
}

// roomFor returns how many tokens the cache may hold: as many as wanted, or what the
// memory has room for next to the weights, and the logits of the longest prompt, if they
// are not declared, but no fewer than the context; 0 is no bound. A step reads one cache
// and writes the next, or prompts have theirs until they join, so there are two.
func roomFor(l decoder.Layout, context, tokens int, declared bool, memory int64) (int, error) {
	cached, logits := int64(2*l.TokenBytes), 4*int64(l.Vocabulary)
	left := memory - l.WeightBytes
	room := (left - int64(context)*logits) / cached
	switch {
	case memory == 0, int64(tokens) <= room:
		return tokens, nil
	case declared:
		return 0, fmt.Errorf("its weights of %d bytes, the logits of its longest prompt, %d bytes, and twice a KV cache of %d tokens of %d bytes exceed the declared memory of %d bytes; want kv_tokens of at most %d, or more memory",
			l.WeightBytes, int64(context)*logits, tokens, l.TokenBytes, memory, max(0, room))
	case room < int64(context):
		return 0, fmt.Errorf("its weights of %d bytes, the logits of its longest prompt, %d bytes, and twice a KV cache of its context of %d tokens of %d bytes exceed the declared memory of %d bytes; want context of at most %d, or more memory",
			l.WeightBytes, int64(context)*logits, context, l.TokenBytes, memory, max(0, left/(cached+logits)))
	}
	return int(room), nil
}

// What runs the networks of stored policies.
const (
	Native = "native"
	ONNX   = "onnx"
)

// Source returns the store at the path, and the engine of the name for what comes from it.
func Source(path, name string) (*policies.Source, error) {
	source := &policies.Source{Store: &checkpoints.Store{Path: path}}
	var err error
	switch name {
	case Native:
	case ONNX:
		source.Run, err = Networks()
	default:
		err = fmt.Errorf("want %s or %s", Native, ONNX)
	}
	if err != nil {
		return nil, fmt.Errorf("--engine %s: %w", name, err)
	}
	return source, nil
}
