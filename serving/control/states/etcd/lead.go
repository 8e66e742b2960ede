package etcd

import (
	"context"
	"errors"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"gearshift/internal/etcd"
	"gearshift/serving/control/states"
)

// The lease is renewed renewals times in its duration, and this router ceases to act 1/margin of it before it could
// end: clocks differ in their pace, and an order takes time on its way.
const (
	renewals = 4
	margin   = 4
)

// run takes part in the election until the context ends.
func (s *Store) run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.once(ctx); err != nil && ctx.Err() == nil {
			s.noted(err)
			pause(ctx, etcd.Wait(err, s.options.TTL/(2*renewals)))
		}
	}
}

// once waits until no router acts, and acts until the lease is lost.
func (s *Store) once(ctx context.Context) error {
	if err := s.dial(); err != nil {
		return err
	}
	now, err := s.look(ctx)
	if err != nil {
		return err
	}
	s.noted(nil)
	switch {
	case s.mine(now):
		return s.drop(ctx, now.lease)
	case now.leader != "":
		return s.wait(ctx, now)
	}
	return s.lead(ctx, now)
}

// dial makes the client, if that could not log in before because etcd was away.
func (s *Store) dial() (err error) {
	if s.client == nil {
		s.client, err = s.options.Address.Dial()
	}
	return err
}

// mine reports whether the acting router's key is this router's.
func (s *Store) mine(now *seen) bool {
	_, name := parseLeadership(now.leader)
	return name == s.name
}

// drop ends a lease under which this router acted before it lost etcd. A router may then act at once, and not only when
// the lease ends, which etcd prolongs when it starts.
func (s *Store) drop(ctx context.Context, lease clientv3.LeaseID) error {
	_, err := request(ctx, s, "end the last lease", s.options.TTL, func(ctx context.Context) (*clientv3.LeaseRevokeResponse, error) {
		return s.client.Revoke(ctx, lease)
	})
	if errors.Is(err, rpctypes.ErrLeaseNotFound) { // it has ended
		err = nil
	}
	return err
}

// seen holds what was read from etcd at a revision.
type seen struct {
	at           int64
	leader       string // its key's value; empty if no router acts
	lease        clientv3.LeaseID
	term         uint64
	termRevision int64
	last         map[string][]byte
	changed      int64 // the newest revision of a state
}

// look reads the keys of the states and of their leader.
func (s *Store) look(ctx context.Context) (*seen, error) {
	got, err := request(ctx, s, "read the states of controllers", s.options.TTL, func(ctx context.Context) (*clientv3.GetResponse, error) {
		return s.client.Get(ctx, s.prefix, clientv3.WithPrefix())
	})
	if err != nil {
		return nil, err
	}
	now := &seen{at: got.Header.Revision, last: map[string][]byte{}}
	for _, kv := range got.Kvs {
		switch key := string(kv.Key[len(s.prefix):]); {
		case key == leaderKey:
			now.leader, now.lease = string(kv.Value), clientv3.LeaseID(kv.Lease)
		case key == termKey:
			now.term, _ = parseLeadership(string(kv.Value))
			now.termRevision = kv.ModRevision
		case len(key) > len(stateKeys) && key[:len(stateKeys)] == stateKeys:
			now.last[key[len(stateKeys):]] = kv.Value
			now.changed = max(now.changed, kv.ModRevision)
		}
	}
	s.mu.Lock()
	_, s.leader = parseLeadership(now.leader)
	s.mu.Unlock()
	return now, nil
}

