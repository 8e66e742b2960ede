package experience

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"gearshift/router/fleet"
)

// file is one that was read.
type file struct {
	name   string
	header Header
	rows   []Row
	note   string // of a torn last line

	tasks, variants, replicas map[string]int
}

// maxLine bounds a line: that of a fleet of thousands of replicas is far below.
const maxLine = 16 << 20

// read reads one file. A row that is not right is an error with file and line. A
// last line that breaks off, as when the server was killed, is left out and noted.
func read(name string, r io.Reader) (*file, error) {
	f := &file{name: name}
	in := bufio.NewReaderSize(r, 64<<10)
	for n := 1; ; n++ {
		text, err := readLine(in)
		switch {
		case errors.Is(err, io.EOF) && len(text) == 0:
			if n == 1 {
				return nil, fmt.Errorf("%s: no header; the file is empty", name)
			}
			return f, nil
		case err != nil && !errors.Is(err, io.EOF):
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		torn := err != nil // it does not end in a newline
		if err := f.add(text, n); err != nil {
			if torn && n > 1 {
				f.note = fmt.Sprintf("%s:%d: the last line breaks off; left out", name, n)
				return f, nil
			}
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
	}
}

// readLine is the next line without its end. With the last, if that has no end,
// comes io.EOF.
func readLine(in *bufio.Reader) ([]byte, error) {
	var text []byte
	for {
		piece, err := in.ReadSlice('\n')
		text = append(text, piece...)
		if len(text) > maxLine {
			return nil, fmt.Errorf("a line of more than %d bytes", maxLine)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimSuffix(text, []byte("\n")), err
		}
	}
}

// add takes in a line: the first is the header.
func (f *file) add(text []byte, n int) error {
	if n == 1 {
		if err := decode(text, &f.header, false); err != nil {
			return err
		}
		f.tasks, f.variants = indexOf(f.header.Tasks), indexOf(f.header.Variants)
		f.replicas = make(map[string]int, len(f.header.Replicas))
		for i, r := range f.header.Replicas {
			f.replicas[r.Name] = i
		}
		return f.header.validate()
	}
	var l writtenRow
	if err := decode(text, &l, true); err != nil {
		return err
	}
	r, err := f.row(&l)
	if err != nil {
		return err
	}
	r.line = n
	f.rows = append(f.rows, r)
	return nil
}

func indexOf(names []string) map[string]int {
	index := make(map[string]int, len(names))
	for i, name := range names {
		index[name] = i
	}
	return index
}

// decode reads one JSON object and nothing after it; strictly, or with room for
// keys that are not known, as a header of another version may have.
func decode(text []byte, into any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("an empty line; want one JSON object a line")
		}
		return fmt.Errorf("%s; want one JSON object a line, as gearshift serve writes it", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one JSON object; want one a line")
	}
	return nil
}

// row resolves the names and checks what does not follow from types.
func (f *file) row(l *writtenRow) (Row, error) {
	var r Row
	task, okTask := f.tasks[l.Task]
	variant, okVariant := f.variants[l.Variant]
	replica, okReplica := f.replicas[l.Replica]
	end, okEnd := replica, true
	if l.MovedTo != "" {
		end, okEnd = f.replicas[l.MovedTo]
	}
	n := len(f.header.Replicas)
	switch {
	case l.ID == 0 || l.Decision == 0:
		return r, errors.New("id, decision: missing; want the numbers of the request and of the decision, from 1")
	case !okTask:
		return r, fmt.Errorf("task: %q is not one of the header's: %s", l.Task, strings.Join(f.header.Tasks, ", "))
	case !okVariant:
		return r, fmt.Errorf("variant: %q is not one of the header's: %s", l.Variant, strings.Join(f.header.Variants, ", "))
	case !okReplica || f.header.Replicas[replica].Variant != l.Variant:
		return r, fmt.Errorf("replica: %q is not one of the header's of variant %s", l.Replica, l.Variant)
	case !okEnd:
		return r, fmt.Errorf("moved_to: %q is not one of the header's replicas", l.MovedTo)
	case len(l.InFlight) != n || len(l.Held) != n:
		return r, fmt.Errorf("in_flight, held_tokens: %d and %d numbers; want one for each of %d replicas", len(l.InFlight), len(l.Held), n)
	case len(l.Others) != 0 && len(l.Others) != n || len(l.Caps) != 0 && len(l.Caps) != n:
		return r, fmt.Errorf("of_others, caps: %d and %d numbers; want none, or one for each of %d replicas", len(l.Others), len(l.Caps), n)
	case len(l.ByTask) != 0 && len(l.ByTask) != n*len(f.header.Tasks):
		return r, fmt.Errorf("in_flight_by_task: %d numbers; want none, or one for each of %d tasks on each of %d replicas", len(l.ByTask), len(f.header.Tasks), n)
	case len(l.Excess) != 0 && len(l.Excess) != n:
		return r, fmt.Errorf("excess_time: %d numbers; want none, or one for each of %d replicas", len(l.Excess), n)
	case len(l.Smoothed) != len(fleet.RateHorizons):
		return r, fmt.Errorf("smoothed_rates: %d numbers; want %d", len(l.Smoothed), len(fleet.RateHorizons))
	case len(l.Recent) > fleet.RecentRequests:
		return r, fmt.Errorf("recent_shortfalls: %d numbers; want %d at most", len(l.Recent), fleet.RecentRequests)
	case l.Outcome == "" || l.Policy == "":
		return r, errors.New("outcome, policy: both are needed")
	case l.MinQuality < 0:
		return r, fmt.Errorf("min_quality: %v is negative", l.MinQuality)
	case !(l.Propensity >= 0 && l.Propensity <= 1):
		return r, fmt.Errorf("propensity: %v is not a probability", l.Propensity)
	}
	predicted, err := l.Predicted.read(len(f.header.Variants))
	if err = cmp.Or(notNegative(l), err); err != nil {
		return r, err
	}
	facts, err := l.facts(n, len(f.header.Hosts))
	if err != nil {
		return r, err
	}
	if i := beyond(l.Down, n); i >= 0 {
		return r, fmt.Errorf("down: %d is not in 0 … %d", l.Down[i], n-1)
	}
	if i := beyond(l.Hosts, len(f.header.Hosts)); i >= 0 {
		return r, fmt.Errorf("hosts: %d is not in 0 … %d", l.Hosts[i], len(f.header.Hosts)-1)
	}
	r = l.row(task, variant, replica, end, f.variants[f.header.Replicas[end].Variant])
	r.View.Facts, r.Request.Predicted = facts, predicted
	return r, nil
}

// facts are those of the view, of so many replicas and hosts.
func (l *writtenRow) facts(replicas, hosts int) (f fleet.Facts, err error) {
	for key, n := range map[string]int{"states": len(l.States), "ready_at_ns": len(l.Ready), "newer": len(l.Newer)} {
		if n != 0 && n != replicas {
			return f, fmt.Errorf("%s: %d entries; want none, or one for each of %d replicas", key, n, replicas)
		}
	}
	if n := len(l.Busy); n != 0 && n != hosts {
		return f, fmt.Errorf("busy_hosts: %d numbers; want none, or one for each of %d hosts", n, hosts)
	}
	f.Newer, f.Busy = l.Newer, l.Busy
	for _, name := range l.States {
		s := slices.IndexFunc(fleet.States(), func(s fleet.State) bool { return s.String() == name })
		if s < 0 {
			return f, fmt.Errorf("states: %q; want one of %v", name, fleet.States())
		}
		f.States = append(f.States, fleet.States()[s])
	}
	for _, at := range l.Ready {
		f.Ready = append(f.Ready, time.Duration(at))
	}
	return f, nil
}

// beyond is where the first number stands that is no index below n, or −1.
func beyond(list []int, n int) int {
	return slices.IndexFunc(list, func(i int) bool { return i < 0 || i >= n })
}

func notNegative(l *writtenRow) error {
	for _, x := range []struct {
		key   string
		value int64
	}{
		{"at_ns", l.At}, {"arrival_ns", l.Arrival}, {"prompt_tokens", int64(l.PromptTokens)}, {"deadline_ns", l.Deadline},
		{"first_token_deadline_ns", l.FirstWithin}, {"total_deadline_ns", l.TotalWithin},
		{"output_tokens", int64(l.OutputTokens)}, {"first_token_ns", l.FirstToken}, {"latency_ns", l.Latency}, {"per_token_ns", l.PerToken},
	} {
		if x.value < 0 {
			return fmt.Errorf("%s: %d is negative", x.key, x.value)
		}
	}
	for _, list := range [][]int32{l.InFlight, l.ByTask, l.Held, l.Others} {
		for _, n := range list {
			if n < 0 {
				return errors.New("in_flight, in_flight_by_task, held_tokens, of_others: a negative number")
			}
		}
	}
	for _, n := range l.Caps {
		if n < fleet.Closed {
			return fmt.Errorf("caps: %d is below %d", n, fleet.Closed)
		}
	}
	for _, x := range l.Recent {
		if x < 0 || x > 1 {
			return fmt.Errorf("recent_shortfalls: %v is not a share", x)
		}
	}
	for _, at := range l.Ready {
		if at < 0 {
			return fmt.Errorf("ready_at_ns: %d is negative", at)
		}
	}
	for _, x := range l.Busy {
		if x < 0 || x > 1 {
			return fmt.Errorf("busy_hosts: %v is not a share", x)
		}
	}
	for _, x := range l.Excess {
		if x < 0 {
			return fmt.Errorf("excess_time: %v is negative", x)
		}
	}
	return nil
}

// row is the line with its names resolved.
func (l *writtenRow) row(task, variant, replica, end, endVariant int) Row {
	r := Row{
		Decision: l.Decision, Wall: l.Time,
		Request: fleet.Request{
			ID: l.ID, Task: task, PromptTokens: l.PromptTokens,
			Deadline: time.Duration(l.Deadline), FirstToken: time.Duration(l.FirstWithin), Total: time.Duration(l.TotalWithin), MinQuality: l.MinQuality, Session: l.Session, Answers: l.Answers, Variants: l.Allowed, Holding: l.Holding, Without: l.Without, Arrival: time.Duration(l.Arrival),
		},
		View: fleet.View{
			Now: time.Duration(l.At), InFlight: l.InFlight, ByTask: l.ByTask, Held: l.Held, Elsewhere: l.Others, Caps: l.Caps, Excess: l.Excess,
			Down: make([]bool, len(l.InFlight)), Rate: l.Rate,
		},
		Variant: variant, Replica: replica,
		Policy: l.Policy, Fallback: l.Fallback, Pinned: l.Pinned, Propensity: l.Propensity,
		EndVariant: endVariant, EndReplica: end,
		Outcome: l.Outcome, OutputTokens: l.OutputTokens, FirstToken: time.Duration(l.FirstToken),
		Latency: time.Duration(l.Latency), PerToken: time.Duration(l.PerToken),
		Judged: l.Met != nil, Met: l.Met != nil && *l.Met, Utility: l.Utility, Reported: l.Reported,
		hosts: l.Hosts,
	}
	if l.Only {
		r.Request.Only = replica + 1
	}
	copy(r.View.Smoothed[:], l.Smoothed)
	copy(r.View.Recent[:], l.Recent)
	for _, i := range l.Down {
		r.View.Down[i] = true
	}
	return r
}

// open is os.Open with an error that says what was to be read.
func open(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read experience: %w", err)
	}
	return f, nil
}
