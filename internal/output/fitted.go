package output

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Width is how many columns a short form takes at most.
const Width = 100

// leastName is the least room for names in a table, in columns.
const leastName = 30

// Fitted writes a table of at most Width columns, the first row of which is the
// header. The column at the index has what room the others leave. Where that is too little,
// the header of the last column is cut; where it is below leastName, the last columns are
// left out.
func Fitted(b *strings.Builder, rows [][]string, elastic int) {
	last := len(rows[0]) - 1
	room := func(columns int) int {
		left := Width
		for c := range columns {
			if c != elastic {
				left -= widest(rows, c) + 2
			}
		}
		return left
	}
	if body := widest(rows[1:], last); last != elastic && room(last+1) < widest(rows, elastic) {
		rows[0][last] = Fit(rows[0][last], max(body, 8))
	}
	columns := last + 1
	for columns > elastic+2 && room(columns) < leastName {
		columns--
	}
	name := min(widest(rows, elastic), max(room(columns), leastName))
	for _, row := range rows {
		var line strings.Builder
		for c, cell := range row[:columns] {
			width := widest(rows, c)
			if c == elastic {
				width, cell = name, Fit(cell, name)
			}
			line.WriteString(cell)
			line.WriteString(strings.Repeat(" ", width-utf8.RuneCountInString(cell)+2))
		}
		fmt.Fprintln(b, strings.TrimRight(line.String(), " "))
	}
}

// widest returns the width of a column.
func widest(rows [][]string, column int) (width int) {
	for _, row := range rows {
		width = max(width, utf8.RuneCountInString(row[column]))
	}
	return width
}

// Fit cuts what is wider than so many columns.
func Fit(text string, columns int) string {
	if runes := []rune(text); len(runes) > columns {
		return string(runes[:columns-1]) + "…"
	}
	return text
}

// FitEnd is Fit for text whose end matters most, such as a file's path.
func FitEnd(text string, columns int) string {
	if runes := []rune(text); len(runes) > columns {
		return "…" + string(runes[len(runes)-columns+1:])
	}
	return text
}
