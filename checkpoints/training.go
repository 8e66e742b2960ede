package checkpoints

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"time"
)

// chunkSize bounds the values that progress is cut into. bbolt stores a value
// in one contiguous stretch of pages: pieces fit the gaps that earlier progress
// left, and the file stays near twice the size of what it holds.
const chunkSize = 1 << 20

// Training is the stored progress of one training run.
type Training struct {
	Meta     json.RawMessage // the writer's description of the run, compacted
	Progress []byte          // all that the run needs to continue; empty if it is over
	// Policy is what the run ended with, zero if it has not ended since its
	// progress was stored.
	Policy Ref
}

// PutTraining stores a run's progress in place of what it stored before, in one
// transaction. It creates the store, and the folder it lies in, where there is
// none.
func (s *Store) PutTraining(run string, meta json.RawMessage, progress []byte) error {
	if err := checkRun(run); err != nil {
		return fmt.Errorf("cannot store training: %w", err)
	}
	if len(meta) > 0 && !json.Valid(meta) {
		return fmt.Errorf("cannot store training %q: its metadata is not JSON", run)
	}
	if err := s.create(); err != nil {
		return err
	}
	return s.update(func(t *tx) error { return s.putTraining(t, run, meta, progress) })
}

func (s *Store) putTraining(t *tx, name string, meta json.RawMessage, progress []byte) error {
	r := &run{Meta: meta, Size: len(progress), CRC: crc32.Checksum(progress, castagnoli)}
	for rest := progress; len(rest) > 0; r.Chunks++ {
		n := min(len(rest), chunkSize)
		if err := t.training.Put(chunkKey(name, r.Chunks), rest[:n]); err != nil {
			return s.corrupted(err.Error())
		}
		rest = rest[n:]
	}
	if former := t.index.Runs[name]; former != nil {
		if err := s.discardChunks(t, name, r.Chunks, former.Chunks); err != nil {
			return err
		}
	}
	t.index.Runs[name] = r
	return nil
}

// GetTraining loads a run's progress. None is [ErrNotFound].
func (s *Store) GetTraining(run string) (Training, error) {
	var got Training
	err := s.view(func(t *tx) error {
		r, err := s.run(t.index, run)
		if err != nil {
			return err
		}
		got = Training{Meta: r.Meta, Policy: r.Policy}
		var pieces [][]byte
		size := 0
		for i := range r.Chunks {
			pieces = append(pieces, t.training.Get(chunkKey(run, i)))
			size += len(pieces[i])
		}
		if size != r.Size {
			return fmt.Errorf("cannot load training %q: %w", run,
				s.corrupted(fmt.Sprintf("%d bytes of progress are left of %d", size, r.Size)))
		}
		got.Progress = bytes.Join(pieces, nil)
		if crc := crc32.Checksum(got.Progress, castagnoli); crc != r.CRC {
			return fmt.Errorf("cannot load training %q: %w", run,
				s.corrupted(fmt.Sprintf("the progress's CRC-32C is %08x, recorded is %08x", crc, r.CRC)))
		}
		return nil
	})
	if err != nil {
		return Training{}, err
	}
	return got, nil
}

// Finish stores what a run ended with, as [Store.Put] does, and in the same
// transaction records that with the run's progress: a run that is resumed at its
// end finds that its policy is stored, and one that is given more decisions
// continues from its progress. A run without progress is [ErrNotFound].
//
// Over are the runs that nothing is left to do for, this one or others that were
// part of it: their progress goes, and of this one the note stays.
func (s *Store) Finish(run, name string, c *Checkpoint, created time.Time, over ...string) (version int, removed []int, err error) {
	r, data, err := s.prepare(name, c, created)
	if err != nil {
		return 0, nil, err
	}
	err = s.update(func(t *tx) error {
		at, err := s.run(t.index, run)
		if err != nil {
			return fmt.Errorf("cannot store policy %q: %w", name, err)
		}
		if version, removed, err = s.add(t, name, r, data); err != nil {
			return err
		}
		for _, other := range over {
			if err := s.drop(t, other); err != nil {
				return err
			}
		}
		at.Policy = Ref{Name: name, Version: version}
		t.index.Runs[run] = at
		return nil
	})
	if err != nil {
		return 0, nil, err
	}
	return version, removed, nil
}

// Forget removes the progress of the runs of the chosen names, and the notes of what
// they ended with. Their policies stay.
func (s *Store) Forget(chosen func(run string) bool) error {
	return s.update(func(t *tx) error {
		for _, name := range slices.Sorted(maps.Keys(t.index.Runs)) {
			if !chosen(name) {
				continue
			}
			if err := s.drop(t, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// drop forgets a run, if it is known, and empties its record.
func (s *Store) drop(t *tx, name string) error {
	r := t.index.Runs[name]
	if r == nil {
		return nil
	}
	chunks := r.Chunks
	*r = run{Meta: r.Meta}
	delete(t.index.Runs, name)
	return s.discardChunks(t, name, 0, chunks)
}

// run is the record of a run's progress.
func (s *Store) run(x *index, name string) (*run, error) {
	if r := x.Runs[name]; r != nil {
		return r, nil
	}
	return nil, &fault{ErrNotFound, fmt.Sprintf("no progress of a training %q in store %s", name, s.Path)}
}

// discardChunks removes the chunks from..to of a run.
func (s *Store) discardChunks(t *tx, run string, from, to int) error {
	for i := from; i < to; i++ {
		if err := t.training.Delete(chunkKey(run, i)); err != nil {
			return s.corrupted(err.Error())
		}
	}
	return nil
}

// chunkKey is where the i-th piece of a run's progress is stored. No run's name
// holds a zero byte.
func chunkKey(run string, i int) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(run), 0), uint32(i))
}
