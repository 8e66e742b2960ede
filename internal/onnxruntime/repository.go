package onnxruntime

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"gearshift/internal/scenario"
	"gearshift/router/profile"
	"gearshift/serving/backend"
	"gearshift/serving/backend/models"
	"gearshift/serving/config/files"
	"gearshift/serving/engineserver/repository"
	"gearshift/workloads"
)

// modelFile is the file of a model's folder that holds the weights, or names the files
// that do.
const modelFile = "model.onnx"

// overhead is what the runtime takes for a model in addition to its weights and its cache:
// sessions, and what a step computes in between.
const overhead = 16 << 20

// Repository has the models of folders, which ONNX Runtime computes. It is a
// [repository.Source].
type Repository struct {
	// Dir is a folder of models, each in a folder of its own that has its name. Models
	// that come later are found.
	Dir string
	// Folders are further models, each by its folder's name.
	Folders []string
	// Filled says that models come into Dir later, which may be empty until then, or not there.
	Filled bool
	// Options of all models; Path is not used.
	Options scenario.Local
	Seed    uint64
	// AtLeast has the times that batches of classifiers take at least; nil adds none.
	AtLeast *profile.Batches
}

// NewRepository says why there are no models in the folders, or nothing to compute them
// with.
func NewRepository(r Repository) (*Repository, error) {
	if err := Available(); err != nil {
		return nil, err
	}
	if r.Filled && r.Dir != "" {
		if err := os.MkdirAll(r.Dir, 0o755); err != nil {
			return nil, fmt.Errorf("cannot make repository: %w", err)
		}
	}
	list, err := r.Models()
	switch {
	case err != nil:
		return nil, err
	case len(list) == 0 && !r.Filled:
		return nil, fmt.Errorf("--repository %s: no folder in it has a %s; `gearshift models make --out %s` makes models", r.Dir, modelFile, r.Dir)
	}
	seen := map[string]bool{}
	for _, m := range list {
		if seen[m.Name] {
			return nil, fmt.Errorf("two folders hold a model %q; an engine has each model once", m.Name)
		}
		seen[m.Name] = true
	}
	return &r, nil
}

// folder is where a model lies.
type folder struct{ name, path string }

// ModelName returns what a folder's model is called.
func ModelName(path string) string {
	whole, err := filepath.Abs(path)
	if err != nil {
		whole = path
	}
	return filepath.Base(whole)
}

// folders lists where models lie.
func (r *Repository) folders() ([]folder, error) {
	var list []folder
	for _, path := range r.Folders {
		list = append(list, folder{ModelName(path), path})
	}
	if r.Dir == "" {
		return list, nil
	}
	entries, err := os.ReadDir(r.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("--repository %s: there is no such folder; `gearshift models make --out %s` makes models", r.Dir, r.Dir)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read repository: %w", err)
	}
	for _, e := range entries {
		path := filepath.Join(r.Dir, e.Name())
		if _, err := os.Stat(filepath.Join(path, modelFile)); err == nil && e.Name()[0] != '.' {
			list = append(list, folder{e.Name(), path})
		}
	}
	return list, nil
}

// Models implements [repository.Source].
func (r *Repository) Models() ([]repository.Model, error) {
	folders, err := r.folders()
	if err != nil {
		return nil, err
	}
	list := make([]repository.Model, 0, len(folders))
	for _, f := range folders {
		list = append(list, r.describe(f))
	}
	return list, nil
}

// describe reads what the folder says of its model. What is damaged is reported by the
// load: until then its model counts with its files.
func (r *Repository) describe(f folder) repository.Model {
	m := repository.Model{Name: f.name, Version: "1"}
	m.Memory, m.Mark = measure(f.path)
	m.Memory += overhead
	m.Kept = m.Memory
	if files.CheckFolder(f.path) != nil {
		return m
	}
	c, err := readConfig(f.path)
	if err != nil {
		return m
	}
	m.Version = cmp.Or(c.Version, m.Version)
	if c.Memory > 0 {
		m.Memory = int64(c.Memory)
	} else if need, err := r.need(f.path); err == nil {
		m.Memory = need
	}
	return m
}

