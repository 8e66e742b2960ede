package league

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"gearshift/internal/output"
)

// kept is the form of a file: a fleet's result, with its settings.
type kept struct {
	Settings Settings    `json:"settings"`
	Fleet    FleetResult `json:"fleet"`
}

func (l *League) path(seed uint64) string {
	return filepath.Join(l.Out, fmt.Sprintf("fleet-%d.json", seed))
}

// stored returns the result of the seed that the folder has; false if it has none of these settings.
func (l *League) stored(seed uint64) (f FleetResult, ok bool, err error) {
	if l.Out == "" {
		return f, false, nil
	}
	text, err := os.ReadFile(l.path(seed))
	if errors.Is(err, fs.ErrNotExist) {
		return f, false, nil
	}
	var k kept
	if err == nil {
		if err = json.Unmarshal(text, &k); err != nil {
			err = fmt.Errorf("%s: %w; remove the file to play the fleet again", l.path(seed), err)
		}
	}
	if err != nil {
		return f, false, fmt.Errorf("cannot read the results so far: %w", err)
	}
	was, err := json.Marshal(k.Settings)
	if err != nil {
		return f, false, err
	}
	is, err := json.Marshal(l.Settings)
	return k.Fleet, err == nil && bytes.Equal(was, is), err
}

// store keeps the result in the folder.
func (l *League) store(f FleetResult) error {
	if l.Out == "" {
		return nil
	}
	text, err := json.MarshalIndent(kept{l.Settings, f}, "", "  ")
	if err != nil {
		return err
	}
	return output.Whole(l.path(f.Seed), append(text, '\n'), 0o644)
}
