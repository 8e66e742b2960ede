//go:build onnx && cgo

package onnx

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"gearshift/checkpoints/onnxfile"
	"gearshift/serving/backend/decoder"
	"gearshift/serving/backend/models"
)

// load loads the library that `make onnxruntime` fetches, or the one that the
// environment names.
func load(t testing.TB) {
	t.Helper()
	path := os.Getenv("GEARSHIFT_ONNXRUNTIME")
	if path == "" {
		path = "../../../.cache/onnxruntime/libonnxruntime.so.1"
		if _, err := os.Stat(path); err != nil {
			t.Skip("no ONNX Runtime library; `make onnxruntime` fetches it")
		}
	}
	if _, err := LoadLibrary(path); err != nil {
		t.Fatal(err)
	}
}

var (
	tiny  = models.Size{Name: "tiny", Layers: 2, Width: 32}
	small = models.Size{Name: "small", Layers: 2, Width: 128} // two heads
)

const (
	testContext = 96
	testSeed    = 5
	// tolerance is what logits may differ by, whoever computes them.
	tolerance = 1e-4
)

// forms are the two ways in which a model keeps its cache.
var forms = map[string]bool{"in place": false, "concat": true}

// write makes a model of the size and returns its folder.
func write(t testing.TB, size models.Size) string { return writeForm(t, size, false) }

func writeForm(t testing.TB, size models.Size, concat bool) string {
	t.Helper()
	dir := t.TempDir()
	o := models.Options{Sizes: []models.Size{size}, Context: testContext, Seed: testSeed, Concat: concat}
	if err := models.MakeDecoders(t.Context(), dir, o, func(string, int) {}); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, size.Name)
}