// measure returns how large the files with weights are, and a mark that shows whether any file of the
// folder has changed.
func measure(dir string) (bytes int64, mark string) {
	for _, name := range []string{modelFile, modelFile + "_data", modelFile + ".data", "config.json", "tokenizer.json"} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			continue
		}
		if filepath.Ext(name) != ".json" {
			bytes += info.Size()
		}
		mark += name + " " + strconv.FormatInt(info.Size(), 10) + " " + info.ModTime().String() + "\n"
	}
	return bytes, mark
}

// modelConfig is what a repository reads of config.json in addition to what the model's family does.
type modelConfig struct {
	Memory  scenario.Bytes
	Version string
	Context int
}

func readConfig(dir string) (c modelConfig, err error) {
	var file struct {
		Memory    json.RawMessage `json:"memory"`
		Version   json.RawMessage `json:"version"`
		Positions int             `json:"max_position_embeddings"`
		Older     int             `json:"n_positions"`
	}
	path := filepath.Join(dir, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		return c, fmt.Errorf("cannot read model: %w", err)
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return c, fmt.Errorf("cannot read model: %s: it is not the JSON of a model's configuration: %w", path, err)
	}
	c.Context = max(file.Positions, file.Older)
	if text := unquote(file.Memory); text != "" {
		if err := c.Memory.UnmarshalText([]byte(text)); err != nil {
			return c, fmt.Errorf("cannot read model: %s: memory: %w", path, err)
		}
	}
	c.Version = unquote(file.Version)
	return c, nil
}

// unquote returns the text of a JSON string or number, empty for none.
func unquote(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// need returns what a model takes whose folder does not declare it: the weights, of a decoder
// the cache and the logits of its longest prompt, and the overhead.
func (r *Repository) need(dir string) (int64, error) {
	if modelType(dir) == models.ClassifierType {
		bytes, _ := measure(dir)
		return bytes + overhead, nil
	}
	layout, err := measureDecoder(dir)
	if err != nil {
		return 0, err
	}
	c, err := readConfig(dir)
	if err != nil {
		return 0, err
	}
	if r.Options.Context > 0 {
		c.Context = min(c.Context, r.Options.Context)
	}
	tokens := Config{Local: r.Options}.wantedTokens(c.Context)
	return layout.WeightBytes + 4*int64(c.Context*layout.Vocabulary) + 2*int64(tokens)*int64(layout.TokenBytes) + overhead, nil
}

// Load implements [repository.Source].
func (r *Repository) Load(ctx context.Context, m repository.Model, observe func(backend.Span)) (repository.Engine, error) {
	folders, err := r.folders()
	if err != nil {
		return nil, err
	}
	for i, f := range folders {
		if f.name == m.Name {
			return r.open(ctx, f, uint64(i), observe)
		}
	}
	return nil, errors.New("the folder of the model has gone")
}

// checkFolder refuses the folder of a model that is not there, or that has other than regular files.
func checkFolder(dir string) error {
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot read model: there is no folder %s; `gearshift models make --out %s` makes models", dir, filepath.Dir(dir))
	}
	if err := files.CheckFolder(dir); err != nil {
		return fmt.Errorf("cannot read model: %w", err)
	}
	return nil
}

// open loads the model of a folder.
func (r *Repository) open(ctx context.Context, f folder, index uint64, observe func(backend.Span)) (repository.Engine, error) {
	if err := checkFolder(f.path); err != nil {
		return nil, err
	}
	declared, err := readConfig(f.path)
	if err != nil {
		return nil, err
	}
	c := Config{
		Local: r.Options, Name: f.name, Seed: workloads.Seed(workloads.Serving, 1+r.Seed+index<<32),
		Memory: int64(declared.Memory), Observe: observe, AtLeast: r.AtLeast,
	}
	c.Path = f.path
	l := &loaded{config: c}
	if err := l.wake(ctx); err != nil {
		return nil, err
	}
	return l, nil
}
