package serving

import (
	"context"
	"maps"
	"os"
	"time"
)

// look is what a file looked like; the zero value is a file that is not there.
type look struct {
	modified time.Time
	size     int64
}

// watched are the files whose change is worth a reload, as they look now.
func (s *Server) watched() map[string]look {
	list := s.live.Load().files()
	if s.steward != nil {
		list = append(list, s.steward.Files()...)
	}
	seen := make(map[string]look, len(list))
	for _, name := range list {
		seen[name] = look{}
		if info, err := os.Stat(name); err == nil { // of a link, what it leads to
			seen[name] = look{info.ModTime(), info.Size()}
		}
	}
	return seen
}

// watch reloads when files have changed and then stood still for a period, so
// that none is read while it is being written. It looks rather than waits to be
// told: files that are links to others, as Kubernetes mounts them, and those on
// network drives, tell nobody. It returns when the context ends.
func (s *Server) watch(ctx context.Context) {
	seen := s.watched()
	if s.config.Watch == 0 || len(seen) == 0 {
		return
	}
	tick := time.NewTicker(s.config.Watch)
	defer tick.Stop()
	changed := true // since they were first read, for all that is known
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := s.watched()
		switch {
		case !maps.Equal(now, seen):
			seen, changed = now, true
		case changed:
			changed = false
			_, _ = s.Reload(byFile) // which has told the log
		}
	}
}
