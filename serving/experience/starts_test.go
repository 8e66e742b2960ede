package experience

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Starts after which nobody asks push no row out, however many they are.
func TestIdleStartsKeepTheRows(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	c.MaxFiles = 3
	for start := range 8 {
		s := testStore(t, c, table)
		if start == 0 || start == 3 {
			s.Add(testRow(table, 1))
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	log, err := Load(paths...)
	if err != nil || len(paths) != 3 || len(log.Runs) != 2 || log.Len() != 2 {
		t.Errorf("%v: %+v, %v", paths, log, err)
	}
}

// A server that does not come to serve leaves nothing, and moves nothing away.
func TestAStoreThatNeverBeginsLeavesNothing(t *testing.T) {
	c := testConfig(t)
	s, err := New(c, NewHeader(testTable(t, 2)), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Dir(c.Path)); !os.IsNotExist(err) {
		t.Errorf("it left a folder: %v", err)
	}
}

// A server that dies and comes back again and again leaves many short files. They push
// out no rows as long as there is room.
func TestACrashLoopKeepsTheRows(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	c.MaxFiles, c.MaxSizeMiB = 3, 1
	const starts = 30
	for range starts {
		s := testStore(t, c, table)
		s.Add(testRow(table, 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		file, err := os.OpenFile(c.Path, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteString(`{"half`) // as a crash leaves it
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
	}
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	log, err := Load(paths...)
	if err != nil || log.Len() != starts {
		t.Fatalf("%d files: %+v, %v; want all %d rows", len(paths), log, err, starts)
	}
}

// However many files there are, what they hold together is bounded, and the oldest go.
func TestTheFilesTogetherAreBounded(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	c.MaxFiles, c.MaxSizeMiB = 3, 1
	for range 40 {
		s := testStore(t, c, table)
		s.Add(testRow(table, 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(c.Path, 200<<10); err != nil {
			t.Fatal(err)
		}
	}
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	if len(paths) != 11 { // ten of 200 KiB fit into 2 MiB, beside the last
		t.Errorf("%d files of 200 KiB, want 11 within 3 MiB", len(paths))
	}
}

// A disk that hangs does not hold up the end of the server.
func TestCloseEndsThoughTheDiskHangs(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	s, err := New(c, NewHeader(table), nil)
	if err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe() // which nobody reads
	if err != nil {
		t.Fatal(err)
	}
	s.files.file, s.begun = writer, true
	go s.write()
	for id := range uint64(c.Buffer) {
		s.Add(testRow(table, id+1))
	}
	if err := s.Close(); err == nil {
		t.Error("rows that nobody has taken count as written")
	}
	if err := reader.Close(); err != nil { // the write ends
		t.Fatal(err)
	}
	<-s.ended
}

// A disk that is full does not keep a server from starting: rows are dropped and counted, and written once
// there is room. A path that is no place for a log is an error.
func TestAStartOnAFullDisk(t *testing.T) {
	var logged bytes.Buffer
	table, c := testTable(t, 2), testConfig(t)
	s, err := New(c, NewHeader(table), slog.New(slog.NewTextHandler(&logged, nil)))
	if err != nil {
		t.Fatal(err)
	}
	full := true
	s.files.create = func(path string) (*os.File, error) {
		if full {
			return os.OpenFile("/dev/full", os.O_WRONLY, 0)
		}
		return create(path)
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	if err := s.Begin(); err != nil {
		t.Fatalf("the start fails: %v", err)
	}
	s.Add(testRow(table, 1))
	for s.Stats().Dropped == 0 {
		time.Sleep(time.Millisecond)
	}
	full = false
	s.Add(testRow(table, 2))
	if log := closed(t, s); log.Len() != 1 || s.Stats() != (Stats{1, 1}) {
		t.Errorf("%d rows, %+v; want the second one", log.Len(), s.Stats())
	}
	for _, want := range []string{"cannot write experience", "no space left on device", "can be written again"} {
		if !strings.Contains(logged.String(), want) {
			t.Errorf("%q is not logged: %s", want, &logged)
		}
	}
	c.Path = filepath.Dir(c.Path)
	if _, err := opened(c, NewHeader(table), nil); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("a folder as the path: %v", err)
	}
}

// A clock that was ahead and is set back does not keep the files of that time in place of newer ones.
func TestFilesOfAClockThatWasAhead(t *testing.T) {
	table, c := testTable(t, 2), testConfig(t)
	c.MaxFiles, c.MaxSizeMiB = 3, 1
	ahead := time.Now().AddDate(10, 0, 0)
	for start := range 20 {
		s := testStore(t, c, table)
		s.Add(testRow(table, 1))
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(c.Path, 200<<10); err != nil {
			t.Fatal(err)
		}
		if start < 5 {
			if err := os.Chtimes(c.Path, ahead, ahead); err != nil {
				t.Fatal(err)
			}
		}
	}
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Path), "*"))
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.ModTime().After(time.Now().Add(time.Hour)) {
			t.Errorf("%s is kept in place of newer files (%v)", path, err)
		}
	}
}