// wait follows the states that another router saves, until that no longer acts. It also looks at intervals, since a
// watch does not report that it is cut off.
func (s *Store) wait(ctx context.Context, now *seen) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	watch := s.client.Watch(clientv3.WithRequireLeader(ctx), s.prefix, clientv3.WithPrefix(), clientv3.WithRev(now.at+1))
	tick := time.NewTicker(s.options.TTL / renewals)
	defer tick.Stop()
	var changed int64
	for {
		if now.changed != changed {
			changed = now.changed
			term, _ := parseLeadership(now.leader)
			if err := s.turn(false, term, now.last); err != nil {
				s.log.Error("the state that another router has saved cannot be followed", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case got, open := <-watch:
			if !open || got.Err() != nil {
				watch = nil // compacted, for example: the next look reads what it missed
			}
		case <-tick.C:
		}
		var err error
		if now, err = s.look(ctx); err != nil || now.leader == "" || s.mine(now) {
			return err
		}
	}
}

// lead begins to act unless another router is first, and acts until the lease is lost.
func (s *Store) lead(ctx context.Context, now *seen) error {
	sent := time.Now()
	lease, err := request(ctx, s, "get a lease", s.options.TTL, func(ctx context.Context) (*clientv3.LeaseGrantResponse, error) {
		return s.client.Grant(ctx, max(1, int64((s.options.TTL+time.Second-1)/time.Second)))
	})
	if err != nil {
		return err
	}
	defer s.resign(lease.ID)
	term := max(now.term+1, states.FirstTerm(time.Now()))
	key := s.prefix + leaderKey
	out, err := request(ctx, s, "begin to act", s.options.TTL, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).
			If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0), clientv3.Compare(clientv3.ModRevision(s.prefix+termKey), "=", now.termRevision)).
			Then(clientv3.OpPut(key, leadership(term, s.name), clientv3.WithLease(lease.ID)), clientv3.OpPut(s.prefix+termKey, leadership(term, s.name)),
				clientv3.OpGet(s.prefix+stateKeys, clientv3.WithPrefix())).Commit()
	})
	if err != nil || !out.Succeeded {
		return err
	}
	last := map[string][]byte{}
	for _, kv := range out.Responses[2].GetResponseRange().Kvs {
		last[string(kv.Key[len(s.prefix+stateKeys):])] = kv.Value
	}
	if err := s.turn(true, term, last); err != nil {
		s.log.Error("this router cannot go on from the saved state, and stands by", "error", err)
		s.resign(lease.ID)
		pause(ctx, 2*s.options.TTL) // lets another router act
		return nil
	}
	s.hold(ctx, lease.ID, term, out.Header.Revision, sent, time.Duration(lease.TTL)*time.Second)
	return nil
}

// hold acts and renews the lease, until the lease is lost.
func (s *Store) hold(ctx context.Context, lease clientv3.LeaseID, term uint64, revision int64, sent time.Time, ttl time.Duration) {
	until := sent.Add(ttl - ttl/margin)
	s.mu.Lock()
	s.until, s.term, s.revision, s.leader = until, term, revision, s.name
	s.mu.Unlock()
	s.log.Info("this router acts: controllers begin", "term", term, "state", s.options.Address.String())
	if s.begun != nil {
		s.begun()
	}
	for ctx.Err() == nil && time.Now().Before(until) {
		if !s.Acts() { // another router acts, so that a state could not be saved
			break
		}
		sent := time.Now()
		_, err := request(ctx, s, "renew the lease", time.Until(until), func(ctx context.Context) (*clientv3.LeaseKeepAliveResponse, error) {
			return s.client.KeepAliveOnce(ctx, lease)
		})
		if errors.Is(err, rpctypes.ErrLeaseNotFound) {
			break
		}
		if err == nil {
			until = sent.Add(ttl - ttl/margin)
			s.mu.Lock()
			if !s.until.IsZero() {
				s.until = until
			}
			s.mu.Unlock()
		}
		pause(ctx, min(ttl/renewals, time.Until(until)))
	}
	s.standBy()
	if ctx.Err() == nil {
		s.log.Error("this router acts no longer: its lease could not be renewed", "term", term)
	}
	if err := s.turn(false, term, nil); err != nil {
		s.log.Error("controllers do not stand by in order", "error", err)
	}
}

// resign ends the lease, so that another router may act at once. This one no longer acts by then.
func (s *Store) resign(lease clientv3.LeaseID) {
	s.standBy()
	ctx, cancel := context.WithTimeout(s.client.Ctx(), s.options.TTL/2)
	defer cancel()
	_, _ = s.client.Revoke(ctx, lease)
}

// pause waits for the duration, or until the context ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
