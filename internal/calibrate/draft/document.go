package draft

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/env/engine"
	"gearshift/internal/output"
	"gearshift/internal/scenario"
)

// guess begins the comment of every number that comes from no engine and no user.
const guess = "guess: "

// Choices are what the user says of the fleet.
type Choices struct {
	Name string
	Task string
	// DeadlineMS per output token; 0 is [Fleet.Deadline], as a guess.
	DeadlineMS float64
	// DeadlineFrom is the comment on a deadline that neither the user named nor [Fleet.Deadline].
	DeadlineFrom string
	// Fallback is the rule that routes where no policy does; empty: the scenario's usual one.
	Fallback string
	// Quality by variant's index, and whether the user has said them.
	Quality     []float64
	QualitySaid bool
}

// Document returns the scenario of the fleet, and how many guesses are in it. It is valid.
func (f *Fleet) Document(c Choices) (doc []byte, guesses int, err error) {
	guessed := c.DeadlineMS == 0
	if guessed {
		c.DeadlineMS = f.Deadline()
	}
	doc, s, err := f.document(c, guessed)
	if err != nil {
		return nil, 0, err
	}
	if tight := tight(s); guessed && c.DeadlineMS > tight {
		c.DeadlineMS = tight
		if doc, _, err = f.document(c, guessed); err != nil {
			return nil, 0, err
		}
	}
	return doc, strings.Count(string(doc), "# "+guess), nil
}

// tight returns the longest deadline that is worth a guess, in ms: twice what the slowest size
// takes per token in its largest batch. With more than that every size would be in time.
func tight(s *scenario.Scenario) float64 {
	most := 0.
	for _, c := range s.Capacities(s.Tasks[0].DeadlineMS) {
		most = max(most, 2*c.MostPace, 1.5*c.Alone)
	}
	return tidy(math.Ceil(most))
}

// document returns the text of a scenario and what it says.
func (f *Fleet) document(c Choices, guessed bool) ([]byte, *scenario.Scenario, error) {
	root := mapping(
		entry{key: "name", value: text(c.Name), head: f.summary()},
		entry{key: "tasks", value: list(f.task(c, guessed)), head: "deadline: time per output token, from arrival to finish, queueing included.\n" +
			"quality: how good an answer in time is, by variant: accuracy on questions of yours, for instance."},
		f.variants(),
		entry{key: "hosts", value: f.hosts(), head: "Engines do not report the memory of a host; only what its replicas leave of it matters."},
		entry{key: "replicas", value: f.replicas(), head: "memory: weights, activations and the KV cache, in bytes."},
		entry{key: "profiles", value: f.profiles(), head: "The latency model of each variant (times in ms; docs/simulator.md has the formula).\n" +
			"gearshift calibrate measures the times, and everything that follows from them."},
		entry{key: "engine", value: f.engine(), head: "How each replica batches."},
		entry{key: "workload", value: f.workload(), head: "What a request looks like; when requests arrive is the --workload of a command."},
		entry{key: "serving", value: f.serving(c.Fallback), head: "Where the replicas answer; gearshift serve listens on 127.0.0.1:8080 unless addr is given."},
	)
	for i, key := range root.Content {
		if i%2 == 0 && i > 0 && key.HeadComment != "" {
			key.HeadComment = "\n" + key.HeadComment
		}
	}
	doc, err := output.YAML(root)
	if err != nil {
		return nil, nil, err
	}
	s, err := scenario.Parse(c.Name+".yaml", doc)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a scenario of these engines: %w", err)
	}
	return doc, s, nil
}

// summary returns what the file begins with.
func (f *Fleet) summary() string {
	var b strings.Builder
	b.WriteString("Made by gearshift from what these engines report:\n")
	seen := map[*Engine]bool{}
	for _, r := range f.Replicas {
		if e := r.Engine; !seen[e] {
			seen[e] = true
			fmt.Fprintf(&b, "  %s on %s, %s\n", e.URL, e.Host, e.Kind)
		}
	}
	b.WriteString("Everything else is marked as a guess. Keys and defaults: docs/scenario.md.")
	return b.String()
}