func openTest(t testing.TB, size models.Size, concat bool, o Options) *Model {
	t.Helper()
	load(t)
	m, err := Open(writeForm(t, size, concat), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func randomTokens(random *rand.Rand, n int) []int64 {
	list := make([]int64, n)
	for i := range list {
		list[i] = random.Int64N(models.Vocabulary)
	}
	return list
}

// differ is the greatest difference.
func differ[A, B float32 | float64](a []A, b []B) (greatest float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		greatest = math.Max(greatest, math.Abs(float64(a[i])-float64(b[i])))
	}
	return greatest
}

func prefill(t testing.TB, m *Model, prompt []int64) (decoder.Row, []float32) {
	t.Helper()
	row, logits, err := m.Prefill(prompt)
	if err != nil {
		t.Fatal(err)
	}
	return row, slices.Clone(logits)
}

// The runtime computes what plain loops compute, in prefill and in decode.
func TestParity(t *testing.T) {
	for form, concat := range forms {
		t.Run(form, func(t *testing.T) { testParity(t, concat) })
	}
}

func testParity(t *testing.T, concat bool) {
	for _, size := range []models.Size{tiny, small} {
		for _, threads := range []int{1, 2} {
			m := openTest(t, size, concat, Options{Threads: threads})
			d := models.NewDecoder(size, testContext, testSeed)
			random := rand.New(rand.NewPCG(1, 2))
			tokens := randomTokens(random, 37)
			row, logits := prefill(t, m, tokens)
			if by := differ(logits, forward(d, tokens)); by > tolerance {
				t.Errorf("%s, prefill: logits differ by %g", size.Name, by)
			}
			if err := m.Compose(nil, []decoder.Row{row}); err != nil {
				t.Fatal(err)
			}
			for step := range 12 {
				next := random.Int64N(models.Vocabulary)
				tokens = append(tokens, next)
				logits, err := m.Decode([]int64{next})
				if err != nil {
					t.Fatal(err)
				}
				if by := differ(logits, forward(d, tokens)); by > tolerance {
					t.Errorf("%s, step %d: logits differ by %g", size.Name, step, by)
				}
			}
		}
	}
}

// A sequence's logits are the same in any batch, while others of any length come
// and go.
func TestBatchInvariance(t *testing.T) {
	for form, concat := range forms {
		for _, bound := range []int{0, 6 * testContext} {
			t.Run(fmt.Sprintf("%s, bound %d", form, bound), func(t *testing.T) { testBatchInvariance(t, concat, bound) })
		}
	}
}

func testBatchInvariance(t *testing.T, concat bool, bound int) {
	m := openTest(t, small, concat, Options{})
	if bound > 0 {
		if err := m.Bound(6, bound); err != nil {
			t.Fatal(err)
		}
	}
	d := models.NewDecoder(small, testContext, testSeed)
	random := rand.New(rand.NewPCG(3, 4))
	var running [][]int64
	for step := range 24 {
		var stay []int
		var kept [][]int64
		for i, r := range running {
			if random.IntN(8) > 0 && len(r) < testContext-1 {
				stay, kept = append(stay, i), append(kept, r)
			}
		}
		if last := len(kept) - 1; last > 0 && stay[0] > 0 { // the last takes the first place
			stay[0], kept[0] = stay[last], kept[last]
			stay, kept = stay[:last], kept[:last]
		}
		var join []decoder.Row
		for len(kept) == 0 || len(kept) < 6 && random.IntN(3) == 0 {
			prompt := randomTokens(random, 1+random.IntN(24))
			row, logits := prefill(t, m, prompt)
			if by := differ(logits, forward(d, prompt)); by > tolerance {
				t.Errorf("step %d: a prompt's logits differ by %g", step, by)
			}
			join, kept = append(join, row), append(kept, prompt)
		}
		running = kept
		if err := m.Compose(stay, join); err != nil {
			t.Fatal(err)
		}
		last := randomTokens(random, len(running))
		logits, err := m.Decode(last)
		if err != nil {
			t.Fatal(err)
		}
		for i := range running {
			running[i] = append(slices.Clip(running[i]), last[i])
			row := logits[i*models.Vocabulary : (i+1)*models.Vocabulary]
			if by := differ(row, forward(d, running[i])); by > tolerance {
				t.Errorf("step %d: row %d of %d, of %d tokens, differs by %g", step, i, len(running), len(running[i]), by)
			}
		}
	}
}

// However a batch grows, neither set of its tensors outgrows what it was bounded to.
func TestCacheKeepsItsBound(t *testing.T) {
	for name, concat := range forms {
		t.Run(name, func(t *testing.T) {
			const rows, prompt, bound = 3, 8, 3 * 40
			m := openTest(t, tiny, concat, Options{})
			if err := m.Bound(rows, bound); err != nil {
				t.Fatal(err)
			}
			random := rand.New(rand.NewPCG(1, 9))
			var join []decoder.Row
			for range rows {
				row, _ := prefill(t, m, randomTokens(random, prompt))
				join = append(join, row)
			}
			if err := m.Compose(nil, join); err != nil {
				t.Fatal(err)
			}
			for range bound/rows - prompt {
				if _, err := m.Decode(randomTokens(random, rows)); err != nil {
					t.Fatal(err)
				}
			}
			for i, set := range []*tensors{m.batch, m.spare} {
				for _, data := range set.data {
					if most := bound * m.layout.perToken(); cap(data) > most {
						t.Fatalf("set %d takes %d numbers a tensor, more than %d", i, cap(data), most)
					}
				}
			}
			for range 20 { // rows of ever longer prompts
				var rows []decoder.Row
				for n := range 5 {
					row, _ := prefill(t, m, randomTokens(random, 10*(n+1)))
					rows = append(rows, row)
				}
				for _, row := range rows {
					row.Release()
				}
				kept := 0
				for _, r := range m.free {
					kept += r.cache.capacity(m.layout)
				}
				if len(m.free) > 1 && kept > bound {
					t.Fatalf("%d prompts' caches are kept, of %d tokens", len(m.free), kept)
				}
			}
		})
	}
}

// Lanes keep their tokens wherever they are moved, in memory of their own or the same,
// to more room or less.
func TestMoveLanes(t *testing.T) {
	l := &layout{layers: 1, heads: 2, width: 3}
	const rows = 4
	value := func(lane, i int) float32 { return float32(1000*lane + i) }
	for _, c := range []struct{ before, length int }{{5, 8}, {5, 6}, {5, 40}, {8, 5}, {40, 5}, {6, 5}, {5, 5}} {
		for _, same := range []bool{true, false} {
			tokens := rows * max(c.before, c.length)
			var from, to tensors
			for _, memory := range []*tensors{&from, &to} {
				if err := memory.take(l, tokens); err != nil {
					t.Fatal(err)
				}
				defer memory.release()
			}
			into := to.data
			if same {
				into = from.data
			}
			for k := range rows * l.heads {
				for i := range c.before * l.width {
					from.data[1][k*c.before*l.width+i] = value(k, i)
				}
			}
			moveLanes(l, into, c.length, from.data, c.before, rows)
			for k := range rows * l.heads {
				for i := range min(c.before, c.length) * l.width {
					if got := into[1][k*c.length*l.width+i]; got != value(k, i) {
						t.Fatalf("%+v, in the same memory %t: number %d of lane %d is %v", c, same, i, k, got)
					}
				}
			}
		}
	}
}

// A prompt beyond the positions of the model, which its config.json may promise, leaves
// the batch as it is.
func TestAPromptThatFailsLeavesTheBatch(t *testing.T) {
	for form, concat := range forms {
		t.Run(form, func(t *testing.T) {
			m := openTest(t, tiny, concat, Options{})
			d := models.NewDecoder(tiny, testContext, testSeed)
			random := rand.New(rand.NewPCG(3, 4))
			tokens := randomTokens(random, 12)
			row, _ := prefill(t, m, tokens)
			if err := m.Compose(nil, []decoder.Row{row}); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				if _, _, err := m.Prefill(randomTokens(random, testContext+1)); err == nil {
					t.Fatal("a prompt beyond the positions is computed")
				}
				tokens = append(tokens, random.Int64N(models.Vocabulary))
				logits, err := m.Decode(tokens[len(tokens)-1:])
				if err != nil {
					t.Fatal(err)
				}
				if by := differ(logits, forward(d, tokens)); by > tolerance {
					t.Errorf("after %d tokens logits differ by %g", len(tokens), by)
				}
			}
		})
	}
}

