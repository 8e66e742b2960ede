//go:build !windows && !plan9 && !solaris && !aix

package experience

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// writeRow writes the row of that number at once.
func writeRow(t *testing.T, s *Store, id uint64) {
	t.Helper()
	line, err := s.encode(testRow(testTable(t, 2), id))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.files.write(line); err != nil {
		t.Fatal(err)
	}
}

// Of two servers with one path neither removes what the other still writes to, however
// many files it fills meanwhile; what is closed goes when it is the oldest.
func TestFilesOfOthersAreKeptWhileTheyAreWritten(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	c.MaxFiles = 2
	slow := testStore(t, c, table)
	writeRow(t, slow, 1)
	quick := testStore(t, c, table) // gives the file of the other another name
	quick.files.most = 4000
	fill := func(first uint64) []string {
		t.Helper()
		for id := first; id < first+40; id++ {
			writeRow(t, quick, id)
		}
		paths, err := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
		if err != nil {
			t.Fatal(err)
		}
		return paths
	}
	paths := fill(1)
	writeRow(t, slow, 2)
	log, err := Load(paths...)
	if err != nil || len(paths) != 3 || len(log.Runs) != 2 {
		t.Fatalf("files %v: %+v, %v", paths, log, err)
	}
	for _, run := range log.Runs {
		if run.Header.Run == slow.header.Run && len(run.Rows) != 2 {
			t.Errorf("%d rows of the slow one, want both", len(run.Rows))
		}
	}
	if err := slow.Close(); err != nil {
		t.Fatal(err)
	}
	if paths := fill(41); len(paths) != 2 {
		t.Errorf("files %v once the slow one is closed, want two", paths)
	}
}

// Of closed files the one goes first that is the longest without a row, whenever it got
// its name.
func TestFilesWithTheLatestRowsAreKept(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	c.MaxFiles = 2
	slow, quick := testStore(t, c, table), testStore(t, c, table)
	third := testStore(t, c, table)
	for _, s := range []*Store{quick, slow} {
		writeRow(t, s, 1)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	full, err := third.files.list()
	if err != nil || len(full) != 2 {
		t.Fatalf("%v, %v; want two full files, those of slow and of quick", full, err)
	}
	for _, path := range full { // as long as a file may be
		if err := os.Truncate(path, int64(c.MaxSizeMiB)<<20); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-time.Hour)
	if err := os.Chtimes(full[1], past, past); err != nil {
		t.Fatal(err)
	}
	testStore(t, c, table)
	if _, err := os.Stat(full[0]); err != nil {
		t.Errorf("the file with the latest row: %v", err)
	}
	if _, err := os.Stat(full[1]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the other: %v", err)
	}
}

// Two servers that begin at the same moment do not write into each other's file.
func TestFileThatAnotherBeginsIsRefused(t *testing.T) {
	c := testConfig(t)
	if err := os.MkdirAll(filepath.Dir(c.Path), 0o755); err != nil {
		t.Fatal(err)
	}
	other, err := os.Create(c.Path) // and nothing is in it yet
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	if !hold(other) {
		t.Fatal("a new file is held")
	}
	if s, err := opened(c, NewHeader(testTable(t, 2)), nil); err == nil || !strings.Contains(err.Error(), "another server begins to write to it") {
		t.Errorf("%v, %v", s, err)
	}
}

// Rows go on in a new file where somebody deletes the one written to, alone or with its
// folder. One that was only given another name is written to as before.
func TestRowsAfterTheFileIsDeleted(t *testing.T) {
	c := testConfig(t)
	s := testStore(t, c, testTable(t, 2))
	writeRow(t, s, 1)
	if err := os.Remove(c.Path); err != nil {
		t.Fatal(err)
	}
	writeRow(t, s, 2)
	if log, err := Load(c.Path); err != nil || log.Len() != 1 {
		t.Fatalf("after the file was deleted: %+v, %v; want 1 row", log, err)
	}
	if err := os.RemoveAll(filepath.Dir(c.Path)); err != nil {
		t.Fatal(err)
	}
	writeRow(t, s, 3)
	moved := c.Path + ".moved"
	if err := os.Rename(c.Path, moved); err != nil {
		t.Fatal(err)
	}
	writeRow(t, s, 4)
	if log, err := Load(moved); err != nil || log.Len() != 2 {
		t.Errorf("after the folder was deleted, and the file moved: %+v, %v; want 2 rows", log, err)
	}
}
