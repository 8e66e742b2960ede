package etcd

import (
	"context"
	"errors"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	cluster "gearshift/internal/etcd"
)

// Follower reacts to changes of a store, and to its loss and return. Calls come one at a time.
type Follower struct {
	Changed func() error    // called first with the present store; called again soon if etcd is away
	Away    func(err error) // once, until it is back
	Back    func()          // before the call of Changed that follows
	// Every sets the time between two checks that etcd answers; zero means 1 s. A watch reports changes at once.
	Every time.Duration
}

// Follow calls the follower until the context ends. After a watch has broken, or etcd has compacted what it needs,
// Follow reads the directory and watches again.
func (r *Records) Follow(ctx context.Context, f Follower) error {
	if f.Every == 0 {
		f.Every = time.Second
	}
	tick := time.NewTicker(f.Every)
	defer tick.Stop()
	x := following{session: &session{Records: r}, Follower: f, seen: -1}
	c, err := x.dial(ctx)
	if c == nil {
		return err
	}
	defer func() { _ = c.Close() }()
	x.client = c
	var watch clientv3.WatchChan
	for {
		next, ok := x.look(ctx)
		if ok && watch == nil {
			watch = c.Watch(clientv3.WithRequireLeader(ctx), r.Address.Prefix+directoryKey, clientv3.WithRev(next))
		}
		select {
		case <-ctx.Done():
			return nil
		case got, open := <-watch:
			if !open || got.Err() != nil {
				watch = nil // the next look begins another, after a wait
				select {
				case <-ctx.Done():
				case <-tick.C:
				}
			}
		case <-tick.C:
		}
	}
}

// following is a follower with its last calls.
type following struct {
	*session
	Follower
	seen int64 // revision of the directory; 0 if there is none, -1 before the first look
	away bool
}

// dial makes a client. If the client logs in, dial waits for etcd, and returns nil if the context ends.
func (x *following) dial(ctx context.Context) (*clientv3.Client, error) {
	for {
		c, err := x.Address.Dial()
		if err == nil || !errors.Is(err, cluster.ErrAway) {
			return c, err
		}
		if !x.away {
			x.away = true
			x.Away(cluster.Explain(err))
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(cluster.Wait(err, x.Every)):
		}
	}
}

// look reads the revision of the directory, and returns the one after it.
func (x *following) look(ctx context.Context) (next int64, ok bool) {
	got, err := within(x.session, "read the directory", func(within context.Context) (*clientv3.GetResponse, error) {
		return x.client.Get(within, x.Address.Prefix+directoryKey, clientv3.WithKeysOnly())
	})
	if ctx.Err() != nil {
		return 0, false
	}
	if err != nil {
		if !x.away {
			x.away = true
			x.Away(err)
		}
		return 0, false
	}
	if x.away {
		x.away, x.seen = false, -1
		x.Back()
	}
	now := int64(0)
	if len(got.Kvs) > 0 {
		now = got.Kvs[0].ModRevision
	}
	if now != x.seen {
		x.seen = now
		if err := x.Changed(); errors.Is(err, cluster.ErrAway) {
			x.seen = -1
		}
	}
	return got.Header.Revision + 1, true
}
