package report

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	sentences   = 24 // of the verdict, at most
	maxDecimals = 9
)

var (
	idForm  = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)
	keyForm = regexp.MustCompile(`^[a-z0-9_.]+$`)
)

// Validate names every fault of the report, one a line; nil if there is none.
func (r *Report) Validate() error {
	c := &checker{ids: map[string]string{}}
	c.report(r)
	return errors.Join(c.faults...)
}

// checker gathers faults. where is what it is looking at.
type checker struct {
	where  string
	faults []error
	ids    map[string]string // what bears an ID
}

func (c *checker) fault(format string, args ...any) {
	c.faults = append(c.faults, fmt.Errorf("%s: %s", c.where, fmt.Sprintf(format, args...)))
}

// faultIf is fault where bad holds.
func (c *checker) faultIf(bad bool, format string, args ...any) {
	if bad {
		c.fault(format, args...)
	}
}

// need faults a text that is empty.
func (c *checker) need(name, text string) {
	c.faultIf(strings.TrimSpace(text) == "", "no %s", name)
}

// id begins to look at what bears the ID.
func (c *checker) id(what, id string) {
	c.where = fmt.Sprintf("%s %q", what, id)
	c.faultIf(!idForm.MatchString(id), "want an ID of lower-case words and digits joined by hyphens")
	if other, taken := c.ids[id]; taken {
		c.fault("%s has the same ID", other)
	}
	c.ids[id] = "a " + what
}

// files faults names that are not of a file in the report's folder, or of another one's.
func (c *checker) files(r *Report) {
	taken := []string{csvFolder, jsonFile, pageFile}
	for _, f := range r.Files {
		c.faultIf(!filepath.IsLocal(f.Name) || filepath.Base(f.Name) != f.Name || f.Name == ".", "the file %q: want a name without folders", f.Name)
		c.faultIf(slices.Contains(taken, f.Name), "two files are named %q", f.Name)
		taken = append(taken, f.Name)
	}
}

func (c *checker) report(r *Report) {
	c.where = "report"
	c.need("title", r.Title)
	c.need("scenario", r.Scenario)
	c.need("way to repeat it", r.Repeat)
	c.faultIf(len(r.Verdict) < 1 || len(r.Verdict) > sentences, "a verdict of %d sentences: want 1 to %d", len(r.Verdict), sentences)
	for i, sentence := range r.Verdict {
		c.need(fmt.Sprintf("sentence %d of the verdict", i+1), sentence)
	}
	c.faultIf(len(r.Sections) == 0, "no sections")
	c.files(r)
	for _, reserved := range pageIDs {
		c.ids[reserved] = "the page itself"
	}
	for i := range r.Sections {
		c.section(&r.Sections[i])
	}
}

func (c *checker) section(s *Section) {
	c.id("section", s.ID)
	c.need("title", s.Title)
	c.faultIf(s.Text == "" && len(s.Tables) == 0 && len(s.Figures) == 0, "neither text, tables nor figures")
	for i := range s.Tables {
		c.table(&s.Tables[i])
	}
	for i := range s.Figures {
		c.figure(&s.Figures[i])
	}
}

func (c *checker) table(t *Table) {
	c.id("table", t.ID)
	c.need("title", t.Title)
	c.faultIf(len(t.Columns) == 0, "no columns")
	c.faultIf(len(t.Rows) == 0, "no rows")
	var fields []string
	for i := range t.Columns {
		column := &t.Columns[i]
		c.column(i, column)
		for _, f := range column.fields() {
			c.faultIf(slices.Contains(fields, f), "two columns write the field %q: want other keys", f)
			fields = append(fields, f)
		}
	}
	for i, row := range t.Rows {
		c.row(i, row, t.Columns)
	}
}

func (c *checker) column(i int, column *Column) {
	c.faultIf(!keyForm.MatchString(column.Key), "column %d: key %q: want a-z, 0-9, dots and underscores", i+1, column.Key)
	c.need(fmt.Sprintf("title of column %d", i+1), column.Title)
	if !slices.Contains([]Kind{KindText, KindNumber, KindInterval, KindBeside}, column.Kind) {
		c.fault("column %d: unknown kind %q", i+1, column.Kind)
	}
	c.faultIf(column.Decimals < 0 || column.Decimals > maxDecimals, "column %d: %d decimals: want 0 to %d", i+1, column.Decimals, maxDecimals)
}

func (c *checker) row(i int, row []Cell, columns []Column) {
	if len(row) != len(columns) {
		c.fault("row %d: %d cells: want %d, as columns", i+1, len(row), len(columns))
		return
	}
	for j, cell := range row {
		c.faultIf(cell.kind != "" && cell.kind != columns[j].Kind, "row %d: a cell of %s in the %s column %q", i+1, cell.kind, columns[j].Kind, columns[j].Title)
		for _, v := range []float64{cell.value, cell.lo, cell.hi, cell.paper} {
			c.faultIf(math.IsInf(v, 0), "row %d: an infinite number in column %q: want NaN for what is missing", i+1, columns[j].Title)
		}
		c.faultIf(cell.lo > cell.hi, "row %d: an interval from %g down to %g in column %q", i+1, cell.lo, cell.hi, columns[j].Title)
	}
}
