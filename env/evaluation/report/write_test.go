package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// contents reads every file below the folder, by slash-separated name.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(filepath.Join(dir, name))
		files[name] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func write(t *testing.T, dir string) map[string]string {
	t.Helper()
	if err := sample().Write(dir); err != nil {
		t.Fatal(err)
	}
	return contents(t, dir)
}

func TestWriteWritesTheSameBytesTwice(t *testing.T) {
	first := write(t, filepath.Join(t.TempDir(), "made", "on", "the", "way"))
	want := []string{"csv/all-kinds.csv", "csv/sweep.csv", "csv/tasks.csv", "report.html", "report.json"}
	if got := slices.Sorted(maps.Keys(first)); !slices.Equal(got, want) {
		t.Errorf("wrote %v, want %v", got, want)
	}
	if !maps.Equal(first, write(t, t.TempDir())) {
		t.Error("the same report gives other bytes")
	}
}

func TestWriteReplacesAReportAndNothingElse(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "surface.csv")
	if err := os.WriteFile(own, []byte("own"), 0o644); err != nil {
		t.Fatal(err)
	}
	write(t, dir)
	r := sample()
	r.Title = "Newer"
	r.Sections[0].Tables = nil
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	got := contents(t, dir)
	if want := []string{"csv/sweep.csv", "csv/tasks.csv", "report.html", "report.json", "surface.csv"}; !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		t.Errorf("left %v, want %v", slices.Sorted(maps.Keys(got)), want)
	}
	if !strings.Contains(got["report.html"], "<h1>Newer</h1>") || got["surface.csv"] != "own" {
		t.Error("the newer report is not there, or a file that is not the report's has changed")
	}
}

func TestWriteOfAFaultyReportLeavesTheOldOne(t *testing.T) {
	dir := t.TempDir()
	before := write(t, dir)
	r := sample()
	r.Verdict = nil
	if err := r.Write(dir); err == nil || !strings.Contains(err.Error(), "a verdict of 0 sentences") {
		t.Errorf("want the fault, got %v", err)
	}
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("the old report has changed")
	}
}

// TestInterruptedSwapLeavesTheOldReport has the last of the three moves fail.
func TestInterruptedSwapLeavesTheOldReport(t *testing.T) {
	dir := t.TempDir()
	before := write(t, dir)
	fresh, aside := t.TempDir(), t.TempDir()
	write(t, fresh)
	if err := os.Remove(filepath.Join(fresh, pageFile)); err != nil {
		t.Fatal(err)
	}
	if err := swap(dir, fresh, aside, sample().places()); err == nil {
		t.Fatal("moved a page that is not there")
	}
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("the old report has changed")
	}
}

func TestWriteSparesWhatIsNotAReport(t *testing.T) {
	for _, name := range []string{"csv/own.csv", "report.html", "report.json"} {
		dir := t.TempDir()
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(`{"format":"another"}`), 0o644); err != nil {
			t.Fatal(err)
		}
		before := contents(t, dir)
		if err := sample().Write(dir); err == nil || !strings.Contains(err.Error(), "choose another folder") {
			t.Errorf("over %s: want a refusal, got %v", name, err)
		}
		if !maps.Equal(before, contents(t, dir)) {
			t.Errorf("%s: the folder has changed", name)
		}
	}
}

func records(t *testing.T, text string) []map[string]string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var all []map[string]string
	for _, row := range rows[1:] {
		record := map[string]string{}
		for i, name := range rows[0] {
			record[name] = row[i]
		}
		all = append(all, record)
	}
	return all
}

// sameNumber compares a CSV field with the number it stands for.
func sameNumber(t *testing.T, field string, want float64) {
	t.Helper()
	if math.IsNaN(want) {
		if field != "" {
			t.Errorf("field %q for a number that is missing", field)
		}
		return
	}
	if got, err := strconv.ParseFloat(field, 64); err != nil || got != want {
		t.Errorf("field %q, want %v", field, want)
	}
}

