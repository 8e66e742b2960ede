package wire

import (
	"encoding/json"
	"io"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

const (
	textPartOf  = `{"type":"text","text":"what is it?"}`
	imagePartOf = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
	soundPartOf = `{ "type" : "input_audio", "input_audio": {"data":"AAAA","format":"wav"} }`
)

func requestOf(t *testing.T, body string) *Request {
	t.Helper()
	r, err := ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func said(contents ...string) string {
	var messages []string
	for _, c := range contents {
		messages = append(messages, `{"role":"user","content":`+c+`}`)
	}
	return `{"messages":[` + strings.Join(messages, " , ") + `],"model":"auto"}`
}

// A cut leaves out the parts that it names, from any place of a message, and nothing else.
func TestACutLeavesPartsOut(t *testing.T) {
	all := `[` + imagePartOf + `, ` + textPartOf + ` ,` + soundPartOf + `]`
	for _, c := range []struct {
		name, in string
		cut      Cut
		want     string
	}{
		{"the first and the last", all, Cut{Without: Images | Sounds}, `[` + textPartOf + `]`},
		{"the first", all, Cut{Without: Images}, `[` + textPartOf + ` ,` + soundPartOf + `]`},
		{"the last", all, Cut{Without: Sounds}, `[` + imagePartOf + `, ` + textPartOf + `]`},
		{"what is not there", all, Cut{Without: Videos}, all},
		{"some in the middle", `[` + textPartOf + `,` + imagePartOf + `,` + soundPartOf + `,` + textPartOf + `]`, Cut{Without: Images | Sounds}, `[` + textPartOf + `,` + textPartOf + `]`},
		{"a text", `"hello"`, Cut{Without: Images}, `"hello"`},
		{"low detail", `[` + imagePartOf + `]`, Cut{Coarse: true}, `[{"type":"image_url","image_url":{"detail":"low","url":"data:image/png;base64,AAAA"}}]`},
		{
			"low detail in place of high", `[{"type":"image_url","image_url":{"url":"x","detail":"high"}},` + textPartOf + `]`, Cut{Coarse: true},
			`[{"type":"image_url","image_url":{"url":"x","detail":"low"}},` + textPartOf + `]`,
		},
		{
			"low detail of the Responses API", `[{"type":"input_image","image_url":"data:x","detail":"auto"},` + soundPartOf + `]`, Cut{Without: Sounds, Coarse: true},
			`[{"type":"input_image","image_url":"data:x","detail":"low"}]`,
		},
	} {
		r := requestOf(t, said(`"first"`, c.in, `[`+textPartOf+`]`))
		got, err := io.ReadAll(r.For("large", c.cut))
		if err != nil {
			t.Fatal(err)
		}
		if want := strings.Replace(said(`"first"`, c.want, `[`+textPartOf+`]`), "auto", "large", 1); string(got) != want {
			t.Errorf("%s: got\n%s\nwant\n%s", c.name, got, want)
		}
	}
}

// No message loses its last part, and a cut that changes nothing is none.
func TestEffectOfACut(t *testing.T) {
	for _, c := range []struct {
		body string
		cut  Cut
		want Cut
		ok   bool
	}{
		{said(`[` + imagePartOf + `,` + textPartOf + `]`), Cut{Without: Images | Sounds}, Cut{Without: Images}, true},
		{said(`[`+imagePartOf+`,`+textPartOf+`]`, `[`+imagePartOf+`]`), Cut{Without: Images}, Cut{Without: Images}, false},
		{said(`[` + imagePartOf + `,` + soundPartOf + `]`), Cut{Without: Images}, Cut{Without: Images}, true},
		{said(`[` + imagePartOf + `,` + soundPartOf + `]`), Cut{Without: Images | Sounds}, Cut{Without: Images | Sounds}, false},
		{said(`"hello"`), Cut{Without: Images, Coarse: true}, Cut{}, true},
		{said(`[` + imagePartOf + `]`), Cut{Coarse: true}, Cut{Coarse: true}, true},
		{said(`[` + imagePartOf + `,` + textPartOf + `]`), Cut{Without: Images, Coarse: true}, Cut{Without: Images}, true},
	} {
		if got, ok := requestOf(t, c.body).Parts().Effect(c.cut); got != c.want || ok != c.ok {
			t.Errorf("the effect of %+v on %s is %+v, %v; want %+v, %v", c.cut, c.body, got, ok, c.want, c.ok)
		}
	}
}

// Whatever the text, what is left is JSON that differs in the parts left out alone.
func FuzzCut(f *testing.F) {
	f.Add(said(`[` + imagePartOf + `, ` + textPartOf + ` ,` + soundPartOf + `]`))
	f.Add(said(`[`+imagePartOf+`,`+`{"type":"image"}`+`]`, `[[],{},`+imagePartOf+`]`))
	f.Add(`{"model":"a","input":[{"content":[{"type":"input_image","image_url":{"detail":1,"detail":2}}]}],"model":"b"}`)
	f.Fuzz(func(t *testing.T, body string) {
		r, err := ParseRequest([]byte(body))
		if err != nil {
			return
		}
		for without := Modalities(0); without < 1<<kinds; without++ {
			c, ok := r.Parts().Effect(Cut{Without: without})
			if !ok {
				continue
			}
			got, err := io.ReadAll(r.For(r.Model, c))
			if err != nil {
				t.Fatal(err)
			}
			cut, err := ParseRequest(got)
			if err != nil {
				t.Fatalf("cut by %+v, %s becomes %s: %v", c, body, got, err)
			}
			if left := cut.Parts().All; left != r.Parts().All&^without {
				t.Fatalf("cut by %+v, %s becomes %s, which has the kinds %b", c, body, got, left)
			}
			if c == (Cut{}) && !alike(t, []byte(body), got) {
				t.Fatalf("%s becomes %s without a cut", body, got)
			}
		}
	})
}

func alike(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(x, y)
}

// However many parts a message has, none is kept: they would take many times the body.
func TestPartsTakeNoMemory(t *testing.T) {
	r := requestOf(t, said("["+strings.Repeat("{},", 100_000)+imagePartOf+"]"))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	p := r.Parts()
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; p.All != Images || took > 64<<10 {
		t.Errorf("the parts are of the kinds %b and took %d bytes; want images and no memory to speak of", p.All, took)
	}
}
