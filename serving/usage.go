package serving

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"time"

	"gearshift/internal/durable"
	"gearshift/serving/keys"
)

// usageEvery is how often what keys have used is written down.
const usageEvery = 10 * time.Second

// restoreUsage reads what keys have used before a restart. A file that cannot be read as
// such is a fault: to begin from zero would give every key its budgets again.
func (s *Server) restoreUsage(first *live) error {
	file := s.config.UsageFile
	if file == "" || first.ring == nil {
		return nil
	}
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	kept := map[string]keys.Usage{}
	if err == nil {
		err = json.Unmarshal(data, &kept)
	}
	if err != nil {
		return fmt.Errorf("usage_file: cannot read what keys have used from %s: %w; remove the file to begin from zero", file, err)
	}
	first.ring.Restore(kept, time.Now())
	return nil
}

// keepUsage writes down what keys have used, from time to time and at the end.
func (s *Server) keepUsage(ctx context.Context) {
	if s.config.UsageFile == "" {
		return
	}
	tick := time.NewTicker(usageEvery)
	defer tick.Stop()
	var written map[string]keys.Usage
	for ended := false; !ended; {
		select {
		case <-tick.C:
		case <-ctx.Done():
			ended = true
		}
		now := s.live.Load().ring.Usage(time.Now())
		if reflect.DeepEqual(now, written) {
			continue
		}
		if err := writeUsage(s.config.UsageFile, now); err != nil {
			s.log.Error("cannot write down what keys have used: it is lost at a restart", "error", err)
			continue
		}
		written = now
	}
}

// writeUsage replaces the file, whole or not at all.
func writeUsage(file string, usage map[string]keys.Usage) error {
	text, err := json.MarshalIndent(usage, "", "  ")
	if err != nil {
		return err
	}
	return durable.Replace(file, 0o600, func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
