package checkpoints

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// tablesBucket holds tables that were worked out beforehand, by name. A store has it once one
// is put.
var tablesBucket = []byte("tables")

// StoredTable is something that was worked out beforehand, such as the strategies of a model's
// jobs. It can be made again at any time.
type StoredTable struct {
	// Of identifies what it was made of: of another it is stale.
	Of   string
	Data []byte
}

// tableHead stands before a table's bytes, in a line.
type tableHead struct {
	Format int    `json:"format"`
	Of     string `json:"of"`
}

// PutTable stores a table in place of the one of that name. It creates the store, and the
// folder it lies in, where there is none.
func (s *Store) PutTable(name string, table StoredTable) error {
	if err := checkRun(name); err != nil {
		return fmt.Errorf("cannot store table: %w", err)
	}
	head, err := json.Marshal(tableHead{storeFormat, table.Of})
	if err != nil {
		return fmt.Errorf("cannot store table %q: %w", name, err)
	}
	if err := s.create(); err != nil {
		return err
	}
	return s.update(func(t *tx) error {
		at, err := t.root.create(tablesBucket)
		if err != nil {
			return s.corrupted(err.Error())
		}
		return at.Put([]byte(name), seal(slices.Concat(head, []byte("\n"), table.Data)))
	})
}

// GetTable loads a table. None of the name, and one of a newer format, is [ErrNotFound].
func (s *Store) GetTable(name string) (table StoredTable, err error) {
	err = s.view(func(t *tx) error {
		none := &fault{ErrNotFound, fmt.Sprintf("no table %q in store %s", name, s.Path)}
		at := t.root.bucket(tablesBucket)
		if at == nil {
			return none
		}
		data := at.Get([]byte(name))
		if data == nil {
			return none
		}
		head, body, err := openTable(data)
		if err != nil {
			return fmt.Errorf("cannot load table %q: %w", name, s.corrupted(err.Error()))
		}
		if head.Format > storeFormat {
			return none
		}
		table = StoredTable{Of: head.Of, Data: bytes.Clone(body)}
		return nil
	})
	return table, err
}

// openTable takes a record apart.
func openTable(data []byte) (head tableHead, body []byte, err error) {
	data, err = unseal(data)
	if err != nil {
		return head, nil, err
	}
	text, body, _ := bytes.Cut(data, []byte("\n"))
	return head, body, json.Unmarshal(text, &head)
}

// tables checks those that are stored.
func (h *Health) tables(root buckets) {
	at := root.bucket(tablesBucket)
	if at == nil {
		return
	}
	_ = at.ForEach(func(key, data []byte) error { // which fails only as the function does
		h.Tables++
		if _, _, err := openTable(data); err != nil {
			h.fault("table %s: %v", key, err)
		}
		return nil
	})
}
