package labels

import (
	"encoding/csv"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"

	"gearshift/workloads/prompts"
)

// prefix marks the columns of models in a file that has others too.
const prefix = "score."

// header holds the places of the columns in a file of CSV; -1 for none.
type header struct {
	prompt, task, group int
	models              map[int]string
}

// csv reads comma-separated values: columns prompt, task and group, and one for each model. If
// any column is called score.NAME, those are the models, and others are ignored.
func (r *reader) csv(text io.Reader) error {
	in := csv.NewReader(text)
	in.ReuseRecord = true
	first, err := in.Read()
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return r.broken(err)
	}
	h, err := r.header(slices.Clone(first))
	if err != nil {
		return err
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return r.broken(err)
		}
		r.at.line, _ = in.FieldPos(0)
		if err := r.row(h, row); err != nil {
			return err
		}
	}
}

// broken puts the reader's form on what is wrong with the form of a file.
func (r *reader) broken(err error) error {
	if parse := (*csv.ParseError)(nil); errors.As(err, &parse) {
		r.at.line = parse.Line
		return r.fault("not a row of comma-separated values: %w; want as many values as the header has names", parse.Err)
	}
	return err
}

// header reads the names of the columns.
func (r *reader) header(names []string) (header, error) {
	h := header{-1, -1, -1, map[int]string{}}
	marked := slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, prefix) })
	met := map[string]bool{}
	for i, name := range names {
		name = strings.TrimSpace(name)
		switch model, isModel := strings.CutPrefix(name, prefix); {
		case name == "prompt":
			h.prompt = i
		case name == "task":
			h.task = i
		case name == "group" || name == "id":
			if name == "group" {
				h.group = i
			}
		case isModel || !marked:
			if met[model] && model != "" {
				return h, r.fault("two columns of %q; want one", model)
			}
			h.models[i], met[model] = model, true
		}
	}
	switch {
	case h.prompt < 0:
		return h, r.fault("no column prompt; want a header such as prompt,task,large,small")
	case len(h.models) == 0 && !r.Unscored:
		return h, r.fault("no column of a model; want a header such as prompt,task,large,small")
	}
	return h, nil
}

// row reads one prompt. A value that is empty is no score.
func (r *reader) row(h header, row []string) error {
	at := func(i int) string {
		if i < 0 {
			return ""
		}
		return strings.Clone(row[i])
	}
	p := prompts.Prompt{Text: at(h.prompt), Task: at(h.task), Group: at(h.group)}
	var scores []score
	for i, text := range row {
		model, ok := h.models[i]
		if text = strings.TrimSpace(text); !ok || text == "" {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return r.fault("score %.40q of %q; want a number from 0 to 1, or nothing", text, model)
		}
		scores = append(scores, score{model, v})
	}
	return r.add(p, scores)
}
