// Package scoring values the answer that a model gave to a prompt, from 0 to 1, by its text alone.
// The labels that predictors are fitted to come from it: answers are compared with a given one,
// against a schema, against the largest size's answer, or compared by a judge, whose verdicts it
// reads. It asks no engine.
package scoring

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Kind names a way to score.
type Kind string

// The ways to score. All but Judge are scored by [New]; a judge's verdicts are read by
// [ParseVerdict] and valued by [Compared].
const (
	// Exact compares texts except for case, white space, quotes around them and a full stop.
	Exact Kind = "exact"
	// Number compares the number that each text states as its result, or else its last.
	Number Kind = "number"
	// Choice compares the letter, A to J, that each text settles on.
	Choice Kind = "choice"
	// Contains looks for the given texts, as whole words, in the answer.
	Contains Kind = "contains"
	// JSONSchema validates the JSON in an answer, also within a code fence.
	JSONSchema Kind = "json-schema"
	// Agreement compares with another answer, that of the largest size: a weak label, see [Agree].
	Agreement Kind = "agreement"
	// Judge asks a model which of two answers is better.
	Judge Kind = "judge"
)

// Kinds lists the ways to score.
var Kinds = []Kind{Exact, Number, Choice, Contains, JSONSchema, Agreement, Judge}

// ParseKind returns the kind of that name.
func ParseKind(name string) (Kind, error) {
	if k := Kind(name); slices.Contains(Kinds, k) {
		return k, nil
	}
	var names []string
	for _, k := range Kinds {
		names = append(names, string(k))
	}
	return "", fmt.Errorf("unknown way to score %q; want one of %s", name, strings.Join(names, ", "))
}

// Scorer returns the score of an answer, from 0 to 1. It may be called from any goroutine.
type Scorer func(answer string) float64

// errNoAnswer refuses a reference without a text to compare with.
var errNoAnswer = errors.New("no answer to compare with")

// New makes a scorer of the reference. Of several right answers the best match counts. The error
// says why the reference cannot be used.
func New(kind Kind, r Reference) (Scorer, error) {
	if kind == JSONSchema {
		return schema(r.Schema)
	}
	if len(r.Answers) == 0 {
		return nil, errNoAnswer
	}
	if r.All && kind != Contains {
		return nil, fmt.Errorf(`"all" means nothing to %s; want one answer, or a list of those that are right`, kind)
	}
	if kind == Contains {
		return contains(r)
	}
	var one func(reference string) (Scorer, error)
	switch kind {
	case Exact:
		one = exact
	case Number:
		one = number
	case Choice:
		one = choice
	case Agreement:
		one = agreement
	default:
		return nil, fmt.Errorf("%s cannot be scored by an answer given", kind)
	}
	return best(r.Answers, one)
}

// best returns a scorer by the right answer that fits best.
func best(answers []string, one func(string) (Scorer, error)) (Scorer, error) {
	scorers := make([]Scorer, len(answers))
	for i, a := range answers {
		var err error
		if scorers[i], err = one(a); err != nil {
			return nil, err
		}
	}
	if len(scorers) == 1 {
		return scorers[0], nil
	}
	return func(answer string) (score float64) {
		for _, s := range scorers {
			score = max(score, s(answer))
		}
		return score
	}, nil
}

// worth returns the score of an answer that is right or wrong.
func worth(right bool) float64 {
	if right {
		return 1
	}
	return 0
}
