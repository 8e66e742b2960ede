package serving

import (
	"context"
	"maps"
	"time"

	"gearshift/serving/files"
)

// watched are the files whose change is worth a reload.
func (s *Server) watched() []string {
	list := s.live.Load().files()
	if s.reloader != nil {
		list = append(list, s.reloader.Files()...)
	}
	return list
}

// watch reloads when files hold something else than before and have then stayed so for a
// period, so that none is read while it is being written. It looks rather than waits to be
// told: files that are links to others, as Kubernetes mounts them, and those on
// network drives, tell nobody. It returns when the context ends.
func (s *Server) watch(ctx context.Context) {
	var looker files.Looker
	seen := looker.Look(ctx, s.watched())
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
		now := looker.Look(ctx, s.watched())
		switch {
		case !maps.Equal(now, seen):
			seen, changed = now, true
		case changed:
			changed = false
			_, _ = s.Reload(byFile) // which has told the log
		}
	}
}
