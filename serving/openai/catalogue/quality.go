package catalogue

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"

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

// MinQuality reads the quality, by the scenario's for the task, below which no answer
// is taken. It is zero where that leaves out no variant that might answer: the pinned
// one, or any. Variant is [work.Auto], or pinned.
func (k *Catalogue) MinQuality(h http.Header, task, variant int) (float64, *wire.Refusal) {
	floor, fault := Floor(h)
	if floor == 0 || fault != nil {
		return 0, fault
	}
	param := strings.ToLower(HeaderQuality)
	t := &k.Table.Tasks[task]
	best, all := -1, true
	for v, q := range t.Quality {
		if !k.Table.Answers(task, v) {
			continue
		}
		if best < 0 || q > t.Quality[best] {
			best = v
		}
		all = all && q >= floor
	}
	there := fmt.Sprintf("the best is %q with %v", k.Table.Variants[best].Name, t.Quality[best])
	switch {
	case t.Quality[best] < floor:
		return 0, wire.Bad(http.StatusBadRequest, param, "quality_not_found", fmt.Sprintf("no model has quality %v for task %q; %s", floor, t.Name, there))
	case variant != work.Auto && t.Quality[variant] < floor:
		return 0, wire.Bad(http.StatusBadRequest, param, "quality_not_found", fmt.Sprintf("%q has quality %v for task %q, not %v; %s",
			k.Table.Variants[variant].Name, t.Quality[variant], t.Name, floor, there))
	case variant != work.Auto || all:
		return 0, nil
	}
	return floor, nil
}
