package scenario

import (
	"reflect"
	"strings"
	"testing"
)

// shelf has every kind of field that the decoder knows.
type shelf struct {
	Label string             `yaml:"label"`
	Width float64            `yaml:"width"`
	Books []book             `yaml:"books,omitempty"`
	Tags  map[string]float64 `yaml:"tags,omitempty"`
	Size  Bytes              `yaml:"size"`
	Frame `yaml:",inline"`

	hidden int
	Other  int
}

type Frame struct {
	Legs int64 `yaml:"legs"`
}

type book struct {
	Pages int    `yaml:"pages"`
	Shown string `yaml:"shown"`
}

func (b *book) defaults() { b.Shown = "spine" }

func decodeShelf(text string) (shelf, string) {
	s := shelf{Size: 1}
	r := newReport("f")
	decode(r, []byte(text), &s)
	if err := r.err(); err != nil {
		return s, err.Error()
	}
	return s, ""
}

func TestDecode(t *testing.T) {
	got, err := decodeShelf("label: &l a\nwidth: 1_0.5\nlegs: 4\nbooks: [{pages: 3}, {pages: 0, shown: *l}]\ntags: {x.y: 1, *l : 2}\n")
	want := shelf{
		Label: "a", Width: 10.5, Size: 1, Frame: Frame{Legs: 4},
		Books: []book{{3, "spine"}, {0, "a"}},
		Tags:  map[string]float64{"x.y": 1},
	}
	if !strings.Contains(err, "f:5: tags: a key must be plain text") {
		t.Errorf("alias as a key: %s", err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("decoded %+v, want %+v", got, want)
	}
}

func TestDecodeFaults(t *testing.T) {
	for text, want := range map[string]string{
		"label: a\nwidth: 1\nlegs: 4": "",
		"{}":                          "f:1: label: missing; it has no default\nf:1: width: missing; it has no default\nf:1: legs: missing; it has no default",
		"label: a\nwdith: 1\nlegs: 4": `f:2: wdith: unknown key; did you mean "width"?`,
		"label: a\nwidth: 1\nlegs: 4\nhidden: 1\nOther: 2":    "f:4: hidden: unknown key; known here: label, width, books, tags, size, legs\nf:5: Other: unknown key; known here: label, width, books, tags, size, legs",
		"label: a\nwidth: 1\nlegs: 4\nbooks:\n- {}\n- 7":      "f:5: books[0].pages: missing; it has no default\nf:6: books[1]: want a mapping, found 7",
		"label: a\nwidth: 1\nlegs: 4\ntags:\n  x.y: b\n":      `f:5: tags.x.y: want a number, found "b"`,
		"label: a\nwidth: 1\nlegs: 4\nlegs: 5\nlegs: 6\n":     "f:4: legs: duplicate key; the first is on line 3\nf:5: legs: duplicate key; the first is on line 3",
		"label: a\nwidth: 1\nlegs: 99999999999999999999999\n": "f:3: legs: want a whole number, found 99999999999999999999999",
		"label: !!int a\nwidth: !!float b\nlegs: !!int c\n":   "f:1: label: want text, found a\nf:2: width: want a number, found b\nf:3: legs: want a whole number, found c",
	} {
		if _, got := decodeShelf(text); got != want {
			t.Errorf("%q:\n%s\nwant:\n%s", text, got, want)
		}
	}
}

func TestJudgementsAreSilentOnWhatWasNotRead(t *testing.T) {
	r := newReport("f")
	r.unreadable("tasks[0].quality.opt-1.3b", "unread")
	for key, sound := range map[string]bool{
		"tasks[0].quality.opt-1.3b":   false,
		"tasks[0].quality.opt-1.3b.x": false,
		"tasks[0].quality":            false,
		"tasks[0]":                    false,
		"tasks":                       false,
		"tasks[0].quality.opt-125m":   true,
		"tasks[1]":                    true,
		"hosts":                       true,
	} {
		if got := r.sound(key); got != sound {
			t.Errorf("%s: sound is %v", key, got)
		}
	}
}
