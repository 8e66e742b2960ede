package checkpoints

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The aliases. Retention never removes what they stand for.
const (
	// Production is the version that serves.
	Production = "production"
	// Previous is the version that served before it: where Rollback returns to.
	Previous = "previous"
	// Newest is the version stored last. As any version is that for a while, no
	// [Entry] lists it among its aliases.
	Newest = "newest"
)

// maxName bounds the names of policies and runs, in bytes.
const maxName = 200

// Ref points at a policy in a store. At most one of Version and Alias is set;
// with neither it means the version in production, or the newest if none is.
type Ref struct {
	Name    string
	Version int    // counted from 1; 0: not given
	Alias   string // "": not given
}

// ParseRef reads NAME, NAME@VERSION or NAME@ALIAS. Its errors are
// [ErrInvalidName].
func ParseRef(s string) (Ref, error) { return parseRef(policies.noun, s) }

// ParsePredictorRef is ParseRef for what [Store.Predictors] holds.
func ParsePredictorRef(s string) (Ref, error) { return parseRef(predictors.noun, s) }

// parseRef reads a reference to what is called by the noun.
func parseRef(noun, s string) (Ref, error) {
	name, rest, at := strings.Cut(s, "@")
	ref := Ref{Name: name}
	if err := checkName(noun, name); err != nil {
		return Ref{}, fmt.Errorf("cannot read %s reference %q: %w", noun, s, err)
	}
	if !at {
		return ref, nil
	}
	if rest != "" && strings.Trim(rest, "0123456789") == "" {
		v, err := strconv.Atoi(rest)
		if err != nil || v < 1 || rest[0] == '0' {
			return Ref{}, fmt.Errorf("cannot read %s reference %q: %w", noun, s,
				&fault{ErrInvalidName, fmt.Sprintf("%q is not a version: versions are 1, 2, 3 and so on", rest)})
		}
		ref.Version = v
		return ref, nil
	}
	if err := checkName("alias", rest); err != nil {
		return Ref{}, fmt.Errorf("cannot read %s reference %q: %w", noun, s, err)
	}
	ref.Alias = rest
	return ref, nil
}

// String is what ParseRef reads.
func (r Ref) String() string {
	switch {
	case r.Version != 0:
		return fmt.Sprintf("%s@%d", r.Name, r.Version)
	case r.Alias != "":
		return r.Name + "@" + r.Alias
	}
	return r.Name
}

// checkName holds names to what needs no quoting in a shell, a URL or a
// reference. A leading letter or digit keeps them apart from flags.
func checkName(what, name string) error {
	bad := func(why string) error {
		return &fault{ErrInvalidName, fmt.Sprintf("%s name %q %s", what, name, why)}
	}
	switch {
	case name == "":
		return &fault{ErrInvalidName, fmt.Sprintf("the %s name is missing", what)}
	case len(name) > maxName:
		return bad(fmt.Sprintf("is longer than %d bytes", maxName))
	case strings.ContainsFunc(name, notInName):
		return bad("may hold only a-z, 0-9, '.', '_' and '-'")
	case strings.IndexByte("._-", name[0]) >= 0:
		return bad("must begin with a letter or a digit")
	}
	return nil
}

func notInName(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r))
}

// checkRun is laxer than checkName: a run's name is made by a program from
// whatever identifies a run, and is never typed.
func checkRun(run string) error {
	if run == "" || len(run) > maxName || !utf8.ValidString(run) ||
		strings.ContainsFunc(run, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return &fault{ErrInvalidName, fmt.Sprintf("run name %q is not 1 to %d bytes of printable text", run, maxName)}
	}
	return nil
}
