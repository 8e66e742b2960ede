package checkpoints

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// storeFormat is the version of the index and of the layout around it.
const storeFormat = 1

// index is the one record of a store that changes: what there is and what it is
// called. Blobs and chunks are only found through it, so that a piece that went
// missing or astray is noticed.
type index struct {
	Format int `json:"format"`
	// Production is the name of the policy last promoted or rolled back, "" for none.
	Production string `json:"production,omitempty"`
	// Before is what the last promotion changed; nil where nothing leads back.
	Before   *before            `json:"before,omitempty"`
	Policies map[string]*policy `json:"policies"`
	Runs     map[string]*run    `json:"runs"`
}

// before is the state that a promotion changed.
type before struct {
	Ref Ref `json:"ref"`           // in production then, whatever its name; empty if none was
	Own int `json:"own,omitempty"` // the promoted name's version in production then; 0: none
}

// policy is one name. It stays when its versions are gone: their numbers are
// never given again.
type policy struct {
	Last       int       `json:"last"`                 // the highest version ever given
	Production int       `json:"production,omitempty"` // 0: none
	Previous   int       `json:"previous,omitempty"`   // 0: none
	Versions   []version `json:"versions"`             // ascending
}

// version is one stored checkpoint.
type version struct {
	Version int       `json:"version"`
	Created time.Time `json:"created"`
	Digest  string    `json:"digest"`
	Size    int       `json:"size"`
	Meta    Meta      `json:"meta"`
	Forced  string    `json:"forced,omitempty"` // see [Entry]
	Rule    string    `json:"rule,omitempty"`   // see [Entry]
	// Predictor describes a predictor, whose Meta is empty.
	Predictor *Predictor `json:"predictor,omitempty"`
}

// run is the stored progress of one training run, in Chunks pieces.
type run struct {
	Meta   json.RawMessage `json:"meta,omitempty"`
	Size   int             `json:"size"`
	Chunks int             `json:"chunks"`
	CRC    uint32          `json:"crc"`
	Policy Ref             `json:"policy,omitzero"` // what the run ended with
}

func newIndex() *index {
	return &index{Format: storeFormat, Policies: map[string]*policy{}, Runs: map[string]*run{}}
}

func (x *index) marshal() ([]byte, error) {
	b, err := json.Marshal(x)
	if err != nil {
		return nil, err
	}
	return seal(b), nil
}

// unmarshalIndex reads what marshal wrote. Of a newer format it reads no more
// than the format.
func unmarshalIndex(data []byte) (*index, error) {
	body, err := unseal(data)
	if err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	var head struct{ Format int }
	if err := json.Unmarshal(body, &head); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	if head.Format > storeFormat {
		return nil, &fault{ErrNewerFormat,
			fmt.Sprintf("it is written in the newer format %d, this gearshift reads formats up to %d", head.Format, storeFormat)}
	}
	x := newIndex()
	if err := json.Unmarshal(body, x); err != nil {
		return nil, fmt.Errorf("index: %w", err)
	}
	return x, nil
}

// blobKey is where a version's bytes are stored.
func blobKey(name string, version int) []byte {
	return strconv.AppendInt([]byte(name+"@"), int64(version), 10)
}

// find is the position of a version in p.Versions, -1 if it is not there.
func (p *policy) find(v int) int {
	return slices.IndexFunc(p.Versions, func(r version) bool { return r.Version == v })
}

// newest is the highest version there is, 0 if there is none.
func (p *policy) newest() int {
	if len(p.Versions) == 0 {
		return 0
	}
	return p.Versions[len(p.Versions)-1].Version
}

// aliased reports whether v has an alias.
func (p *policy) aliased(v int) bool { return v == p.Production || v == p.Previous }

// aliases lists the aliases of v, sorted.
func (p *policy) aliases(v int) []string {
	var a []string
	if v == p.Previous {
		a = append(a, Previous)
	}
	if v == p.Production {
		a = append(a, Production)
	}
	return a
}

// prune drops all but the newest keep versions and those that have an alias,
// and returns the dropped.
func (p *policy) prune(keep int) []int {
	var dropped []int
	old := len(p.Versions) - keep
	kept := p.Versions[:0]
	for i, r := range p.Versions {
		if i < old && !p.aliased(r.Version) {
			dropped = append(dropped, r.Version)
			continue
		}
		kept = append(kept, r)
	}
	p.Versions = kept
	return dropped
}

// drop removes one version and the aliases that it has.
func (p *policy) drop(v int) {
	p.Versions = slices.DeleteFunc(p.Versions, func(r version) bool { return r.Version == v })
	if p.Production == v {
		p.Production = 0
	}
	if p.Previous == v {
		p.Previous = 0
	}
}
