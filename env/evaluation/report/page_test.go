package report

import (
	"encoding/xml"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
)

// element is one element of the page, in document order.
type element struct {
	name string
	attr map[string]string
	text string   // its own
	path []string // the elements around it
}

// parsed reads the page, which is well-formed XML but for its first line.
func parsed(t *testing.T, page string) []*element {
	t.Helper()
	page, ok := strings.CutPrefix(page, "<!doctype html>\n")
	if !ok {
		t.Fatal("the page is not HTML")
	}
	var all, open []*element
	d := xml.NewDecoder(strings.NewReader(page))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := &element{name: token.Name.Local, attr: map[string]string{}}
			for _, a := range token.Attr {
				e.attr[a.Name.Local] = a.Value
			}
			for _, outer := range open {
				e.path = append(e.path, outer.name)
			}
			all, open = append(all, e), append(open, e)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			if len(open) > 0 {
				open[len(open)-1].text += string(token)
			}
		}
	}
}

func samplePage(t *testing.T) (string, []*element) {
	t.Helper()
	page := write(t, t.TempDir())["report.html"]
	return page, parsed(t, page)
}

func named(all []*element, name string) []*element {
	return slices.DeleteFunc(slices.Clone(all), func(e *element) bool { return e.name != name })
}

func TestPageSaysTheVerdictFirst(t *testing.T) {
	_, all := samplePage(t)
	var order []string
	for _, e := range all {
		if slices.Contains(pageIDs, e.attr["id"]) {
			order = append(order, e.attr["id"])
		}
	}
	if want := []string{"verdict", "contents", "tables", "figures", "repeat"}; !slices.Equal(order, want) {
		t.Errorf("parts %v, want %v", order, want)
	}
	var texts []string
	for _, e := range named(all, "p") {
		texts = append(texts, e.text)
	}
	for _, want := range append(sample().Verdict, "One paragraph.", "Another one.", "Text before figures.", "Words alone.") {
		if !slices.Contains(texts, want) {
			t.Errorf("no paragraph %q", want)
		}
	}
	if pre := named(all, "pre"); len(pre) != 1 || pre[0].text != sample().Repeat {
		t.Errorf("how to repeat it: %+v", pre)
	}
}

func TestLinksOfThePageLead(t *testing.T) {
	dir := t.TempDir()
	files := write(t, dir)
	all := parsed(t, files["report.html"])
	ids := map[string]bool{}
	for _, e := range all {
		if id, has := e.attr["id"]; has {
			if ids[id] {
				t.Errorf("two elements with the ID %q", id)
			}
			ids[id] = true
		}
	}
	for _, e := range all {
		for _, id := range strings.Fields(e.attr["aria-labelledby"]) {
			if !ids[id] {
				t.Errorf("a %s is labelled by %q, which is not there", e.name, id)
			}
		}
	}
	for _, a := range named(all, "a") {
		if anchor, local := strings.CutPrefix(a.attr["href"], "#"); local && !ids[anchor] {
			t.Errorf("a link to %q leads nowhere", anchor)
		} else if _, written := files[a.attr["href"]]; !local && !written {
			t.Errorf("a link to %q leads nowhere", a.attr["href"])
		}
	}
	for _, id := range []string{"stable", "stable.figures", "figures-only", "all-kinds", "sweep", "tasks", "tried"} {
		if !ids[id] {
			t.Errorf("no element with the ID %q", id)
		}
	}
}

func TestPageNeedsNoNetwork(t *testing.T) {
	page, all := samplePage(t)
	for _, e := range all {
		if _, has := e.attr["src"]; has || slices.Contains([]string{"script", "link", "img", "iframe", "image", "use"}, e.name) {
			t.Errorf("the page loads something: %+v", e)
		}
	}
	outside := strings.ReplaceAll(page, `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, word := range []string{"http:", "https:", "url(", "@import"} {
		if strings.Contains(outside, word) {
			t.Errorf("the page holds %q", word)
		}
	}
}

func TestPageEscapes(t *testing.T) {
	page, all := samplePage(t)
	for _, raw := range []string{"<script", "<b>", "<i>", "<1>", "<x>"} {
		if strings.Contains(page, raw) {
			t.Errorf("the page holds a raw %s", raw)
		}
	}
	if h1 := named(all, "h1"); len(h1) != 1 || h1[0].text != sample().Title {
		t.Errorf("title %+v", h1)
	}
	described := false
	for _, e := range named(all, "desc") {
		described = described || strings.Contains(e.text, "bound <1>: from 0 to 1.")
	}
	if !described {
		t.Error("a figure's description lacks a series")
	}
}

func TestTablesAreAccessible(t *testing.T) {
	_, all := samplePage(t)
	var heads, rows, cells []string
	for _, e := range all {
		switch {
		case e.name == "th" && e.attr["scope"] == "":
			t.Errorf("a header without a scope: %q", e.text)
		case e.name == "th" && e.attr["scope"] == "row":
			rows = append(rows, e.text)
		case e.name == "th" && e.attr["scope"] == "col":
			heads = append(heads, strings.TrimSpace(e.text))
		case e.name == "td":
			cells = append(cells, e.text)
		}
	}
	if want := []string{"policy", "cost", "utility", "ours", "paper", "ratio"}; !slices.Equal(heads, want) {
		t.Errorf("columns %q, want %q", heads, want)
	}
	if want := []string{`a, "quoted" <i>`, "b", "c"}; !slices.Equal(rows, want) {
		t.Errorf("rows %q, want %q", rows, want)
	}
	want := []string{
		"1.2", "0.897 (0.892–0.902)", "784 (700–900)", "713", "1.10",
		"–", "−0.010 (−0.020 to 0.003)", "12", "0", "–",
		"–", "–", "–", "–", "–",
	}
	if !slices.Equal(cells, want) {
		t.Errorf("cells %q, want %q", cells, want)
	}
	if captions := named(all, "caption"); len(captions) != 1 {
		t.Errorf("%d captions, want 1", len(captions))
	}
}

func TestFiguresAreAccessible(t *testing.T) {
	_, all := samplePage(t)
	var captions, titles, legend []string
	plots := 0
	for _, e := range all {
		inside := ""
		if len(e.path) > 0 {
			inside = e.path[len(e.path)-1]
		}
		switch {
		case e.name == "figcaption":
			captions = append(captions, e.text)
		case e.name == "title" && inside == "svg":
			titles = append(titles, e.text)
		case e.name == "span" && inside == "li":
			legend = append(legend, e.text)
		case e.name == "svg" && e.attr["role"] == "img":
			plots++
		case e.name == "svg" && e.attr["aria-hidden"] != "true":
			t.Errorf("an SVG that is neither an image nor hidden: %+v", e)
		}
	}
	want := []string{"Sweep", "Tasks"}
	if !slices.Equal(captions, want) || !slices.Equal(titles, want) || plots != 2 {
		t.Errorf("%d plots with captions %q and titles %q, want %q", plots, captions, titles, want)
	}
	if want := []string{"first", "bound <1>", "rate", "first", "other"}; !slices.Equal(legend, want) {
		t.Errorf("legend %q, want %q", legend, want)
	}
}
