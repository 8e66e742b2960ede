package report

import (
	"bytes"
	"encoding/csv"
	"math"
	"strconv"
)

// csvFolder holds one file for each table and figure, named after its ID.
const csvFolder = "csv"

func csvFile(id string) string { return csvFolder + "/" + id + ".csv" }

// fields returns the names of the CSV columns that the table's column takes.
func (c *Column) fields() []string {
	switch c.Kind {
	case KindInterval:
		return []string{c.Key, c.Key + "_lo", c.Key + "_hi"}
	case KindBeside:
		return []string{c.Key, c.Key + "_lo", c.Key + "_hi", c.Key + "_paper", c.Key + "_ratio"}
	}
	return []string{c.Key}
}

// values returns the cell's entries under its column's [Column.fields].
func (c Cell) values(column *Column) []string {
	switch c.kind {
	case KindText:
		return []string{c.text}
	case KindNumber:
		return []string{exact(c.value)}
	case KindInterval:
		return []string{exact(c.value), exact(c.lo), exact(c.hi)}
	case KindBeside:
		return []string{exact(c.value), exact(c.lo), exact(c.hi), exact(c.paper), exact(c.ratio())}
	}
	return make([]string, len(column.fields()))
}

// exact writes all digits of a number, and nothing for none.
func exact(v float64) string {
	if math.IsNaN(v) {
		return ""
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}

func (t *Table) csv() ([]byte, error) {
	var header []string
	for i := range t.Columns {
		header = append(header, t.Columns[i].fields()...)
	}
	records := [][]string{header}
	for _, row := range t.Rows {
		var record []string
		for i, cell := range row {
			record = append(record, cell.values(&t.Columns[i])...)
		}
		records = append(records, record)
	}
	return encoded(records)
}

// csv of a figure is a line for each point of each series; x is the name of the
// category where there are such, and the last column the label.
func (f *Figure) csv() ([]byte, error) {
	records := [][]string{{"series", "x", "y", "lo", "hi"}}
	labelled := f.labelled()
	if labelled {
		records[0] = append(records[0], "label")
	}
	for i := range f.Series {
		s := &f.Series[i]
		for j, x := range s.X {
			at := exact(x)
			if len(f.X.Categories) > 0 {
				at = f.X.Categories[int(x)]
			}
			record := []string{s.Name, at, nth(s.Y, j), nth(s.Lo, j), nth(s.Hi, j)}
			if labelled {
				record = append(record, s.label(j))
			}
			records = append(records, record)
		}
	}
	return encoded(records)
}

// nth returns an entry of values that may not be there.
func nth(values []float64, i int) string {
	if len(values) == 0 {
		return ""
	}
	return exact(values[i])
}

func encoded(records [][]string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	err := w.WriteAll(records)
	return b.Bytes(), err
}
