package access

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"time"

	"gearshift/internal/durable"
)

// usageEvery is how often what keys have used is written down.
const usageEvery = 10 * time.Second

// RestoreUsage reads from the file what the ring's keys have used before a restart. A file
// that cannot be read as such is a fault: to begin from zero would give every key its budgets
// again. An empty name is no file.
func (r *Ring) RestoreUsage(file string) error {
	if file == "" || r == nil {
		return nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	kept := map[string]Usage{}
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		return fmt.Errorf("usage_file: cannot read what keys have used from %s: %w; remove the file to begin from zero", file, err)
	}
	r.Restore(kept, time.Now())
	return nil
}

// KeepUsage writes to the file what the keys in force have used, from time to time and when the
// context ends. An empty name is no file.
func KeepUsage(ctx context.Context, file string, ring func() *Ring, log *slog.Logger) {
	if file == "" {
		return
	}
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	var written map[string]Usage
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		now := ring().Usage(time.Now())
		if reflect.DeepEqual(now, written) {
			continue
		}
		if err := writeUsage(file, now); err != nil {
			log.Error("cannot write down what keys have used: it is lost at a restart", "error", err)
			continue
		}
		written = now
	}
}

// writeUsage replaces the file, whole or not at all.
func writeUsage(file string, usage map[string]Usage) error {
	text, err := json.MarshalIndent(usage, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(file, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
