// Package catalogue is what clients may name in a request: models, tasks, and qualities. It
// refuses what there is not, what does not go together, and what a client's key may not use.
package catalogue

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/jobs"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// AutoModel is the name of the model by which the policy chooses.
const AutoModel = "auto"

// Options are what a Catalogue is made of.
type Options struct {
	// Table has the variants, which clients know as models, and the tasks.
	Table *fleet.Table
	// DefaultTask is the index of the task of requests that name none.
	DefaultTask func() int
	// Jobs are the models that take jobs.
	Jobs []jobs.Model
	// Context is the longest context of the variant, as far as it is known; zero if it is not.
	Context func(variant int) int
	// Fail answers with an error.
	Fail func(c *gin.Context, status int, e wire.Error)
}

// Catalogue is what clients may name. Its methods may be called from any goroutine.
type Catalogue struct {
	Options
	created int64 // Unix time, for the list of models
}

// New makes a Catalogue.
func New(o Options) *Catalogue { return &Catalogue{o, time.Now().Unix()} }

// Variant is the index of the model's variant, or [work.Auto]. The client may know of the
// allowed variants; zero is all of them.
func (k *Catalogue) Variant(model string, allowed uint64) (int, *wire.Refusal) {
	if model == AutoModel {
		return work.Auto, nil
	}
	if model == "" {
		return 0, wire.Bad(http.StatusBadRequest, "model", "missing_model", `"model" is missing; `+k.modelNames(allowed))
	}
	if i := k.Table.VariantIndex(model); i >= 0 {
		return i, nil
	}
	return 0, k.noModel(model, allowed)
}

func (k *Catalogue) noModel(name string, allowed uint64) *wire.Refusal {
	message := fmt.Sprintf("there is no model %q; %s", name, k.modelNames(allowed))
	if others := k.jobModels(allowed); len(others) > 0 {
		message += ", and to classify inputs " + strings.Join(others, ", ")
	}
	return wire.Bad(http.StatusNotFound, "model", "model_not_found", message)
}

// modelNames lists auto and the variants that have a bit; zero is all of them.
func (k *Catalogue) modelNames(variants uint64) string {
	text := "there are " + AutoModel
	for i, v := range k.Table.Variants {
		if variants == 0 || variants>>i&1 == 1 {
			text += ", " + v.Name
		}
	}
	return text
}

// model describes the model to a client that may know of the allowed variants. Auto has the longest
// context of these, since a long prompt goes to a size that holds it.
func (k *Catalogue) model(name string, allowed uint64) wire.Model {
	m := wire.Model{ID: name, Object: "model", Created: k.created, OwnedBy: "gearshift"}
	for i, v := range k.Table.Variants {
		if v.Name == name || name == AutoModel && (allowed == 0 || allowed>>i&1 == 1) {
			m.MaxModelLen = max(m.MaxModelLen, k.Context(i))
		}
	}
	m.ContextLength = m.MaxModelLen
	return m
}

// ListModels answers with the models that the client may ask for.
func (k *Catalogue) ListModels(c *gin.Context) {
	allowed := k.Allowed(access.Granted(c))
	list := wire.Models{Object: "list", Data: []wire.Model{k.model(AutoModel, allowed)}}
	for i, v := range k.Table.Variants {
		if allowed != 0 && allowed>>i&1 == 0 {
			continue
		}
		list.Data = append(list.Data, k.model(v.Name, allowed))
	}
	for _, name := range k.jobModels(allowed) {
		list.Data = append(list.Data, k.model(name, allowed))
	}
	c.JSON(http.StatusOK, list)
}

// jobModels are the names of models that take jobs, and of which the client may use a variant. One
// whose name is a variant's too is listed as that.
func (k *Catalogue) jobModels(allowed uint64) (names []string) {
	for _, m := range k.Jobs {
		may := allowed == 0 || slices.ContainsFunc(m.Options, func(o jobs.Option) bool {
			i := k.Table.VariantIndex(o.Variant)
			return i >= 0 && allowed>>i&1 == 1
		})
		if may && k.Table.VariantIndex(m.Name) < 0 {
			names = append(names, m.Name)
		}
	}
	return names
}

// OneModel answers with the model of the path, if the client may ask for it.
func (k *Catalogue) OneModel(c *gin.Context) {
	name := strings.TrimPrefix(c.Param("id"), "/")
	allowed, i := k.Allowed(access.Granted(c)), k.Table.VariantIndex(name)
	known := name == AutoModel || i >= 0 && (allowed == 0 || allowed>>i&1 == 1) || slices.Contains(k.jobModels(allowed), name)
	if !known {
		fault := k.noModel(name, allowed)
		k.Fail(c, fault.Status, fault.Error)
		return
	}
	c.JSON(http.StatusOK, k.model(name, allowed))
}
