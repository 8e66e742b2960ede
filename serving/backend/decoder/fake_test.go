package decoder

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"gearshift/serving/backend/tokenizer"
)

// fake is a model whose next token follows from the row's whole history, so that
// a row that is mixed up with another shows. Its tokens are bytes and an end.
type fake struct {
	next func(history []int64) int64
	// step, if set, is asked for leave before each Decode.
	step chan struct{}
	fail error // of Decode
	// refuse, if set, says whether Prefill fails.
	refuse func(prompt []int64) error
	// prefilled, if set, is called in each Prefill.
	prefilled func()

	mu     sync.Mutex
	batch  [][]int64
	widest int // rows × the longest, at most
	closed bool

	prefills int
}

const (
	endToken = 256
	tokens   = 257
)

type fakeRow []int64

func (fakeRow) Release() {}

func (f *fake) Layout() Layout { return Layout{Vocabulary: tokens, TokenBytes: 8} }

func (*fake) Bound(int, int) error { return nil }

func (f *fake) logits(history []int64) []float32 {
	l := make([]float32, tokens)
	l[f.next(history)] = 100
	return l
}

func (f *fake) Prefill(prompt []int64) (Row, []float32, error) {
	f.mu.Lock()
	f.prefills++
	f.mu.Unlock()
	if f.prefilled != nil {
		f.prefilled()
	}
	if f.refuse != nil {
		if err := f.refuse(prompt); err != nil {
			return nil, nil, err
		}
	}
	return fakeRow(slices.Clone(prompt)), f.logits(prompt), nil
}

func (f *fake) Compose(stay []int, join []Row) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var batch [][]int64
	for _, i := range stay {
		batch = append(batch, f.batch[i])
	}
	for _, r := range join {
		batch = append(batch, r.(fakeRow))
	}
	f.batch = batch
	return nil
}

func (f *fake) Decode(last []int64) ([]float32, error) {
	if f.step != nil {
		<-f.step
	}
	if f.fail != nil {
		return nil, f.fail
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(last) != len(f.batch) {
		return nil, fmt.Errorf("%d tokens for %d rows", len(last), len(f.batch))
	}
	var all []float32
	for i, token := range last {
		f.batch[i] = append(f.batch[i], token)
		f.widest = max(f.widest, len(f.batch)*len(f.batch[i]))
		all = append(all, f.logits(f.batch[i])...)
	}
	return all, nil
}

func (f *fake) Close() { f.closed = true }

// rows is how many are in the batch.
func (f *fake) rows() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.batch)
}

// letters follows from all of the history, and never ends by itself.
func letters(history []int64) int64 {
	sum := int64(len(history))
	for _, t := range history {
		sum = sum*31 + t
	}
	return 'a' + ((sum%26)+26)%26
}

// says answers with the text, then ends.
func says(prompt int, text string) func([]int64) int64 {
	return func(history []int64) int64 {
		if i := len(history) - prompt; i < len(text) {
			return int64(text[i])
		}
		return endToken
	}
}

// bytesOnly is a tokenizer of bytes and the end.
func bytesOnly(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	vocabulary := ""
	next := rune(256)
	for b := range 256 {
		r := rune(b)
		if !(r >= '!' && r <= '~' || r >= '¡' && r <= '¬' || r >= '®') {
			r = next
			next++
		}
		vocabulary += fmt.Sprintf("%q:%d,", string(r), b)
	}
	tok, err := tokenizer.Parse(fmt.Appendf(nil, `{
		"model": {"type": "BPE", "vocab": {%s}, "merges": []},
		"added_tokens": [{"id": 256, "content": "<end>", "special": true}],
		"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}, "decoder": {"type": "ByteLevel"}
	}`, vocabulary[:len(vocabulary)-1]))
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

var plenty = Config{Name: "fake", Context: 128, End: []int64{endToken}, MaxSequences: 4, KVTokens: 512}

// start runs an engine until the test ends.
func start(t testing.TB, f *fake, c Config) *Engine {
	t.Helper()
	e, err := New(f, bytesOnly(t), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

var errFake = errors.New("the sum is wrong")
