package measure

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"time"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/output"
)

// classifierBatches are how many inputs of a classifier are measured at once.
var classifierBatches = []int{1, 2, 4, 8, 16, 32}

// forClassifiers are the flags that measuring a classifier has.
var forClassifiers = []string{"url", "model", "modalities", "batches", "time", "out", "api-key-env", "machine", "date", "seed"}

// classifierTable measures how long an engine takes for a batch of each size, with each
// subset of the modalities.
type classifierTable struct {
	modalities []string
	batches    []int
	// ask has a batch classified.
	ask func(ctx context.Context, body []byte) error
	// since is the time that has passed.
	since  func() time.Duration
	random *rand.Rand
	inputs map[string]string // of a member of the request, by modality
}

// cell is a subset of the modalities, by its bits, and a batch.
type cell struct{ subset, batch int }

// measure goes through all cells, each time in another order, until the time is up, and
// returns the times of each in milliseconds. The first round does not count: the engine
// takes memory and wakes in it.
func (t *classifierTable) measure(ctx context.Context, limit time.Duration, progress func(round, done, of int)) (map[cell][]float64, error) {
	var cells []cell
	bodies := map[cell][]byte{}
	for subset := 1; subset < 1<<len(t.modalities); subset++ {
		for _, batch := range t.batches {
			c := cell{subset, batch}
			body, err := t.body(c)
			if err != nil {
				return nil, err
			}
			cells, bodies[c] = append(cells, c), body
		}
	}
	times := map[cell][]float64{}
	began := t.since()
	for round := 0; round < 2 || t.since()-began < limit; round++ {
		t.random.Shuffle(len(cells), func(i, j int) { cells[i], cells[j] = cells[j], cells[i] })
		for i, c := range cells {
			progress(round, i, len(cells))
			from := t.since()
			if err := t.ask(ctx, bodies[c]); err != nil {
				return nil, fmt.Errorf("%s, a batch of %d: %w", strings.Join(t.of(c.subset), " and "), c.batch, err)
			}
			if round > 0 {
				times[c] = append(times[c], float64(t.since()-from)/float64(time.Millisecond))
			}
			if round > 1 && t.since()-began >= limit {
				break
			}
		}
	}
	return times, nil
}

// of are the modalities of a subset.
func (t *classifierTable) of(subset int) (names []string) {
	for i, m := range t.modalities {
		if subset>>i&1 == 1 {
			names = append(names, m)
		}
	}
	return names
}

// body is the request for a cell, without the model's name.
func (t *classifierTable) body(c cell) ([]byte, error) {
	input := map[string]string{}
	for _, m := range t.of(c.subset) {
		name := m
		if m == "text" {
			name = "input"
		}
		input[name] = t.inputs[m]
	}
	return json.Marshal(map[string]any{"inputs": slices.Repeat([]map[string]string{input}, c.batch)})
}

// text is the entries of profiles, those of fewer modalities first, as a scenario names
// the variants of a model by itself.
func (t *classifierTable) text(model string, times map[cell][]float64) string {
	subsets := make([]int, 1<<len(t.modalities)-1)
	for i := range subsets {
		subsets[i] = i + 1
	}
	slices.SortStableFunc(subsets, func(a, b int) int { return len(t.of(a)) - len(t.of(b)) })
	var b strings.Builder
	b.WriteString("profiles:\n")
	for _, subset := range subsets {
		var entries []string
		least, before := 0, 0.0
		for _, batch := range t.batches {
			list := times[cell{subset, batch}]
			slices.Sort(list)
			// A larger batch that was measured faster takes as long: the difference is chance.
			before = max(before, list[len(list)/2])
			entries = append(entries, fmt.Sprintf("%d: %.4g", batch, before))
			if least == 0 || len(list) < least {
				least = len(list)
			}
		}
		fmt.Fprintf(&b, "  - {variant: %s, batch_ms: {%s}} # medians of %d or more\n",
			strings.Join(append([]string{model}, t.of(subset)...), "-"), strings.Join(entries, ", "), least)
	}
	return b.String()
}

// classifierInput makes an input of a modality. What it holds does not matter to the time.
func classifierInput(modality string, random *rand.Rand) (string, error) {
	switch modality {
	case "text":
		return strings.TrimSpace(strings.Repeat("word ", 16)), nil
	case "image":
		picture := image.NewGray(image.Rect(0, 0, 28, 28))
		for i := range picture.Pix {
			picture.Pix[i] = byte(random.UintN(256))
		}
		var b bytes.Buffer
		err := png.Encode(&b, picture)
		return base64.StdEncoding.EncodeToString(b.Bytes()), err
	case "audio":
		const rate = 8000
		le := binary.LittleEndian
		b := le.AppendUint32([]byte("RIFF"), 36+2*rate)
		b = le.AppendUint32(append(b, "WAVEfmt "...), 16)
		b = le.AppendUint32(le.AppendUint32(b, 1|1<<16), rate) // PCM, mono
		b = le.AppendUint32(le.AppendUint32(b, 2*rate), 2|16<<16)
		b = le.AppendUint32(append(b, "data"...), 2*rate)
		for range rate {
			b = le.AppendUint16(b, uint16(random.UintN(1<<16)))
		}
		return base64.StdEncoding.EncodeToString(b), nil
	}
	return "", fmt.Errorf("%q; want some of text, image and audio", modality)
}

