package checkpoints

import (
	"errors"

	"gearshift/internal/etcd"
)

// What can be wrong with a store, or with what is asked of it. The errors that
// wrap these say which store, policy or run, and what to do about it.
var (
	// ErrNotFound: there is no such store, policy, version, alias or run.
	ErrNotFound = errors.New("not found in the checkpoint store")
	// ErrLocked: another process kept the store open for longer than
	// [Store.Timeout].
	ErrLocked = errors.New("the checkpoint store is locked")
	// ErrCorrupted: the file is no checkpoint store, or what was read from it
	// is not what was written.
	ErrCorrupted = errors.New("the checkpoint store is corrupted")
	// ErrAway reports that etcd, which holds the store, does not answer.
	ErrAway = etcd.ErrAway
	// ErrProduction: the version is in production, and removal was not forced.
	ErrProduction = errors.New("the policy is in production")
	// ErrInvalidName: a policy's, run's or alias's name, or a reference, is
	// malformed.
	ErrInvalidName = errors.New("invalid name")
)

// What [Decode] can find wrong, and, of ErrNewerFormat, every operation of a
// [Store] too.
var (
	// ErrNotCheckpoint: the bytes do not begin as a checkpoint does.
	ErrNotCheckpoint = errors.New("not a checkpoint")
	// ErrNewerFormat: a newer version of this program wrote the data.
	ErrNewerFormat = errors.New("written in a newer format")
	// ErrTruncated: the bytes end too early.
	ErrTruncated = errors.New("the checkpoint is truncated")
	// ErrChecksum: the bytes are not those that Encode made.
	ErrChecksum = errors.New("checksum mismatch")
	// ErrContent: the checkpoint was written as it is, and makes no policy.
	ErrContent = errors.New("the checkpoint makes no policy")
)

// fault is an error whose text stands alone, and that errors.Is a sentinel.
type fault struct {
	kind error
	text string
}

func (f *fault) Error() string { return f.text }

func (f *fault) Unwrap() error { return f.kind }
