package catalogue

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// MostVariants bounds the variants among which models of keys can choose: see
// [fleet.Request].Variants.
const MostVariants = 64

// CheckGrants names the classes and models of keys that there are not, by the line of
// the keys file.
func (k *Catalogue) CheckGrants(c *config.Config, list []access.Key) error {
	var faults []error
	var classes []string
	for _, x := range c.Classes {
		classes = append(classes, x.Name)
	}
	for _, key := range list {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("%s:%d: %w", c.KeysFile, key.At(), fmt.Errorf(format, args...)))
		}
		if slices.Equal(key.Models, []string{AutoModel}) {
			fault("models: %q alone; want those among which the policy may choose, %s", AutoModel, k.modelNames(0))
		}
		for _, name := range key.Models {
			switch {
			case name == AutoModel:
			case k.named(name) == 0 && len(k.Table.Variants) <= MostVariants:
				fault("models: there is no model %q; %s%s", name, k.modelNames(0), k.andJobModels())
			case len(k.Table.Variants) > MostVariants:
				fault("models: want a scenario of at most %d variants, found %d", MostVariants, len(k.Table.Variants))
			}
		}
		for _, name := range key.Classes {
			if len(classes) > 0 && !slices.Contains(classes, name) {
				fault("classes: there is no class of requests %q; there are %s", name, strings.Join(classes, ", "))
			}
		}
	}
	return errors.Join(faults...)
}

// Allowed has a bit for each variant that the grants allow; zero is all of them.
func (k *Catalogue) Allowed(g access.Grants) (variants uint64) {
	for _, name := range g.Models {
		variants |= k.named(name)
	}
	return variants
}

// named has a bit for each variant that a name in the grants stands for: the variant of the name, or
// all those of a model that takes jobs.
func (k *Catalogue) named(name string) (variants uint64) {
	if i := k.Table.VariantIndex(name); i >= 0 {
		return 1 << i
	}
	for _, m := range k.Jobs {
		if m.Name != name {
			continue
		}
		for _, o := range m.Options {
			if i := k.Table.VariantIndex(o.Variant); i >= 0 {
				variants |= 1 << i
			}
		}
	}
	return variants
}

// andJobModels lists the models that take jobs, after those of the table.
func (k *Catalogue) andJobModels() (text string) {
	for _, name := range k.jobModels(0) {
		text += ", " + name
	}
	return text
}

// Permit bounds the request to the models that its key may use, among those that it is bound to
// already. Variant is [work.Auto], or pinned.
func (k *Catalogue) Permit(g access.Grants, r *fleet.Request, variant int) *wire.Refusal {
	allowed, bound := k.Allowed(g), r.Variants
	if allowed == 0 {
		k.lower(r)
		return nil
	}
	if r.Variants = allowed; bound != 0 {
		if r.Variants &= bound; r.Variants == 0 {
			return wire.Bad(http.StatusForbidden, "model", "model_not_allowed", "this API key may use no variant of the model; "+k.modelNames(allowed))
		}
	}
	if variant != work.Auto && r.Variants>>variant&1 == 0 {
		return wire.Bad(http.StatusForbidden, "model", "model_not_allowed", fmt.Sprintf("this API key may not use %q; %s", k.Table.Variants[variant].Name, k.modelNames(r.Variants)))
	}
	k.lower(r)
	for v := range k.Table.Variants {
		if k.Table.Reaches(r, v) {
			return nil
		}
	}
	if r.MinQuality == 0 {
		return wire.Bad(http.StatusForbidden, "model", "model_not_allowed", fmt.Sprintf("this API key may use no model that answers task %q; %s", k.Table.Tasks[r.Task].Name, k.modelNames(r.Variants)))
	}
	return wire.Bad(http.StatusBadRequest, strings.ToLower(HeaderQuality), "quality_not_found", fmt.Sprintf("no model that this API key may use has quality %v; %s", r.MinQuality, k.modelNames(r.Variants)))
}
