package experience

import (
	"os"
	"path/filepath"
	"testing"
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
