package engineserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gearshift/serving/backend"
	"gearshift/serving/engineserver/repository"
	"gearshift/serving/openai/wire"
)

// Shared is a model with several inputs, which one engine answers from those that a request has.
// A request that names it takes the time of the variant for these inputs.
type Shared struct {
	Name string
	// Modalities are those of the model, such as text, image, audio and video.
	Modalities []string
	// Combinations are its variants, of which there is at least one.
	Combinations []Combination
}

// Combination is a variant of a model, by its name as a model of the server.
type Combination struct {
	Variant    string
	Modalities []string // that it takes, of the model's
}

// checkShared refuses models whose variants are not there.
func (s *Server) checkShared() error {
	for i := range s.shared {
		m := &s.shared[i]
		if len(m.Combinations) == 0 {
			return fmt.Errorf("cannot make engine server: the model %q has no variants", m.Name)
		}
		for _, c := range m.Combinations {
			if _, err := s.models.Status(c.Variant); err != nil {
				return fmt.Errorf("cannot make engine server: the model %q: %w", m.Name, err)
			}
		}
	}
	return nil
}

// sharedNamed is the shared model of the name, or nil.
func (s *Server) sharedNamed(name string) *Shared {
	i := slices.IndexFunc(s.shared, func(m Shared) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &s.shared[i]
}

// status is that of the model of the name. A shared model has the status of the first of its
// variants that is not ready, or else of the first.
func (s *Server) status(name string) (repository.Status, error) {
	m := s.sharedNamed(name)
	if m == nil {
		return s.models.Status(name)
	}
	var found repository.Status
	for i, c := range m.Combinations {
		one, err := s.models.Status(c.Variant)
		if err != nil {
			return one, err
		}
		if i == 0 || found.State == repository.Ready && one.State != repository.Ready {
			found = one
		}
	}
	found.Name = name
	return found, nil
}

// parts are the models that are loaded and unloaded by the name: the variants of a shared model, or
// the one of the name.
func (s *Server) parts(name string) []string {
	m := s.sharedNamed(name)
	if m == nil {
		return []string{name}
	}
	var all []string
	for _, c := range m.Combinations {
		all = append(all, c.Variant)
	}
	return all
}

// served lists what requests may name: the shared models, and then the others.
func (s *Server) served() (list []repository.Status) {
	for i := range s.shared {
		if m, err := s.status(s.shared[i].Name); err == nil {
			list = append(list, m)
		}
	}
	for _, m := range s.models.Statuses() {
		if s.sharedNamed(m.Name) == nil {
			list = append(list, m)
		}
	}
	return list
}

// answers is the variant for what the request has: inputs to classify, or messages with their parts.
func (m *Shared) answers(path string, r *wire.Request) (string, error) {
	if path == backend.ClassifyPath {
		return m.variant(backend.ModalitiesOf(r.Body))
	}
	there, parts := []string{"text"}, r.Parts().All
	for _, name := range m.Modalities {
		if kind := wire.ModalityNamed(name); parts&kind != 0 {
			there = append(there, name)
		}
	}
	return m.variant(there)
}

// infers is the variant for the tensors of a request of the Open Inference Protocol.
func (m *Shared) infers(h http.Header, body []byte) (string, error) {
	there, err := backend.TensorModalities(h, body, m.Modalities)
	if err != nil {
		return "", err
	}
	return m.variant(there)
}

// variant is the one with these modalities, or else the one with the fewest that takes them all.
func (m *Shared) variant(there []string) (string, error) {
	if len(there) == 0 {
		return "", fmt.Errorf("there is nothing to answer from; the model %s takes %s", m.Name, strings.Join(m.Modalities, ", "))
	}
	var best *Combination
	for i := range m.Combinations {
		c := &m.Combinations[i]
		takes := !slices.ContainsFunc(there, func(name string) bool { return !slices.Contains(c.Modalities, name) })
		if takes && (best == nil || len(c.Modalities) < len(best.Modalities)) {
			best = c
		}
	}
	if best == nil {
		return "", errors.New(m.refusal(there))
	}
	return best.Variant, nil
}

// refusal says that no variant takes these modalities.
func (m *Shared) refusal(there []string) string {
	var has []string
	for _, c := range m.Combinations {
		has = append(has, c.Variant+" ("+strings.Join(c.Modalities, ", ")+")")
	}
	return fmt.Sprintf("the request has %s, which no variant of %s takes; there are %s", strings.Join(there, ", "), m.Name, strings.Join(has, ", "))
}