// The distribution of the next token is neither a certainty nor flat, and mostly
// of letters.
func TestAnswersAreBroad(t *testing.T) {
	m := openTest(t, models.Size{Name: "wide", Layers: 4, Width: 192}, false, Options{})
	random := rand.New(rand.NewPCG(5, 6))
	entropy, letters := 0.0, 0.0
	const prompts = 20
	for range prompts {
		row, logits := prefill(t, m, randomTokens(random, 30))
		row.Release()
		sum := 0.0
		for _, l := range logits {
			sum += math.Exp(float64(l))
		}
		for i, l := range logits {
			p := math.Exp(float64(l)) / sum
			entropy -= p * math.Log2(p) / prompts
			if i == ' ' || 'a' <= i && i <= 'z' {
				letters += p / prompts
			}
		}
	}
	if entropy < 2 || entropy > 4.5 || letters < 0.8 {
		t.Errorf("%.1f bits, letters with a probability of %.2f", entropy, letters)
	}
}

// Each fault of a file is one line that names the file and what is wrong with it.
func TestBadModels(t *testing.T) {
	load(t)
	folder := writeForm(t, tiny, true)
	path := filepath.Join(folder, "model.onnx")
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	plain := onnxfile.Graph{Name: "policy"}
	plain.Input("observation", onnxfile.Float32, onnxfile.Any("batch"), onnxfile.Fixed(3))
	plain.Output("values", onnxfile.Float32, onnxfile.Any("batch"), onnxfile.Fixed(3))
	for name, c := range map[string]struct {
		data    []byte
		options Options
		want    string
	}{
		"truncated":  {data: good[:len(good)/2], want: "it is no whole ONNX file"},
		"a few left": {data: good[:len(good)-3], want: "it is no whole ONNX file"},
		"empty":      {data: []byte{}, want: "it holds no graph"},
		"text":       {data: []byte("<html>not found</html>"), want: "it is no whole ONNX file"},
		"a policy":   {data: plain.Model(), want: "it has no input past_key_values.0.key"},
		"no mask":    {data: []byte(strings.ReplaceAll(string(good), "attention_mask", "attention_tusk")), want: "it has no input attention_mask"},
		"no output":  {data: []byte(strings.ReplaceAll(string(good), "present.1.key", "present_1_key")), want: "it has no output present.1.key"},
		"an input":   {data: []byte(strings.ReplaceAll(string(good), "position_ids", "positioning_")), want: `an input "positioning_" that is not understood`},
		"an op":      {data: []byte(strings.ReplaceAll(string(good), "Softmax", "Hardmix")), want: "Hardmix"},
		"a name":     {data: []byte(strings.Replace(string(good), "before.gain", "be\n\xdare.gain", 1)), want: "is not a graph input"},
		"too large":  {data: good, options: Options{MaxBytes: 1000}, want: "exceed the declared memory of 1000"},
	} {
		if err := os.WriteFile(path, c.data, 0o644); err != nil {
			t.Fatal(err)
		}
		m, err := Open(folder, c.options)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "\n") || !utf8.ValidString(err.Error()) {
			t.Errorf("%s: %q; want %s", name, err, c.want)
		}
	}
	if _, err := Open(t.TempDir(), Options{}); err == nil || !strings.Contains(err.Error(), "there is no such file") {
		t.Errorf("no file: %v", err)
	}
}

