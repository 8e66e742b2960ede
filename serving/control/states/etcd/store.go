// Package etcd keeps the states of controllers in etcd, where several routers share them, and elects the router that
// acts.
//
// The acting router has put a key under its own lease, with a term, one more than the last. It renews the lease. By its
// own clock, it ceases to act before the lease could end without the last renewal, and so before another router can
// begin. It saves a state only in an etcd transaction that compares the key.
package etcd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"gearshift/internal/etcd"
	"gearshift/serving/control/states"
)

// Options configure a Store.
type Options struct {
	Address etcd.Address
	// TTL sets the acting router's lease after its last renewal; zero means 2 s. etcd may grant a longer one.
	TTL time.Duration
	Log *slog.Logger
}

// Store implements [states.Store]. Its methods may be called from any goroutine.
type Store struct {
	options Options
	prefix  string
	client  *clientv3.Client // nil until etcd has let it log in; until then this router does not act
	name    string           // of this router, for people
	log     *slog.Logger
	stop    context.CancelFunc
	done    sync.WaitGroup

	mu       sync.Mutex // protects what follows
	kinds    map[string]*state
	until    time.Time // the end of this router's right to act; zero: it stands by
	term     uint64    // in which it acts, or acted last
	revision int64     // at which its key was created
	leader   string    // the router that acts, for people
	away     bool
	begun    func() // runs when this router begins to act
}

// The keys below the prefix of an address.
const (
	controlKeys = "control/"
	leaderKey   = "leader" // under the lease of the router that acts: its term and its name
	termKey     = "term"   // the last one
	stateKeys   = "state/"
)

// New makes the store of an address. It takes part in the election after Begin.
func New(o Options) (*Store, error) {
	o.TTL = cmp.Or(o.TTL, 2*time.Second)
	client, err := o.Address.Dial()
	if err != nil && !errors.Is(err, etcd.ErrAway) {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		host = "router"
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Store{
		options: o, prefix: o.Address.Prefix + controlKeys, client: client, log: o.Log, stop: func() {},
		name: fmt.Sprintf("%s/%d/%x", host, os.Getpid(), time.Now().UnixNano()), kinds: map[string]*state{},
	}, nil
}

// Open implements [states.Store]. It does not wait for etcd: the saved state comes with the turn in which this router
// acts.
func (s *Store) Open(kind string, _ time.Time) (states.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kinds[kind] != nil {
		return nil, fmt.Errorf("cannot open the %s state at %s: %w", kind, s.options.Address, states.ErrHeld)
	}
	k := &state{store: s, kind: kind}
	s.kinds[kind] = k
	return k, nil
}

// Acts reports whether this router may act now.
func (s *Store) Acts() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.acts()
}

func (s *Store) acts() bool { return time.Now().Before(s.until) }

// Term returns the term in which this router acts, or acted last; 0 if it never has.
func (s *Store) Term() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.term
}

// Leader names the acting router; empty if none is known.
func (s *Store) Leader() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leader
}

// Begin takes part in the election from now on. Begun is called whenever this router begins to act.
func (s *Store) Begin(begun func()) {
	s.begun = begun
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.done.Go(func() { s.run(ctx) })
}

// Close ceases to act, and lets another router act at once.
func (s *Store) Close() error {
	s.stop()
	s.done.Wait()
	if s.client == nil {
		return nil
	}
	return s.client.Close()
}

// request runs a request to etcd within a time limit.
func request[T any](ctx context.Context, s *Store, what string, within time.Duration, do func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	out, err := do(ctx)
	if err != nil {
		err = s.options.Address.Away(what, err)
	}
	return out, err
}

// state is the state of one kind of controllers. It implements [states.Shared].
type state struct {
	store  *Store
	kind   string
	follow func(states.Turn) error // protected by the store's mutex
}

// Term, Path, Last and Trouble implement [states.State].
func (k *state) Term() uint64    { return k.store.Term() }
func (k *state) Path() string    { return k.store.options.Address.String() }
func (k *state) Last() []byte    { return nil }
func (k *state) Trouble() string { return "" }

// Follow implements [states.Shared].
func (k *state) Follow(f func(states.Turn) error) {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	k.follow = f
}

// Save implements [states.State]. It stores the state only while this router's key exists.
func (k *state) Save(text []byte) error {
	s := k.store
	s.mu.Lock()
	acts, revision := s.acts(), s.revision
	s.mu.Unlock()
	if !acts {
		return states.ErrStandsBy
	}
	out, err := request(s.client.Ctx(), s, "save the "+k.kind+" state", s.options.TTL, func(ctx context.Context) (*clientv3.TxnResponse, error) {
		return s.client.Txn(ctx).If(clientv3.Compare(clientv3.CreateRevision(s.prefix+leaderKey), "=", revision)).
			Then(clientv3.OpPut(s.prefix+stateKeys+k.kind, string(text))).Commit()
	})
	if err == nil && !out.Succeeded {
		s.standBy()
		err = states.ErrStandsBy
	}
	return err
}

// Close implements [states.State].
func (k *state) Close() error {
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	delete(k.store.kinds, k.kind)
	return nil
}

// followers returns the followers of turns, by kind.
func (s *Store) followers() map[string]func(states.Turn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]func(states.Turn) error{}
	for kind, k := range s.kinds {
		if k.follow != nil {
			out[kind] = k.follow
		}
	}
	return out
}

// turn gives all kinds their turn, and returns their errors.
func (s *Store) turn(acts bool, term uint64, last map[string][]byte) (err error) {
	list := s.followers()
	for _, kind := range slices.Sorted(maps.Keys(list)) {
		if e := list[kind](states.Turn{Acts: acts, Term: term, Last: last[kind]}); e != nil {
			err = errors.Join(err, e)
		}
	}
	return err
}

// standBy ends this router's right to act.
func (s *Store) standBy() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
}

// noted records whether etcd answers, and logs changes.
func (s *Store) noted(err error) {
	s.mu.Lock()
	was := s.away
	s.away = err != nil
	s.mu.Unlock()
	switch {
	case err != nil && !was:
		s.log.Error("the states of controllers are away: none acts until they are back", "error", err)
	case err == nil && was:
		s.log.Info("the states of controllers are back", "state", s.options.Address.String())
	}
}

// leadership encodes the acting router's key.
func leadership(term uint64, name string) string { return strconv.FormatUint(term, 10) + " " + name }

func parseLeadership(text string) (term uint64, name string) {
	number, name, _ := strings.Cut(text, " ")
	term, _ = strconv.ParseUint(number, 10, 64) // 0 for another program's value
	return term, name
}
