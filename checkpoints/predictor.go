package checkpoints

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"
)

// kind names what a store holds by name and version, each kind with its own version in
// production.
type kind struct {
	noun     string
	maker    string // the command that makes one
	promoter string // the command that puts one in production
	// bucket holds the index and the bytes; nil: those of policies.
	bucket []byte
}

var (
	policies   = kind{"policy", "`gearshift train`", "`gearshift policy promote`", nil}
	predictors = kind{"predictor", "`gearshift quality fit`", "`gearshift quality promote`", []byte("predictors")}
)

// stored returns the kind that the methods are about.
func (s *Store) stored() *kind {
	if s.kind == nil {
		return &policies
	}
	return s.kind
}

// Predictor describes a stored predictor of quality.
type Predictor struct {
	Columns []string `json:"columns"` // the names that labels have for models
	Labels  int      `json:"labels"`  // prompts that it was fitted on
	Sources []Source `json:"sources,omitempty"`
	Seed    uint64   `json:"seed"` // of the folds and the fit
	// GivenKey reports whether the features are hashed under a key that the fit was given, not the
	// store's own.
	GivenKey bool `json:"given_key,omitempty"`
	// From is the digest of the predictor that was updated; empty if it was fitted.
	From string `json:"from,omitempty"`
	// Evaluation reports how well it predicted prompts that it had not seen, in its writer's form.
	Evaluation json.RawMessage `json:"evaluation,omitempty"`
}

// Source is a file of labels.
type Source struct {
	Name   string `json:"name"`   // without folders
	SHA256 string `json:"sha256"` // of its bytes
}

// Predictors are the stored predictors of quality. They have names, versions, aliases and
// retention as policies do, and one of them is in production independently of the policy
// that is. Methods are those of a [Store].
type Predictors struct{ store Store }

// Predictors returns the store's predictors.
func (s *Store) Predictors() *Predictors {
	p := *s
	p.kind = &predictors
	return &Predictors{p}
}

// Path returns the path of the store.
func (p *Predictors) Path() string { return p.store.Path }

// Put stores the bytes of a predictor as a new version of the name. It is as [Store.Put].
func (p *Predictors) Put(name string, data []byte, meta Predictor, created time.Time) (version int, removed []int, err error) {
	if err := checkName(predictors.noun, name); err != nil {
		return 0, nil, fmt.Errorf("cannot store predictor: %w", err)
	}
	if err := p.store.create(); err != nil {
		return 0, nil, err
	}
	r := newVersion(data, created)
	r.Predictor = &meta
	err = p.store.update(func(t *tx) (err error) {
		version, removed, err = p.store.add(t, name, r, data)
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	return version, removed, nil
}

// Get loads the bytes of the predictor that ref points at, which are those that were put.
func (p *Predictors) Get(ref Ref) ([]byte, Entry, error) { return p.store.read(ref) }

// Lookup is Get without the bytes.
func (p *Predictors) Lookup(ref Ref) (Entry, error) { return p.store.Lookup(ref) }

// List is as [Store.List].
func (p *Predictors) List() ([]Entry, error) { return p.store.List() }

// Promote is as [Store.Promote].
func (p *Predictors) Promote(name string, version int, forced string) error {
	return p.store.Promote(name, version, forced)
}

// Rollback is as [Store.Rollback].
func (p *Predictors) Rollback(name string) (int, error) { return p.store.Rollback(name) }

// Restore is as [Store.Restore].
func (p *Predictors) Restore(name string, version int) error {
	return p.store.Restore(name, version)
}

// Back is as [Store.Back].
func (p *Predictors) Back() (Ref, error) { return p.store.Back() }

// Withdraw is as [Store.Withdraw].
func (p *Predictors) Withdraw() error { return p.store.Withdraw() }

// Production is as [Store.Production].
func (p *Predictors) Production() (Ref, error) { return p.store.Production() }

// Remove is as [Store.Remove].
func (p *Predictors) Remove(ref Ref, force bool) ([]int, error) { return p.store.Remove(ref, force) }

// hashKey names the record with the key of the features.
var hashKey = []byte("key")

// Key returns the key under which the features of prompts are hashed in this store. It is
// drawn at random the first time, and never leaves the store but within its predictors: what
// they hold names no word to who has another store.
func (p *Predictors) Key() (key uint64, err error) {
	if err := p.store.create(); err != nil {
		return 0, err
	}
	found := false
	read := func(t *tx) error {
		if t.at == nil || t.at.Get(hashKey) == nil {
			return nil
		}
		found = true
		key, err = openKey(t.at.Get(hashKey))
		if err != nil {
			return p.store.corrupted("the key of its predictors: " + err.Error())
		}
		return nil
	}
	if err := p.store.view(read); err != nil || found {
		return key, err
	}
	err = p.store.update(func(t *tx) error {
		if err := read(t); err != nil || found { // another process was quicker
			return err
		}
		var drawn [8]byte
		if _, err := rand.Read(drawn[:]); err != nil {
			return err
		}
		key = binary.LittleEndian.Uint64(drawn[:])
		return t.at.Put(hashKey, seal(drawn[:]))
	})
	return key, err
}

// openKey reads a stored key.
func openKey(data []byte) (uint64, error) {
	body, err := unseal(data)
	if err != nil {
		return 0, err
	}
	if len(body) != 8 {
		return 0, fmt.Errorf("it has %d bytes, not 8", len(body))
	}
	return binary.LittleEndian.Uint64(body), nil
}

// predictors checks the stored predictors and their key.
func (h *Health) predictors(t *tx) {
	h.Predictors = h.versions(predictors.noun, t, func([]byte, []byte, version) {})
	if t.at == nil {
		return
	}
	if data := t.at.Get(hashKey); data != nil {
		if _, err := openKey(data); err != nil {
			h.fault("the key of the predictors: %v", err)
		}
	}
	h.orphans(predictors.noun, t.at, t.index.predictorKeys())
}

// predictorKeys are those of the records in the predictors' bucket.
func (x *index) predictorKeys() map[string]bool {
	known := x.keys()
	known[string(indexKey)], known[string(hashKey)] = true, true
	return known
}