func (f *Fleet) task(c Choices, guessed bool) *yaml.Node {
	line := c.DeadlineFrom
	if guessed {
		line = fmt.Sprintf("%s%s tokens a second", guess, short1(1000/c.DeadlineMS))
	}
	var quality []entry
	for i, v := range f.Variants {
		quality = append(quality, entry{key: v.Name, value: number(c.Quality[i])})
	}
	said := ""
	if !c.QualitySaid {
		said = guess + "even steps; the order is all that is known"
	}
	return mapping(
		entry{key: "name", value: text(c.Task)},
		entry{key: "deadline_ms", value: number(c.DeadlineMS), line: line},
		entry{key: "quality", value: flow(mapping(quality...)), line: said},
	)
}

// short1 returns a number with no more digits than are of use.
func short1(x float64) string { return strconv.FormatFloat(tidy(x), 'f', -1, 64) }

func (f *Fleet) variants() entry {
	n := list()
	for _, v := range f.Variants {
		n.Content = append(n.Content, mapping(entry{key: "name", value: text(v.Name)}))
	}
	head := "From the quickest to the best, by " + f.Order + "."
	if !f.Ordered && len(f.Variants) > 1 {
		head = "From the quickest to the best.\n" + guess + f.Order + "; gearshift init --probe measures it"
	}
	return entry{key: "variants", value: n, head: head}
}

func (f *Fleet) hosts() *yaml.Node {
	n := list()
	for h, name := range f.Hosts {
		var sum int64
		for _, r := range f.Replicas {
			if r.Host == h {
				sum += f.memory(r)
			}
		}
		host := flow(mapping(entry{key: "name", value: text(name)}, entry{key: "memory", value: raw(fmt.Sprintf("%dGiB", hostMemory(sum)))}))
		host.LineComment = comment(guess + "the smallest that holds its replicas")
		n.Content = append(n.Content, host)
	}
	return n
}

// memory returns what a replica takes, so that its KV cache is what its engine says.
func (f *Fleet) memory(r Replica) int64 {
	tokens, _ := r.Model.tokens()
	block := int64(f.block())
	blocks := (int64(tokens) + block - 1) / block
	return f.weightBytes(r.Variant) + activationBytes + blocks*block*f.kvBytes(r.Variant)
}

// replicas puts those of a variant that are alike on one line.
func (f *Fleet) replicas() *yaml.Node {
	n := list()
	for v := range f.Variants {
		var sizes []int64
		hosts, said := map[int64][]string{}, map[int64]string{}
		for _, r := range f.Replicas {
			if r.Variant != v {
				continue
			}
			size := f.memory(r)
			if hosts[size] == nil {
				sizes = append(sizes, size)
			}
			hosts[size] = append(hosts[size], f.Hosts[r.Host])
			tokens, known := r.Model.tokens()
			words := "a KV cache of " + grouped(strconv.Itoa(tokens), ",") + " tokens"
			if known {
				said[size] = words + ", as the engine says"
			} else {
				said[size] = guess + words
			}
		}
		for _, size := range sizes {
			entry := flow(mapping(entry{key: "variant", value: text(f.Variants[v].Name)}, entry{key: "hosts", value: names(hosts[size])}, entry{key: "memory", value: number(float64(size))}))
			entry.LineComment = comment(said[size])
			n.Content = append(n.Content, entry)
		}
	}
	return n
}

func (f *Fleet) profiles() *yaml.Node {
	n := list()
	for i, v := range f.Variants {
		p := f.profileOf(i)
		ms := func(key string, x float64, line string) entry { return entry{key: key, value: number(x), line: line} }
		step := guess + "a GPU that reads " + short1(bytesPerMS/1e6) + " GB/s"
		if v.StepMS > 0 {
			step = fmt.Sprintf("%sof a step of %s ms, which a short request took", guess, short1(v.StepMS))
		}
		neighbours := guess + "no neighbours"
		if p.Contention > 0 {
			neighbours = guess + "of the neighbours on its host"
		}
		n.Content = append(n.Content, mapping(
			entry{key: "variant", value: text(v.Name)},
			ms("launch_floor_ms", p.LaunchFloor, guess+"kernel launches"),
			ms("weights_ms", p.Weights, step),
			ms("growth_per_sequence", p.Growth, guess+"typical of other engines"),
			ms("token_ms", p.Token, guess+"of the parameters"),
			ms("context_token_ms", p.Context, guess+"of the bytes of a cached token"),
			ms("overhead_ms", p.Overhead, guess+"typical of other engines"),
			ms("sequence_ms", p.Sequence, guess+"typical of other engines"),
			ms("contention", p.Contention, neighbours),
			ms("weight_bytes", float64(p.WeightBytes), f.weightsSaid(i)),
			ms("activation_bytes", float64(p.ActivationBytes), guess+"typical of other engines"),
			ms("kv_bytes_per_token", float64(p.KVBytes), f.kvSaid(i)),
		))
	}
	return n
}

