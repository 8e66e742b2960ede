package discovery

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"gearshift/serving/config/files"
)

// lookEvery is the time between two reads of the file's state. A change counts once two reads agree, so that no
// half-written file is read.
const lookEvery = 40 * time.Millisecond

// file is a [Source] that lists endpoints in a file of YAML or JSON.
type file struct {
	path   string
	decode Decode
	log    *slog.Logger
	ever   bool // it has been read
	reach
}

// Decode reads YAML or JSON text into v, by its yaml tags. A key that is not tagged omitempty is required. The error
// reports every fault by its line in the file.
type Decode func(file string, text []byte, v any) error

// NewFile returns a source that reads a file.
func NewFile(path string, decode Decode, log *slog.Logger) Source {
	return &file{path: path, decode: decode, log: log}
}

// listed is one endpoint of a file.
type listed struct {
	Variant string  `yaml:"variant"`
	Address address `yaml:"address"`
	Host    string  `yaml:"host,omitempty"`
	Name    string  `yaml:"name,omitempty"`
	Ready   *bool   `yaml:"ready,omitempty"` // default: true
	Ending  bool    `yaml:"ending,omitempty"`
}

// address is host:port. Its faults are reported by their lines, as those of other keys are.
type address string

// UnmarshalText reads an address.
func (a *address) UnmarshalText(text []byte) error {
	*a = address(text)
	host, port, err := net.SplitHostPort(string(text))
	n, failed := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || failed != nil || n == 0 {
		return fmt.Errorf("%q is not an address; want host:port, such as 10.0.0.1:8000", text)
	}
	return nil
}

// Watch implements [Source]. While the file cannot be read, its last endpoints stay.
func (f *file) Watch(ctx context.Context, changed func([]Endpoint)) error {
	var looker files.Looker
	look := func() files.Print { return looker.Look(ctx, []string{f.path})[f.path] }
	last := look()
	f.read(changed)
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	read := last // as last read
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := look()
		if now == last && now != read {
			read = now
			f.read(changed)
		}
		last = now
	}
}

func (f *file) read(changed func([]Endpoint)) {
	text, err := os.ReadFile(f.path)
	var list []Endpoint
	if err == nil {
		list, err = f.parse(text)
	}
	f.note(f.path, err != nil)
	if err != nil {
		message := "cannot read the list of endpoints: the last good one stays"
		if !f.ever {
			message = "cannot read the list of endpoints: there are none until it can be read"
		}
		for fault := range strings.Lines(err.Error()) {
			f.log.Error(message, "file", f.path, "fault", strings.TrimSpace(fault))
		}
		return
	}
	f.ever = true
	changed(list)
}

// parse reads a list of endpoints.
func (f *file) parse(text []byte) ([]Endpoint, error) {
	var items []listed
	if err := f.decode(f.path, text, &items); err != nil {
		return nil, err
	}
	var list []Endpoint
	var faults []error
	first := map[string]int{}
	for i, x := range items {
		at := string(x.Address)
		e := Endpoint{ID: x.Name + "@" + at + "/" + x.Variant, Name: x.Name, Address: at, Variant: x.Variant, Host: x.Host, Ready: x.Ready == nil || *x.Ready, Ending: x.Ending}
		if e.Name == "" {
			e.Name = at
		}
		if j, again := first[e.ID]; again {
			faults = append(faults, fmt.Errorf("[%d]: is listed as [%d] already; want each endpoint once", i, j))
		}
		first[e.ID] = i
		list = append(list, e)
	}
	return list, errors.Join(faults...)
}
