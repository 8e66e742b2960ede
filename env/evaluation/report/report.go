// Package report renders an evaluation: one page of HTML that reads without a
// network, the same model as JSON, and a CSV file for each table and figure. It
// knows nothing of policies or workloads; its user fills a [Report].
//
// The same report gives the same bytes.
package report

// Report is what a run has to say, in the order in which the page says it: the
// verdict, the tables of all sections, their figures, how to repeat it.
type Report struct {
	Title    string    `json:"title"`
	Scenario string    `json:"scenario"` // one line: what was simulated, and under which profile
	Verdict  []string  `json:"verdict"`  // sentences, often three
	Sections []Section `json:"sections"`
	Repeat   string    `json:"repeat"` // command, version and seeds that give the report again

	// Files are written next to the page: what others read of the report that is no table
	// and no figure of it.
	Files []File `json:"-"`
	// Summary is for a terminal, after the verdict; empty is none. It may be Markdown.
	Summary string `json:"-"`
}

// File is a further file of a report.
type File struct {
	Name    string // without folders
	Content []byte
}

// Section groups the tables and figures of one question.
type Section struct {
	ID      string   `json:"id"` // lower-case words and digits, joined by hyphens
	Title   string   `json:"title"`
	Text    string   `json:"text,omitempty"` // paragraphs, parted by an empty line
	Tables  []Table  `json:"tables,omitempty"`
	Figures []Figure `json:"figures,omitempty"`
}

// Table is rows of cells under typed columns. The first column names the row if
// it is [KindText].
type Table struct {
	ID      string   `json:"id"` // as a section's, and the name of the CSV file
	Title   string   `json:"title"`
	Columns []Column `json:"columns"`
	Rows    [][]Cell `json:"rows"`
	Note    string   `json:"note,omitempty"`
}

// Column says what the cells below it hold.
type Column struct {
	Key      string `json:"key"` // the column's name in the CSV: a-z, 0-9, dots and underscores
	Title    string `json:"title"`
	Unit     string `json:"unit,omitempty"`
	Kind     Kind   `json:"kind"`
	Decimals int    `json:"decimals"` // that numbers are shown with; files hold all digits
}

// TextColumn returns a column of words.
func TextColumn(key, title string) Column { return Column{Key: key, Title: title, Kind: KindText} }

// NumberColumn returns a column of numbers with so many decimals.
func NumberColumn(key, title, unit string, decimals int) Column {
	return Column{Key: key, Title: title, Unit: unit, Kind: KindNumber, Decimals: decimals}
}

// IntervalColumn returns a column of means with their intervals.
func IntervalColumn(key, title, unit string, decimals int) Column {
	return Column{Key: key, Title: title, Unit: unit, Kind: KindInterval, Decimals: decimals}
}

// BesideColumn returns a column of our numbers next to the paper's.
func BesideColumn(key, title, unit string, decimals int) Column {
	return Column{Key: key, Title: title, Unit: unit, Kind: KindBeside, Decimals: decimals}
}

// Figure is a diagram of one or more series over common axes.
type Figure struct {
	ID     string   `json:"id"` // as a table's
	Title  string   `json:"title"`
	X      Axis     `json:"x"`
	Y      Axis     `json:"y"`
	Series []Series `json:"series"`
	Note   string   `json:"note,omitempty"`
	// Half draws the figure at half the width of a wide page, so that two
	// stand side by side.
	Half bool `json:"half,omitempty"`
}

// Axis is one axis of a figure. Its zero range fits the data.
type Axis struct {
	Label string `json:"label"`
	Unit  string `json:"unit,omitempty"`
	Log   bool   `json:"log,omitempty"`
	Range *Range `json:"range,omitempty"`
	// Categories names the positions 0, 1, … of an X axis that is not a
	// quantity.
	Categories []string `json:"categories,omitempty"`
}

// Range of an axis, from Min to Max. What lies outside is clipped.
type Range struct {
	Min float64 `json:"min"`
	Max float64 `json:"max"`
}

// Series is one quantity of a figure: Y at X, of equal lengths. A NaN in Y is a
// gap. Series of one name look the same in all figures of a report.
type Series struct {
	Name  string
	Style Style
	X, Y  []float64
	// Lo and Hi bound Y if they are there: a shaded interval of a line, an
	// error bar of a point or a bar, and all that there is of a [Band], whose
	// Y may be empty.
	Lo, Hi []float64
	// Labels, if they are there, name the points of a line or of points: one each, drawn
	// next to it; an empty one is none. A point with a label that lies above or below the Y
	// axis's range is drawn as an arrow on its edge, so its label should say where it is.
	Labels []string
}

// Block adds an area of height y from one x to another to a [Band]. One that begins before the last ended begins there: times that
// are rounded may.
func (s *Series) Block(from, to, y float64) {
	if n := len(s.X); n > 0 {
		from = max(from, s.X[n-1])
	}
	to = max(from, to)
	s.X, s.Lo, s.Hi = append(s.X, from, from, to, to), append(s.Lo, 0, 0, 0, 0), append(s.Hi, 0, y, y, 0)
}

// Style is how a series is drawn.
type Style string

// The styles of a series.
const (
	Line   Style = "line"
	Step   Style = "step"   // each Y holds until the next X
	Points Style = "points" // markers alone
	Bars   Style = "bars"   // over categories, next to the other bars there
	Band   Style = "band"   // the area from Lo to Hi
)

// MaxSeries is how many series a figure can tell apart.
const MaxSeries = 16
