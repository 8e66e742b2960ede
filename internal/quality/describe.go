package quality

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
)

// Stored describes a predictor in the store.
type Stored struct {
	Predictor string               `json:"predictor"`
	Aliases   []string             `json:"aliases,omitempty"`
	Forced    string               `json:"forced,omitempty"`
	Created   time.Time            `json:"created"`
	SHA256    string               `json:"sha256"`
	Bytes     int                  `json:"bytes"`
	Models    []string             `json:"models"`
	Labels    int                  `json:"labels"`
	Sources   []checkpoints.Source `json:"sources,omitempty"`
	Seed      uint64               `json:"seed"`
	GivenKey  bool                 `json:"given_key"`
	From      string               `json:"from,omitempty"`
	Verdict   string               `json:"verdict,omitempty"`
	Report    *Report              `json:"report,omitempty"`
}

// Describe describes an entry with its report.
func Describe(e checkpoints.Entry) (*Stored, error) {
	r, err := reportOf(e)
	if err != nil {
		return nil, err
	}
	p := e.Predictor
	s := &Stored{Predictor: e.Ref().String(), Aliases: e.Aliases, Forced: e.Forced, Created: e.Created, SHA256: e.Digest, Bytes: e.Size,
		Models: p.Columns, Labels: p.Labels, Sources: p.Sources, Seed: p.Seed, GivenKey: p.GivenKey, From: p.From}
	if len(r.Columns) > 0 {
		s.Report, s.Verdict = r, r.Verdict()
	}
	return s, nil
}

// Gain returns the gain of the main pair in words.
func (s *Stored) Gain() string {
	if s.Report == nil || s.Report.Main() == nil {
		return "-"
	}
	text := evaluation.Signed(s.Report.Main().Gain)
	if !s.Report.Enough() {
		text += ", not enough"
	}
	return text
}

// Write prints the predictor's origin and its report.
func (s *Stored) Write(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(t, name+"\t"+format+"\n", args...) }
	row("predictor", "%s", s.Predictor)
	if len(s.Aliases) > 0 {
		row("aliases", "%s", strings.Join(s.Aliases, ", "))
	}
	if s.Forced != "" {
		row("promoted by force", "%s", s.Forced)
	}
	row("stored", "%s", s.Created.Format(time.DateTime))
	row("size", "%d bytes, SHA-256 %.12s", s.Bytes, s.SHA256)
	row("fitted to", "%d labelled prompts, seed %d", s.Labels, s.Seed)
	for _, from := range s.Sources {
		sum := ""
		if from.SHA256 != "" { // of a file
			sum = fmt.Sprintf(", SHA-256 %.12s", from.SHA256)
		}
		row("", "%s%s", from.Name, sum)
	}
	if s.From != "" {
		row("updated from", "%.12s", s.From)
	}
	key := "the store's"
	if s.GivenKey {
		key = "given by --key"
	}
	row("key of the words", "%s", key)
	t.Flush()
	fmt.Fprintln(w)
	if s.Report == nil {
		fmt.Fprintln(w, "it has no report")
		return
	}
	s.Report.Write(w)
	s.Report.writeReliability(w)
	fmt.Fprintln(w, s.Verdict)
}
