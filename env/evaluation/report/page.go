package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
)

//go:embed page.tmpl
var pageText string

//go:embed page.css
var pageStyle string

var pageTemplate = template.Must(template.New("page").Parse(pageText))

// pageIDs are the anchors of the page's own parts.
var pageIDs = []string{"contents", "verdict", "tables", "figures", "repeat"}

// figuresOf returns the anchor of a section's figures. No ID has a dot, so the
// page's own anchors meet none.
func figuresOf(section string) string { return section + ".figures" }

// page is what the template fills in.
type page struct {
	*Report
	Style    template.CSS
	Chapters []chapter
}

// chapter is a section as the page has it.
type chapter struct {
	ID, FiguresID, Title string
	Text                 []string // paragraphs
	TextWithFigures      bool     // the section has no tables to put its text before
	Tables               []sheet
	Figures              []picture
}

// sheet is a table in words.
type sheet struct {
	*Table
	Rows [][]field
	File string
}

// Header cells of a [KindBeside] column stand in two rows, so the others span
// both.
func (s sheet) TwoRows() bool {
	for i := range s.Columns {
		if s.Columns[i].Kind == KindBeside {
			return true
		}
	}
	return false
}

// field is one td, or th, of a row.
type field struct {
	Text   string
	Header bool // names the row
	Number bool
	Start  bool // of the fields of a [KindBeside] column
}

// picture is a figure drawn.
type picture struct {
	*Figure
	SVG    template.HTML
	Legend []entry
	File   string
}

type entry struct {
	Sample template.HTML
	Name   string
}

// page renders the report as HTML.
func (r *Report) page() ([]byte, error) {
	p := page{Report: r, Style: template.CSS(colours() + pageStyle)}
	of := looks(r.figures())
	for i := range r.Sections {
		s := &r.Sections[i]
		c := chapter{
			ID: s.ID, FiguresID: figuresOf(s.ID), Title: s.Title, Text: paragraphs(s.Text),
			TextWithFigures: len(s.Tables) == 0 && len(s.Figures) > 0,
		}
		for j := range s.Tables {
			c.Tables = append(c.Tables, s.Tables[j].sheet())
		}
		for j := range s.Figures {
			drawn, err := s.Figures[j].picture(of)
			if err != nil {
				return nil, err
			}
			c.Figures = append(c.Figures, drawn)
		}
		p.Chapters = append(p.Chapters, c)
	}
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, p); err != nil {
		return nil, fmt.Errorf("cannot write %s: %w", pageFile, err)
	}
	return b.Bytes(), nil
}

func (r *Report) figures() []*Figure {
	var all []*Figure
	for i := range r.Sections {
		for j := range r.Sections[i].Figures {
			all = append(all, &r.Sections[i].Figures[j])
		}
	}
	return all
}

func (t *Table) sheet() sheet {
	s := sheet{Table: t, File: csvFile(t.ID)}
	for _, row := range t.Rows {
		var fields []field
		for j, cell := range row {
			column := t.Columns[j]
			words := column.Kind == KindText
			for k, text := range cell.shown(column) {
				fields = append(fields, field{text, words && j == 0, !words, column.Kind == KindBeside && k == 0})
			}
		}
		s.Rows = append(s.Rows, fields)
	}
	return s
}

func (f *Figure) picture(of map[*Series]look) (picture, error) {
	p := picture{Figure: f, File: csvFile(f.ID)}
	var err error
	if p.SVG, err = f.svg(of); err != nil {
		return p, err
	}
	for i := range f.Series {
		s := &f.Series[i]
		sample, err := s.sample(of[s])
		if err != nil {
			return p, err
		}
		p.Legend = append(p.Legend, entry{sample, s.Name})
	}
	return p, nil
}

// paragraphs parts a text at its empty lines.
func paragraphs(text string) []string {
	var all []string
	for p := range strings.SplitSeq(text, "\n\n") {
		if p = strings.TrimSpace(p); p != "" {
			all = append(all, p)
		}
	}
	return all
}

// colours gives each role of the palette its colour. Paper is light, whatever
// the screen is.
func colours() string {
	var light, dark strings.Builder
	for _, p := range palette {
		fmt.Fprintf(&light, "--%s:%s;", p.name, p.light)
		fmt.Fprintf(&dark, "--%s:%s;", p.name, p.dark)
	}
	return fmt.Sprintf(":root{color-scheme:light;%s}\n@media screen and (prefers-color-scheme:dark){:root{color-scheme:dark;%s}}\n",
		light.String(), dark.String())
}
