package report

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// The names that a report takes in its folder, in addition to [csvFolder].
const (
	pageFile = "report.html"
	jsonFile = "report.json"
)

// Write writes report.html, report.json, the folder csv and the report's further files into
// dir, which it makes if need be, replacing an older report there. Other files of dir stay.
// If it fails, what was there before is there still, and nothing else.
func (r *Report) Write(dir string) error {
	files, err := r.files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	if err := Replaceable(dir); err != nil {
		return err
	}
	if err := install(dir, files, r.places()); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	return nil
}

// files renders the whole report: its files by their slash-separated names.
func (r *Report) files() (map[string][]byte, error) {
	if err := r.Validate(); err != nil {
		return nil, fmt.Errorf("cannot write the report:\n%w", err)
	}
	page, err := r.page()
	if err != nil {
		return nil, err
	}
	model, err := json.Marshal(document{format, r})
	if err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", jsonFile, err)
	}
	files := map[string][]byte{pageFile: page, jsonFile: model}
	for _, f := range r.Files {
		files[f.Name] = f.Content
	}
	for i := range r.Sections {
		for j := range r.Sections[i].Tables {
			t := &r.Sections[i].Tables[j]
			if files[csvFile(t.ID)], err = t.csv(); err != nil {
				return nil, fmt.Errorf("cannot write table %q: %w", t.ID, err)
			}
		}
		for j := range r.Sections[i].Figures {
			f := &r.Sections[i].Figures[j]
			if files[csvFile(f.ID)], err = f.csv(); err != nil {
				return nil, fmt.Errorf("cannot write figure %q: %w", f.ID, err)
			}
		}
	}
	return files, nil
}

// places returns what the report takes in its folder. The page goes last: it is what a reader opens.
func (r *Report) places() []string {
	names := []string{csvFolder}
	for _, f := range r.Files {
		names = append(names, f.Name)
	}
	return append(names, jsonFile, pageFile)
}

// Replaceable refuses a dir whose csv folder or files are not those of a
// report: they would be lost. Ask it before what is to be reported has taken its time.
func Replaceable(dir string) error {
	var there []string
	for _, name := range []string{pageFile, jsonFile, csvFolder} {
		switch _, err := os.Lstat(filepath.Join(dir, name)); {
		case err == nil:
			there = append(there, name)
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("cannot write the report: %w", err)
		}
	}
	if len(there) == 0 {
		return nil
	}
	var old document
	text, err := os.ReadFile(filepath.Join(dir, jsonFile))
	if err == nil {
		err = json.Unmarshal(text, &struct {
			Format *string `json:"format"`
		}{&old.Format})
	}
	if err != nil || old.Format != format {
		return fmt.Errorf("cannot write the report: %s holds a %s that is not a report's; choose another folder", dir, there[0])
	}
	return nil
}

// install writes the files next to their final names, and renames them once all
// are whole.
func install(dir string, files map[string][]byte, places []string) (err error) {
	stage, err := os.MkdirTemp(dir, ".report-*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(stage)) }()
	for _, folder := range []string{"new/" + csvFolder, "old"} {
		if err := os.MkdirAll(filepath.Join(stage, folder), 0o755); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(filepath.Join(stage, "new", name), files[name], 0o644); err != nil {
			return err
		}
	}
	return swap(dir, filepath.Join(stage, "new"), filepath.Join(stage, "old"), places)
}

// swap moves what is fresh into dir, and what was there aside, in this order; on an error
// it moves all back.
func swap(dir, fresh, aside string, places []string) (err error) {
	var undo []func() error
	defer func() {
		if err == nil {
			return
		}
		for _, back := range slices.Backward(undo) {
			err = errors.Join(err, back())
		}
	}()
	move := func(from, to, name string) error {
		source, target := filepath.Join(from, name), filepath.Join(to, name)
		if err := os.Rename(source, target); err != nil {
			return err
		}
		undo = append(undo, func() error { return os.Rename(target, source) })
		return nil
	}
	for _, name := range places {
		if err := move(dir, aside, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := move(fresh, dir, name); err != nil {
			return err
		}
	}
	return nil
}