// classifierConfig reads the flags.
func (o *measureOptions) classifierConfig() (loadgen.Server, *classifierTable, error) {
	t := &classifierTable{modalities: o.modalities, batches: o.batches, random: rand.New(rand.NewPCG(o.profile.Seed, 1)), inputs: map[string]string{}}
	s := loadgen.Server{Purpose: "measure"}
	if o.url == "" {
		return s, t, errors.New("--url URL is missing: the engine to measure, such as http://127.0.0.1:8101")
	}
	target, err := loadgen.Parse(o.url)
	if err != nil {
		return s, t, fmt.Errorf("--url %w", err)
	}
	s.URL = target.URL
	if o.model == "" {
		o.model = target.Model
	}
	if s.Key, err = cli.KeyFrom(o.keyEnv); err != nil {
		return s, t, err
	}
	for i, m := range t.modalities {
		if slices.Contains(t.modalities[:i], m) {
			return s, t, fmt.Errorf("--modalities: %s is there twice", m)
		}
		if t.inputs[m], err = classifierInput(m, t.random); err != nil {
			return s, t, fmt.Errorf("--modalities: %w", err)
		}
	}
	if n := len(t.batches); n == 0 || t.batches[0] < 1 || !slices.IsSorted(t.batches) || len(slices.Compact(slices.Clone(t.batches))) < n {
		return s, t, fmt.Errorf("--batches %v: want numbers from 1 on, ascending", t.batches)
	}
	if o.time <= 0 {
		return s, t, fmt.Errorf("--time %v: want more than 0", o.time)
	}
	return s, t, checkProfileFlags(o.profile.Date, nil)
}

// onlyClassifiers refuses the flags that are of language models alone.
func (o *measureOptions) onlyClassifiers(changed func(string) bool, flags []string) error {
	for _, f := range flags {
		if changed(f) && !slices.Contains(forClassifiers, f) {
			return fmt.Errorf("--%s is for language models; with --modalities a classifier is measured", f)
		}
	}
	if !changed("batches") {
		o.batches = classifierBatches
	}
	return nil
}

// measureClassifier measures and writes the table.
func measureClassifier(ctx context.Context, o measureOptions, stdout, stderr io.Writer) error {
	s, t, err := o.classifierConfig()
	if err == nil {
		err = o.writable()
	}
	if err != nil {
		return err
	}
	client := &http.Client{Transport: loadgen.Transport()}
	if o.model, err = s.Model(ctx, client, o.model); err != nil {
		return err
	}
	began := time.Now()
	t.since = func() time.Duration { return time.Since(began) }
	t.ask = func(ctx context.Context, body []byte) error { return askClassifier(ctx, client, s, o.model, body) }
	watched := output.IsTerminal(stderr)
	times, err := t.measure(ctx, o.time, func(round, done, of int) {
		if watched {
			fmt.Fprintf(stderr, "\r\x1b[K%v of %v, round %d, %d of %d", t.since().Round(time.Second), o.time, round, done+1, of)
		}
	})
	if watched {
		fmt.Fprint(stderr, "\r\x1b[K")
	}
	if err != nil {
		return fmt.Errorf("cannot measure %s: %w", s.URL, err)
	}
	if o.profile.Machine == "" {
		o.profile.Machine = profiling.MachineOf(s.URL)
	}
	if o.profile.Date == "" {
		o.profile.Date = began.Format(time.DateOnly)
	}
	text := fmt.Sprintf("# Measured by gearshift profile measure, %s: %s\n%s", o.profile.Date, o.profile.Machine, t.text(o.model, times))
	if o.out == "" {
		_, err = io.WriteString(stdout, text)
		return err
	}
	if err := output.Install(o.out, []byte(text), true); err != nil {
		return fmt.Errorf("cannot write the profile: %w", err)
	}
	_, err = fmt.Fprintln(stdout, o.out)
	return err
}

// askClassifier sends a request to classify, and reads the whole answer.
func askClassifier(ctx context.Context, client *http.Client, s loadgen.Server, model string, body []byte) error {
	named, err := json.Marshal(model)
	if err != nil {
		return err
	}
	body = append(append([]byte(`{"model":`), append(named, ',')...), body[1:]...)
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+"/v1/gearshift/classify", bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	if s.Key != "" {
		request.Header.Set("Authorization", "Bearer "+s.Key)
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	const most = 64 << 20
	text, err := io.ReadAll(io.LimitReader(response.Body, most))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.300s", response.StatusCode, bytes.TrimSpace(text))
	}
	return err
}