func TestTableCSVHoldsAllDigits(t *testing.T) {
	rows := records(t, write(t, t.TempDir())["csv/all-kinds.csv"])
	if len(rows) != 3 || rows[0]["policy"] != `a, "quoted" <i>` {
		t.Fatalf("read %v", rows)
	}
	for field, want := range map[string]float64{
		"cost": 1.25, "utility": 0.8971234, "utility_lo": 0.892, "utility_hi": 0.902,
		"windows": 784, "windows_lo": 700, "windows_hi": 900, "windows_paper": 713, "windows_ratio": 784.0 / 713,
	} {
		sameNumber(t, rows[0][field], want)
	}
	for field, value := range rows[2] {
		if field != "policy" && value != "" {
			t.Errorf("missing %s is %q", field, value)
		}
	}
}

func TestFigureCSVHoldsAllPoints(t *testing.T) {
	files := write(t, t.TempDir())
	for _, f := range sample().figures() {
		rows := records(t, files[csvFile(f.ID)])
		for i := range f.Series {
			s := &f.Series[i]
			for j, x := range s.X {
				row := rows[0]
				rows = rows[1:]
				if row["series"] != s.Name {
					t.Errorf("series %q, want %q", row["series"], s.Name)
				}
				if f.X.Categories != nil && row["x"] != f.X.Categories[int(x)] {
					t.Errorf("x %q, want the category %v", row["x"], x)
				}
				if f.X.Categories == nil {
					sameNumber(t, row["x"], x)
				}
				for field, values := range map[string][]float64{"y": s.Y, "lo": s.Lo, "hi": s.Hi} {
					want := math.NaN()
					if len(values) > 0 {
						want = values[j]
					}
					sameNumber(t, row[field], want)
				}
			}
		}
		if len(rows) > 0 {
			t.Errorf("%s: %d rows too many", f.ID, len(rows))
		}
	}
}

func TestJSONHoldsTheModel(t *testing.T) {
	text := write(t, t.TempDir())["report.json"]
	var got struct {
		Format   string
		Verdict  []string
		Sections []struct {
			ID     string
			Tables []struct {
				Columns []Column
				Rows    [][]json.RawMessage
			}
			Figures []struct {
				X      Axis
				Series []struct {
					Name string
					Y    []*float64
				}
			}
		}
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if got.Format != format || len(got.Verdict) != 3 || len(got.Sections) != 3 {
		t.Fatalf("read %+v", got)
	}
	var rows [][]string
	for _, row := range got.Sections[0].Tables[0].Rows {
		var cells []string
		for _, cell := range row {
			cells = append(cells, string(bytes.TrimSpace(cell)))
		}
		rows = append(rows, cells)
	}
	want := [][]string{
		{`"a, \"quoted\" \u003ci\u003e"`, `1.25`, `{"mean":0.8971234,"lo":0.892,"hi":0.902}`,
			`{"ours":784,"lo":700,"hi":900,"paper":713,"ratio":1.0995792426367461}`},
		{`"b"`, `null`, `{"mean":-0.01,"lo":-0.02,"hi":0.003}`, `{"ours":12,"lo":null,"hi":null,"paper":0,"ratio":null}`},
		{`"c"`, `null`, `null`, `null`},
	}
	for i := range want {
		if !slices.Equal(rows[i], want[i]) {
			t.Errorf("row %d:\n%v, want\n%v", i+1, rows[i], want[i])
		}
	}
	first := got.Sections[0].Figures[0].Series[0]
	if !got.Sections[0].Figures[0].X.Log || first.Name != "first" || first.Y[2] != nil || *first.Y[4] != 0.7 {
		t.Errorf("read %+v", got.Sections[0].Figures[0])
	}
}

// A report's further files come and go with it, and their names cannot be its own.
func TestWriteOfFurtherFiles(t *testing.T) {
	dir := t.TempDir()
	r := sample()
	r.Files = []File{{Name: "points.json", Content: []byte("{}")}}
	for _, text := range []string{"{}", "[]"} {
		r.Files[0].Content = []byte(text)
		if err := r.Write(dir); err != nil {
			t.Fatal(err)
		}
		if got := contents(t, dir)["points.json"]; got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	before := contents(t, dir)
	for name, want := range map[string]string{
		"report.json": "two files are named", "csv": "two files are named", "a/b": "without folders", "..": "without folders", "": "without folders", ".": "without folders",
	} {
		r.Files[0].Name = name
		if err := r.Write(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", name, err, want)
		}
	}
	if !maps.Equal(before, contents(t, dir)) {
		t.Error("a faulty report has changed the old one")
	}
}
