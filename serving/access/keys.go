package access

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"gearshift/serving/config/setting"
)

// Key is one client's key as it is kept: a line of JSON in the keys file.
type Key struct {
	Name string `json:"name"`
	// Hash is the SHA-256 of the secret. A hash that is slow on purpose would add
	// nothing: it makes guessable passwords dear to guess, and a secret of 256
	// random bits cannot be guessed at any price. It would cost each request, and
	// let strangers buy the router's time with made-up keys.
	Hash Hash `json:"sha256"`
	Limits
	Grants
	Created time.Time `json:"created,omitzero"`

	line int // of the file that it was read from
}

// At is the number of the line that the key was read from.
func (k Key) At() int { return k.line }

// Grants is what a key may ask for. An empty list allows everything.
type Grants struct {
	// Classes are those of the requests that it may send; the first is that of a request
	// that names none.
	Classes []string `json:"classes,omitempty"`
	// Models are those that may answer, whether the client or the policy chooses.
	Models []string `json:"models,omitempty"`
}

// Check names what is wrong with the grants.
func (g Grants) Check() error {
	for _, x := range []struct {
		key  string
		list []string
	}{{"classes", g.Classes}, {"models", g.Models}} {
		for i, name := range x.list {
			if name == "" || len(name) > 128 || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
				return fmt.Errorf("%s: %q is not a name; want 1 to 128 characters without spaces", x.key, name)
			}
			if slices.Contains(x.list[:i], name) {
				return fmt.Errorf("%s: %q is listed twice", x.key, name)
			}
		}
	}
	return nil
}

// SameKeys reports whether both lists are the same keys in the same order.
func SameKeys(a, b []Key) bool {
	return slices.EqualFunc(a, b, func(x, y Key) bool { return bytes.Equal(x.Line(), y.Line()) })
}

// Limits is how much a key may ask. A zero is no limit.
type Limits struct {
	// Rate is in requests per second, over time.
	Rate float64 `json:"rate,omitempty"`
	// Burst is how many requests may come at once after a pause; zero stands for
	// one second's worth.
	Burst int `json:"burst,omitempty"`
	// Concurrency is of requests at the same time.
	Concurrency int `json:"concurrency,omitempty"`
	// TokensPerDay and TokensPerMonth bound the tokens of prompts and answers together,
	// by the calendar of UTC.
	TokensPerDay   int64 `json:"tokens_per_day,omitempty"`
	TokensPerMonth int64 `json:"tokens_per_month,omitempty"`
}

// Check names what is wrong with the limits.
func (l Limits) Check() error {
	switch {
	case !(l.Rate >= 0 && l.Rate <= 1e6):
		return fmt.Errorf("rate: %v; want requests per second, at most 1000000, or 0 for no limit", l.Rate)
	case l.Burst < 0 || l.Burst > 1e6:
		return fmt.Errorf("burst: %d; want a number of requests, at most 1000000, or 0 for one second's worth", l.Burst)
	case l.Burst > 0 && l.Rate == 0:
		return fmt.Errorf("burst: %d has no meaning without a rate", l.Burst)
	case l.TokensPerDay < 0 || l.TokensPerDay > 1e15:
		return fmt.Errorf("tokens_per_day: %d; want a number of tokens, at most 1e15, or 0 for no limit", l.TokensPerDay)
	case l.TokensPerMonth < 0 || l.TokensPerMonth > 1e15:
		return fmt.Errorf("tokens_per_month: %d; want a number of tokens, at most 1e15, or 0 for no limit", l.TokensPerMonth)
	case l.Concurrency < 0 || l.Concurrency > 1e6:
		return fmt.Errorf("concurrency: %d; want a number of requests, at most 1000000, or 0 for no limit", l.Concurrency)
	}
	return nil
}

// burst is the depth of the bucket.
func (l Limits) burst() int {
	if l.Burst > 0 {
		return l.Burst
	}
	return max(1, int(math.Ceil(l.Rate)))
}

// Hash is what is kept of a secret. Its text is hexadecimal.
type Hash [sha256.Size]byte

