package catalogue

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

	"gearshift/router/fleet"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// HeaderQuality sets the lowest quality of an answer that the client takes.
const HeaderQuality = "X-Gearshift-Min-Quality"

// Floor reads the quality below which no answer is taken; zero if there is none.
func Floor(h http.Header) (float64, *wire.Refusal) {
	text := strings.TrimSpace(wire.Field(h, HeaderQuality))
	if text == "" {
		return 0, nil
	}
	floor, err := strconv.ParseFloat(text, 64)
	if err != nil || !(floor >= 0 && floor < math.Inf(1)) { // NaN fails too
		return 0, wire.Bad(http.StatusBadRequest, strings.ToLower(HeaderQuality), "invalid_quality", fmt.Sprintf("quality %q; it must be a number of at least 0", text))
	}
	return floor, nil
}

// SetMinQuality sets the quality, by the scenario's for the task or by what is predicted for the
// prompt, below which no answer is taken. It is zero where that leaves out no variant that might
// answer: the pinned one, or any. Variant is [work.Auto], or pinned.
func (k *Catalogue) SetMinQuality(h http.Header, r *fleet.Request, variant int) *wire.Refusal {
	r.MinQuality = 0
	floor, fault := Floor(h)
	if floor == 0 || fault != nil {
		return fault
	}
	param := strings.ToLower(HeaderQuality)
	t := &k.Table.Tasks[r.Task]
	best, all := -1, true
	for v := range t.Quality {
		if !k.Table.Answers(r.Task, v) {
			continue
		}
		if best < 0 || k.quality(r, v) > k.quality(r, best) {
			best = v
		}
		all = all && k.Table.Assured(r, v) >= floor
	}
	there := fmt.Sprintf("the best is %q with %.4g", k.Table.Variants[best].Name, k.quality(r, best))
	switch {
	case k.quality(r, best) < floor:
		return wire.Bad(http.StatusBadRequest, param, "quality_not_found", fmt.Sprintf("no model has quality %v for task %q; %s", floor, t.Name, there))
	case variant != work.Auto && k.quality(r, variant) < floor:
		return wire.Bad(http.StatusBadRequest, param, "quality_not_found", fmt.Sprintf("%q has quality %.4g for task %q, not %v; %s",
			k.Table.Variants[variant].Name, k.quality(r, variant), t.Name, floor, there))
	case variant != work.Auto || all:
		return nil
	}
	r.MinQuality = floor
	return nil
}

// quality is that of the variant by its task's row or, where that is more, what is at least
// predicted for the request.
func (k *Catalogue) quality(r *fleet.Request, variant int) float64 {
	return max(k.Table.Tasks[r.Task].Quality[variant], k.Table.Assured(r, variant))
}

// lower sets a floor that no variant is sure to reach to the most that any is sure of, if some variant
// has the quality by its task's row: prompts that are not understood should not be refused.
func (k *Catalogue) lower(r *fleet.Request) {
	if r.MinQuality == 0 || !r.Predicted.Known {
		return
	}
	floor, most, has := r.MinQuality, 0.0, false
	r.MinQuality = 0
	for v := range k.Table.Variants {
		if k.Table.Reaches(r, v) {
			most = max(most, k.Table.Assured(r, v))
			has = has || k.quality(r, v) >= floor
		}
	}
	if r.MinQuality = floor; has {
		r.MinQuality = min(floor, most)
	}
}