// Without CUDA in the library the key is refused in one line.
func TestCUDAIsNotThere(t *testing.T) {
	load(t)
	m, err := Open(write(t, tiny), Options{Provider: CUDA})
	if err == nil {
		m.Close()
		t.Skip("this library has CUDA")
	}
	if !strings.Contains(err.Error(), "CUDA") || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v", err)
	}
}

// BenchmarkDecode measures a step of each of the built-in sizes and forms, of rows
// with a past of 4 to 95 tokens, one of which goes and another comes every sixth step:
//
//	go test -tags onnx -run '^$' -bench Decode ./serving/backend/onnx
func BenchmarkDecode(b *testing.B) {
	for form, concat := range forms {
		for _, size := range models.Decoders() {
			for _, rows := range []int{1, 8, 16} {
				b.Run(fmt.Sprintf("%s/%s/batch=%d", form, size.Name, rows), func(b *testing.B) {
					benchmarkDecode(b, openTest(b, size, concat, Options{}), rows)
				})
			}
		}
	}
}

func benchmarkDecode(b *testing.B, m *Model, rows int) {
	random := rand.New(rand.NewPCG(1, 2))
	last, stay := make([]int64, rows), make([]int, rows-1)
	for i := range stay {
		stay[i] = i
	}
	for steps := 0; b.Loop(); steps++ {
		if steps%6 == 0 || slices.Max(m.filled) == testContext {
			b.StopTimer()
			var join []decoder.Row
			stay := stay
			if steps == 0 || slices.Max(m.filled) == testContext {
				stay = nil
			}
			for len(stay)+len(join) < rows {
				row, _ := prefill(b, m, make([]int64, 4+random.IntN(testContext-10)))
				join = append(join, row)
			}
			b.StartTimer()
			if err := m.Compose(stay, join); err != nil {
				b.Fatal(err)
			}
		}
		if _, err := m.Decode(last); err != nil {
			b.Fatal(err)
		}
	}
}