func (f *Fleet) weightsSaid(i int) string {
	switch v := f.Variants[i]; {
	case v.Weights > 0:
		return "as the engine says"
	case !v.Known:
		return guess + "neither the engine nor the name shows the size"
	default:
		return fmt.Sprintf("%s%s billion parameters of %s bytes", guess, short1(v.Parameters/1e9), short1(v.Width))
	}
}

func (f *Fleet) kvSaid(i int) string {
	if slices.ContainsFunc(f.Replicas, func(r Replica) bool { return r.Variant == i && r.Model.KVBytes > 0 }) {
		return "as the engine says"
	}
	return guess + "typical of models of this size"
}

// block returns the tokens of a block of the KV cache, which the scenario has one number for.
func (f *Fleet) block() int {
	for _, r := range f.Replicas {
		if r.Model.Block > 0 {
			return r.Model.Block
		}
	}
	return 16
}

// sequences returns the fewest that an engine runs at once; the scenario has one number.
func (f *Fleet) sequences() (n int, said bool) {
	for _, r := range f.Replicas {
		if s := r.Model.Sequences; s > 0 && (n == 0 || s < n) {
			n = s
		}
	}
	if n > 0 {
		return n, true
	}
	if f.all(Ollama) {
		return 4, false
	}
	return 256, false
}

// all reports whether all engines are of the kind.
func (f *Fleet) all(kind Kind) bool {
	return !slices.ContainsFunc(f.Replicas, func(r Replica) bool { return r.Engine.Kind != kind })
}

func (f *Fleet) engine() *yaml.Node {
	scheduler, why := engine.ChunkedPrefill, guess+"as current engines do"
	if f.all(Gearshift) {
		scheduler, why = engine.PrefillFirst, guess+"as the simulated engines of the built-in scenarios do"
	}
	sequences, said := f.sequences()
	line := guess + "the engines do not report it"
	if said {
		line = "the fewest that an engine runs at once"
	}
	prompt, _ := f.requests()
	block := entry{key: "block_tokens", value: number(float64(f.block())), line: guess + "typical of most engines"}
	if slices.ContainsFunc(f.Replicas, func(r Replica) bool { return r.Model.Block > 0 }) {
		block.line = "as the engines say"
	}
	return mapping(
		entry{key: "scheduler", value: text(scheduler), line: why},
		entry{key: "max_batch_tokens", value: number(float64(max(2048, prompt.max))), line: guess + "typical of most engines"},
		entry{key: "max_sequences", value: number(float64(sequences)), line: line},
		block,
	)
}

func (f *Fleet) workload() *yaml.Node {
	prompt, output := f.requests()
	of := func(key string, l lengths) entry {
		line := guess + "measure it on your own requests"
		if l.answered > 0 {
			line = fmt.Sprintf("the mean of %s requests that the engines have answered; guess: cv and max", grouped(strconv.Itoa(l.answered), ","))
		}
		return entry{key: key, line: line, value: flow(mapping(
			entry{key: "distribution", value: text("lognormal")}, entry{key: "mean", value: number(float64(l.mean))},
			entry{key: "cv", value: number(1)}, entry{key: "max", value: number(float64(l.max))},
		))}
	}
	return mapping(of("prompt_tokens", prompt), of("output_tokens", output))
}

func (f *Fleet) serving(fallback string) *yaml.Node {
	var upstreams []entry
	for v := range f.Variants {
		for _, r := range f.Replicas {
			if r.Variant != v {
				continue
			}
			url := []entry{{key: "url", value: text(r.Engine.URL)}}
			if r.Model.ID != f.Variants[v].Name {
				url = append(url, entry{key: "model", value: text(r.Model.ID)})
			}
			if r.Engine.Key != "" {
				url = append(url, entry{key: "api_key_env", value: text(r.Engine.Key)})
			}
			upstreams = append(upstreams, entry{key: f.Variants[v].Name + "@" + f.Hosts[r.Host], value: flow(mapping(url...))})
		}
	}
	rule := entry{key: "fallback"}
	if fallback != "" {
		rule.value = text(fallback)
	}
	return mapping(
		entry{key: "balancer", value: text("least-harm")},
		rule,
		entry{key: "backend", value: text(scenario.Upstream)},
		entry{key: "upstreams", value: mapping(upstreams...)},
	)
}
