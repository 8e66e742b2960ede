package prompts

import (
	"bytes"
	"compress/bzip2"
	"encoding/csv"
	"errors"
	"fmt"
	"strconv"
	"sync"
)

// NineModels is the name of the set that is packed into the program.
const NineModels = "nine-models"

// Names lists the sets that are packed into the program.
func Names() []string { return []string{NineModels} }

// ErrNone is of a build that only serves.
var ErrNone = errors.New("this build has no prompts: it only serves; build without the tag serveonly")

// BuiltIn returns the packed set of the name, which it unpacks once. A build with tag serveonly
// has none; see [ErrNone].
func BuiltIn(name string) (*Set, error) {
	if name != NineModels {
		return nil, fmt.Errorf("no prompts are called %q; built in are %s", name, NineModels)
	}
	return nineModels()
}

var nineModels = sync.OnceValues(func() (*Set, error) {
	if len(packed) == 0 {
		return nil, ErrNone
	}
	set, err := unpack(packed)
	if err != nil {
		return nil, fmt.Errorf("the packed prompts are damaged: %w", err)
	}
	return set, nil
})

// unpack reads the packed form: a table with the columns prompt and group, and one for each model.
func unpack(data []byte) (*Set, error) {
	rows, err := csv.NewReader(bzip2.NewReader(bytes.NewReader(data))).ReadAll()
	if err != nil {
		return nil, err
	}
	const first = 2 // column of a model
	set := &Set{Name: NineModels, Columns: rows[0][first:]}
	for _, row := range rows[1:] {
		p := Prompt{Text: row[0], Group: row[1], Scores: make([]float32, len(set.Columns))}
		for i, text := range row[first:] {
			score, err := strconv.ParseFloat(text, 32)
			if err != nil {
				return nil, err
			}
			p.Scores[i] = float32(score)
		}
		set.Prompts = append(set.Prompts, p)
	}
	return set, nil
}
