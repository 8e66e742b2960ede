package experience

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"

	"gearshift/router/fleet"
)

// Log is what was read of the files of one fleet.
type Log struct {
	// Runs are in order of their beginnings. One that has logged no row yet is left
	// out.
	Runs []Run
	// Files are the names as given, Hash is the SHA-256 of their bytes one after
	// another.
	Files []string
	Hash  string
	// Notes say what was left out.
	Notes []string
}

// Run is the rows of one life of a server, in the order of their decisions.
type Run struct {
	Header Header
	Rows   []Row
}

// Load reads the files, in any order, each in full. They are of one fleet; those
// of several runs may be mixed. Errors name file and line.
func Load(paths ...string) (*Log, error) {
	if len(paths) == 0 {
		return nil, errors.New("cannot read experience: no file is given")
	}
	log := &Log{Files: paths}
	sum := sha256.New()
	runs := map[string]*Run{}
	seen := map[key]string{}
	var first *file
	for _, path := range paths {
		f, err := load(path, sum)
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = f
		}
		if err := f.header.sameFleet(&first.header, false); err != nil {
			return nil, fmt.Errorf("%s: %w, as %s says; read them apart", path, err, first.name)
		}
		if err := f.join(runs, seen); err != nil {
			return nil, err
		}
		if f.note != "" {
			log.Notes = append(log.Notes, f.note)
		}
	}
	log.Hash = hex.EncodeToString(sum.Sum(nil))
	for _, run := range runs {
		if len(run.Rows) == 0 { // a server that no client has asked since it began
			continue
		}
		slices.SortFunc(run.Rows, func(a, b Row) int { return cmp.Compare(a.Decision, b.Decision) })
		log.Runs = append(log.Runs, *run)
	}
	slices.SortFunc(log.Runs, func(a, b Run) int {
		return cmp.Or(a.Header.Began.Compare(b.Header.Began), cmp.Compare(a.Header.Run, b.Header.Run))
	})
	return log, nil
}

func load(path string, sum io.Writer) (*file, error) {
	in, err := open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = in.Close() }() // nothing was written
	return read(path, io.TeeReader(in, sum))
}

// key is a decision of a run.
type key struct {
	run      string
	decision uint64
}

// join adds the file's rows to those of its run.
func (f *file) join(runs map[string]*Run, seen map[key]string) error {
	run := runs[f.header.Run]
	if run == nil {
		run = &Run{Header: f.header}
		runs[f.header.Run] = run
	}
	if err := f.header.sameFleet(&run.Header, true); err != nil {
		return fmt.Errorf("%s: %w, although it is of the same run", f.name, err)
	}
	for i := range f.rows {
		k := key{f.header.Run, f.rows[i].Decision}
		where := fmt.Sprintf("%s:%d", f.name, f.rows[i].line)
		if other, twice := seen[k]; twice {
			return fmt.Errorf("%s: decision %d of run %s stands in %s too; give each file once", where, k.decision, k.run, other)
		}
		seen[k] = where
	}
	run.Rows = append(run.Rows, f.rows...)
	return nil
}

// On makes the rows' views those of the fleet t, with the limits that held when
// they were written. The error explains why the log is of another fleet.
func (l *Log) On(t *fleet.Table) error {
	for i := range l.Runs {
		run := &l.Runs[i]
		table, err := run.Header.Table(t)
		if err != nil {
			return err
		}
		for k := range run.Rows {
			r := &run.Rows[k]
			r.View.Table = table
			if len(r.hosts) > 0 {
				r.View.Only(table, r.hosts)
			}
		}
	}
	return nil
}

// Len is the number of rows.
func (l *Log) Len() (n int) {
	for i := range l.Runs {
		n += len(l.Runs[i].Rows)
	}
	return n
}

// Missing is how many routed requests between the first row and the last are not in
// the log: left out by sampling, dropped, or not ended when the log did.
func (r *Run) Missing() int {
	if len(r.Rows) == 0 {
		return 0
	}
	return int(r.Rows[len(r.Rows)-1].Decision-r.Rows[0].Decision) + 1 - len(r.Rows)
}
