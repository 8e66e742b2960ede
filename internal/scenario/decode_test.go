package scenario

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// shelf has every kind of field that the decoder knows.
type shelf struct {
	Label   string             `yaml:"label"`
	Width   float64            `yaml:"width"`
	Volumes []book             `yaml:"books,omitempty"`
	Tags    map[string]float64 `yaml:"tags,omitempty"`
	Size    Bytes              `yaml:"size"`
	Frame   `yaml:",inline"`
	Since   time.Duration `yaml:"since,omitempty"`
	Lent    bool          `yaml:"lent,omitempty"`
	Lamp    *lamp         `yaml:"lamp,omitempty"`

	Other int
}

type Frame struct {
	Legs int64 `yaml:"legs"`
}

type book struct {
	Pages int    `yaml:"pages"`
	Shown string `yaml:"shown"`
}

type lamp struct {
	Watts float64 `yaml:"watts"`
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
	got, err := decodeShelf("label: &l a\nwidth: 1_0.5\nlegs: 4\nsince: 1m\nlent: true\nlamp: {watts: 5}\nbooks: [{pages: 3}, {pages: 0, shown: *l}]\ntags: {x.y: 1, *l : 2}\n")
	want := shelf{
		Label: "a", Width: 10.5, Size: 1, Frame: Frame{Legs: 4}, Since: time.Minute, Lent: true, Lamp: &lamp{5},
		Volumes: []book{{3, "spine"}, {0, "a"}},
		Tags:    map[string]float64{"x.y": 1},
	}
	if !strings.Contains(err, "f:8: tags: a key must be plain text") {
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
		"label: a\nwidth: 1\nlegs: 4\nhidden: 1\nOther: 2":        "f:4: hidden: unknown key; known here: label, width, books, tags, size, legs, since, lent, lamp\nf:5: Other: unknown key; known here: label, width, books, tags, size, legs, since, lent, lamp",
		"label: a\nwidth: 1\nlegs: 4\nbooks:\n- {}\n- 7":          "f:5: books[0].pages: missing; it has no default\nf:6: books[1]: want a mapping, found 7",
		"label: a\nwidth: 1\nlegs: 4\nlamp:\n  wats: 1\n  hue: 2": "f:5: lamp.wats: unknown key; did you mean \"watts\"?\nf:6: lamp.hue: unknown key; known here: watts",
		"label: a\nwidth: 1\nlegs: 4\nlamp: {}":                   "f:4: lamp.watts: missing; it has no default",
		"label: a\nwidth: 1\nlegs: 4\nlamp: ~":                    "f:4: lamp: want a mapping, found nothing",
		"label: a\nwidth: 1\nlegs: 4\ntags:\n  x.y: b\n":          `f:5: tags.x.y: want a number, found "b"`,
		"label: a\nwidth: 1\nlegs: 4\nlegs: 5\nlegs: 6\n":         "f:4: legs: duplicate key; the first is on line 3\nf:5: legs: duplicate key; the first is on line 3",
		"label: a\nwidth: 1\nlegs: 99999999999999999999999\n":     "f:3: legs: want a whole number, found 99999999999999999999999",
		"label: !!int a\nwidth: !!float b\nlegs: !!int c\n":       "f:1: label: want text, found a\nf:2: width: want a number, found b\nf:3: legs: want a whole number, found c",
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

// Sections belong to several packages; one that grows a field of a kind that
// the decoder does not know shows here and not on a user's machine.
func TestEveryFieldIsDecodable(t *testing.T) {
	known := []reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch v.Kind() {
		case reflect.Struct:
			eachField(v, func(name string, field reflect.Value, _ bool) { walk(child(path, name), field) })
		case reflect.Map, reflect.Slice, reflect.Pointer:
			walk(path, reflect.New(v.Type().Elem()).Elem())
		default:
			if !slices.Contains(known, v.Kind()) && !v.Addr().Type().Implements(textUnmarshaler) {
				t.Errorf("%s is a %v", path, v.Type())
			}
		}
	}
	walk("", reflect.ValueOf(new(Scenario)).Elem())
	for _, d := range sections() {
		walk(d.path(), reflect.New(kindOf(d)).Elem())
	}
}

func TestEveryKeyIsDocumented(t *testing.T) {
	for _, key := range undocumented(t, sections()) {
		t.Errorf("docs/scenario.md does not have the key %s", key)
	}
}

// undocumented are the keys of the file, with these registered sections, that its page does
// not have. Documented is what stands as a key in code, be it alone, in a path or with its value.
func undocumented(t *testing.T, list []registered) (keys []string) {
	t.Helper()
	doc, err := os.ReadFile("../../docs/scenario.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?ms)^```.*?^```")
	yaml := strings.Join(blocks.FindAllString(string(doc), -1), "\n")
	code := strings.Join(regexp.MustCompile("`[^`\n]+`").FindAllString(blocks.ReplaceAllString(string(doc), ""), -1), "\n")
	look := func(path, name string) {
		key := regexp.MustCompile("[`.{ ]" + name + "(:|`|\\.|\\[])").MatchString(code)
		if !key && !regexp.MustCompile(`(?m)(^|[ {])`+name+`:`).MatchString(yaml) {
			keys = append(keys, path)
		}
	}
	var walk func(path string, v reflect.Value)
	walk = func(path string, v reflect.Value) {
		switch {
		case v.Addr().Type().Implements(textUnmarshaler):
		case v.Kind() == reflect.Map, v.Kind() == reflect.Slice, v.Kind() == reflect.Pointer:
			walk(path, reflect.New(v.Type().Elem()).Elem())
		case v.Kind() == reflect.Struct:
			eachField(v, func(name string, field reflect.Value, _ bool) {
				look(child(path, name), name)
				walk(child(path, name), field)
			})
		}
	}
	walk("", reflect.ValueOf(new(Scenario)).Elem())
	for _, d := range list {
		look(d.path(), d.path()[strings.LastIndex(d.path(), ".")+1:])
		walk(d.path(), reflect.New(kindOf(d)).Elem())
	}
	return keys
}

// TestDecodeJSON: what programs write is read, indented by tabs and with its signs escaped, and all
// that is wrong in it is named by its line.
func TestDecodeJSON(t *testing.T) {
	type part struct {
		Name string `yaml:"name"`
		Size int    `yaml:"size"`
	}
	var whole struct {
		Parts []part             `yaml:"parts"`
		Free  map[string]float64 `yaml:"free,omitempty"`
	}
	if err := Decode("a.json", []byte("{\n\t\"parts\": [\n\t\t{\"name\": \"\\u00e9\\/\\\\/\\ud83d\\ude00\", \"size\": 1e3}\n\t],\n\t\"free\": {\"memory\": -1.5}\n}\n"), &whole); err != nil ||
		!slices.Equal(whole.Parts, []part{{"é/\\/😀", 1000}}) || whole.Free["memory"] != -1.5 {
		t.Errorf("%+v, %v", whole, err)
	}
	err := Decode("a.json", []byte("{\"parts\": [{\"nam\": \"a\",\n \"size\": \"b\"}]}"), &whole)
	if want := "a.json:1: parts[0].nam: unknown key; did you mean \"name\"?\na.json:2: parts[0].size: want a whole number, found the quoted text \"b\""; err == nil || err.Error() != want {
		t.Errorf("%v", err)
	}
}