// HashOf is the hash of a secret.
func HashOf(secret string) Hash { return sha256.Sum256([]byte(secret)) }

// MarshalText implements [encoding.TextMarshaler].
func (h Hash) MarshalText() ([]byte, error) { return hex.AppendEncode(nil, h[:]), nil }

// UnmarshalText implements [encoding.TextUnmarshaler]. The error does not repeat
// the text, which might be a secret in the wrong place.
func (h *Hash) UnmarshalText(text []byte) error {
	if n, err := hex.Decode(h[:], text[:min(len(text), 2*sha256.Size)]); err != nil || n != len(h) || len(text) != 2*sha256.Size {
		return errors.New("sha256: want the 64 hexadecimal digits of a key's hash; gearshift key new writes them")
	}
	return nil
}

// prefix says what a secret is to people and scanners that find it.
const prefix = "gs-"

// NewKey makes a key, and the secret that it is the hash of, which is kept nowhere.
func NewKey(name string, l Limits, created time.Time) (k Key, secret string, err error) {
	if err := CheckKeyName(name); err != nil {
		return Key{}, "", err
	}
	if err := l.Check(); err != nil {
		return Key{}, "", err
	}
	var b [32]byte
	rand.Read(b[:])
	secret = prefix + base64.RawURLEncoding.EncodeToString(b[:])
	return Key{Name: name, Hash: HashOf(secret), Limits: l, Created: created.UTC().Truncate(time.Second)}, secret, nil
}

// nameForm keeps names fit for logs and the labels of metrics.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// CheckKeyName refuses what cannot name a key.
func CheckKeyName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("name: %q cannot name a key; want letters, digits, '.', '_' and '-', at most 64", name)
	}
	return nil
}

// Line is the key as a line of a keys file.
func (k Key) Line() []byte {
	line, err := json.Marshal(k)
	if err != nil { // Check has been passed: every number is finite
		panic(err)
	}
	return append(line, '\n')
}

// ParseKeys reads a keys file: a key a line, between empty lines and those that begin
// with #. The error names every fault as "file:line: key: message".
func ParseKeys(file string, data []byte) ([]Key, error) {
	var keys []Key
	var faults []error
	names, hashes := map[string]int{}, map[Hash]int{}
	number := 0
	for line := range bytes.Lines(setting.Text(data)) {
		number++
		if line = bytes.TrimSpace(line); len(line) == 0 || line[0] == '#' {
			continue
		}
		k, err := parseLine(line)
		switch {
		case err != nil:
		case names[k.Name] > 0:
			err = fmt.Errorf("name: %q has a key already, on line %d", k.Name, names[k.Name])
		case hashes[k.Hash] > 0:
			err = fmt.Errorf("sha256: the same key as on line %d", hashes[k.Hash])
		}
		if err != nil {
			faults = append(faults, fmt.Errorf("%s:%d: %w", file, number, err))
			continue
		}
		names[k.Name], hashes[k.Hash], k.line = number, number, number
		keys = append(keys, k)
	}
	return keys, errors.Join(faults...)
}

func parseLine(line []byte) (Key, error) {
	var k Key
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&k); err != nil {
		return k, fault(err)
	}
	if d.More() {
		return k, errors.New("want one key on a line")
	}
	if k.Hash == (Hash{}) {
		return k, errors.New("sha256: missing")
	}
	return k, errors.Join(CheckKeyName(k.Name), k.Limits.Check(), k.Grants.Check())
}

// fault is the decoder's error in the file's terms, without the text at fault.
func fault(err error) error {
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &kind):
		field := kind.Field[strings.LastIndex(kind.Field, ".")+1:] // without the struct's name
		return fmt.Errorf("%s: want %s, found %s", field, kind.Type, kind.Value)
	case errors.As(err, &syntax):
		return fmt.Errorf("not JSON, at character %d; want a line as gearshift key new writes it", syntax.Offset)
	}
	return errors.New(strings.TrimPrefix(err.Error(), "json: "))
}
