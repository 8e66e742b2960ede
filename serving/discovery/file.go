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
	Variant string `yaml:"variant"`
	Address string `yaml:"address"`
	Host    string `yaml:"host,omitempty"`
	Name    string `yaml:"name,omitempty"`
	Ready   *bool  `yaml:"ready,omitempty"` // default: true
	Ending  bool   `yaml:"ending,omitempty"`
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
		for fault := range strings.Lines(err.Error()) {
			f.log.Error("cannot read the list of endpoints: the last good one stays", "file", f.path, "fault", strings.TrimSpace(fault))
		}
		return
	}
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
		e := Endpoint{ID: x.Name + "@" + x.Address + "/" + x.Variant, Name: x.Name, Address: x.Address, Variant: x.Variant, Host: x.Host, Ready: x.Ready == nil || *x.Ready, Ending: x.Ending}
		if e.Name == "" {
			e.Name = x.Address
		}
		if err := CheckAddress(x.Address); err != nil {
			faults = append(faults, fmt.Errorf("[%d].address: %w", i, err))
		}
		if j, again := first[e.ID]; again {
			faults = append(faults, fmt.Errorf("[%d]: is listed as [%d] already; want each endpoint once", i, j))
		}
		first[e.ID] = i
		list = append(list, e)
	}
	return list, errors.Join(faults...)
}

// CheckAddress returns why an address cannot be connected to; nil if it can.
func CheckAddress(at string) error {
	host, port, err := net.SplitHostPort(at)
	n, failed := strconv.ParseUint(port, 10, 16)
	if err != nil || host == "" || failed != nil || n == 0 {
		return fmt.Errorf("%q is not an address; want host:port, such as 10.0.0.1:8000", at)
	}
	return nil
}
