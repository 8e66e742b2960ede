package tokens

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// counted is a text with its tokens by several vocabularies; see testdata/texts.mjs.
type counted struct {
	Class, Text string
	Held        bool // not looked at when the weights were chosen
	Tokens      map[string]float64
}

func texts(t testing.TB) (all []counted) {
	t.Helper()
	f, err := os.Open("testdata/texts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := bufio.NewScanner(f)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var one counted
		if err := json.Unmarshal(s.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	return all
}

// inside is the text as within a JSON string, not ASCII escaped if so asked.
func inside(t testing.TB, text string, ascii bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(text); err != nil {
		t.Fatal(err)
	}
	quoted := bytes.TrimSpace(b.Bytes())
	if quoted = quoted[1 : len(quoted)-1]; !ascii {
		return quoted
	}
	var out []byte
	for _, r := range string(quoted) {
		switch {
		case r < 0x80:
			out = append(out, byte(r))
		case r < 0x10000:
			out = fmt.Appendf(out, `\u%04x`, r)
		default:
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xd800+(r-0x10000)>>10, 0xdc00+(r-0x10000)&0x3ff)
		}
	}
	return out
}

// How far vocabularies are apart decides how near an estimate can be to all of them. Of the
// classes here the estimate is within a factor of 1.5 of each of four; of the others in
// loose, of as many as that says.
var loose = map[string]int{"hindi": 3, "thai": 3, "arabic": 3, "vietnamese": 2, "emoji": 2, "numbers": 3, "korean": 3, "chinese": 3, "japanese": 3}

func TestEstimatesAreNearRealCounts(t *testing.T) {
	type group struct{ sum, n map[string]float64 }
	classes := map[string]group{}
	for _, x := range texts(t) {
		name := x.Class
		if x.Held {
			name += ", held"
		}
		g, ok := classes[name]
		if !ok {
			g = group{map[string]float64{}, map[string]float64{}}
			classes[name] = g
		}
		got := float64(JSON(inside(t, x.Text, false)))
		for vocabulary, want := range x.Tokens {
			g.sum[vocabulary] += math.Log(got / want)
			g.n[vocabulary]++
		}
	}
	for class, g := range classes {
		near, line := 0, ""
		for _, vocabulary := range []string{"cl100k", "o200k", "llama3", "qwen3"} {
			ratio := math.Exp(g.sum[vocabulary] / g.n[vocabulary])
			line += fmt.Sprintf(" %s %.2f", vocabulary, ratio)
			if ratio < 1.5 && ratio > 1/1.5 {
				near++
			}
		}
		want, ok := loose[strings.TrimSuffix(class, ", held")]
		if !ok {
			want = 4
		}
		t.Logf("%-16s%s", class, line)
		if near < want {
			t.Errorf("%s: within 1.5 of %d vocabularies, want %d:%s", class, near, want, line)
		}
	}
}

// Clients that write only ASCII, as Python does by default, have the same prompt.
func TestEscapesCountAsWhatTheyStandFor(t *testing.T) {
	for _, x := range texts(t) {
		plain, escaped := inside(t, x.Text, false), inside(t, x.Text, true)
		want, got := float64(scan(plain, runs{line: last}))/unit, float64(scan(escaped, runs{line: last}))/unit
		if math.Abs(got-want) > 0.01*want+1 {
			t.Errorf("%s: %.1f tokens escaped, %.1f not: %.60s", x.Class, got, want, x.Text)
		}
	}
}

// Short words are a token each: senders that compose prompts of a given length rely on it.
func TestShortWordsAreTokens(t *testing.T) {
	for _, n := range []int{1, 2, 13, 500, 100_000} {
		if got := JSON([]byte(strings.TrimSuffix(strings.Repeat("word ", n), " "))); math.Abs(float64(got-n)) > 0.005*float64(n) || n < 800 && got != n {
			t.Errorf("%d words: %d tokens", n, got)
		}
	}
	for text, want := range map[string]int{"": 0, "one two  three\\nfour\\tfive ": 7, "a": 1, "!": 1, "\\u0020": 0} {
		if got := JSON([]byte(text)); got < want-1 || got > want+1 {
			t.Errorf("%q: %d tokens, want about %d", text, got, want)
		}
	}
}

// What is read in samples has as many tokens as what is read whole.
func TestSamples(t *testing.T) {
	all := texts(t)
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range all {
		piece := append(inside(t, x.Text, false), ' ')
		text := bytes.Repeat(piece, 1+64<<10/len(piece))
		check(t, x.Class, text, 0.1)
	}
	for range 20 { // a conversation in several languages
		var text []byte
		for len(text) < 100<<10 {
			text = append(append(text, inside(t, all[random.IntN(len(all))].Text, false)...), ' ')
		}
		check(t, "mixed", text, 0.15)
	}
}

func check(t *testing.T, name string, text []byte, within float64) {
	t.Helper()
	want, got := float64(scan(text, runs{line: last}))/unit, float64(JSON(text))
	if math.Abs(got-want) > within*want {
		t.Errorf("%s: %.0f tokens in samples, %.0f in all", name, got, want)
	}
}

// Each byte in each place is what it is by comparison.
func TestClassify(t *testing.T) {
	for c := range 256 {
		for _, other := range []byte{'a', 0, 0xff, '0', ' '} {
			var b [64]byte
			for i := range b {
				if b[i] = other; i%3 == c%3 {
					b[i] = byte(c)
				}
			}
			agree(t, &b)
			var x block
			classifyWords(&b, &x)
			at, one := c%3, uint64(1)<<(c%3)
			for name, m := range map[string]struct {
				mask uint64
				want bool
			}{
				"letter": {x.letter, 'a' <= b[at]|0x20 && b[at]|0x20 <= 'z'}, "upper": {x.upper, 'A' <= b[at] && b[at] <= 'Z'},
				"digit": {x.digit, '0' <= b[at] && b[at] <= '9'}, "space": {x.space, b[at] == ' '}, "slash": {x.slash, b[at] == '\\'},
				"control": {x.control, b[at] < ' '}, "high": {x.high, b[at] >= 0x80},
			} {
				if got := m.mask&one != 0; got != m.want {
					t.Errorf("%q is %s: %v", b[at], name, got)
				}
			}
		}
	}
}

func TestJSONAllocatesNothing(t *testing.T) {
	text := inside(t, texts(t)[0].Text+"\n\"中文\"", true)
	if n := testing.AllocsPerRun(100, func() { JSON(text) }); n > 0 {
		t.Errorf("%g allocations", n)
	}
}

// FuzzJSON holds that both ways to classify agree, and that there are no more tokens than
// bytes.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"a b", `\u8bf7\n\"`, `\ud83d\ude00`, `\`, `\u12`, "\xe4\xb8", strings.Repeat(`\\\n`, 40), strings.Repeat("x", 63) + `\u8bf7`, strings.Repeat("中文, ", 2000)} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if n := JSON(b); n < 0 || n > len(b) {
			t.Errorf("%q: %d tokens", b, n)
		}
		for at := 0; at+64 <= len(b); at += 64 {
			agree(t, (*[64]byte)(b[at:]))
		}
	})
}

func agree(t *testing.T, b *[64]byte) {
	t.Helper()
	var got, want block
	classify(b, &got)
	classifyWords(b, &want)
	if got != want {
		t.Errorf("%q: %+v, want %+v", b, got, want)
	}
}
