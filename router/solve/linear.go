package solve

import "slices"

// Linear solves small linear programs, reusing its memory: the simplex method on a dense tableau. The zero value is
// ready.
type Linear struct {
	rows, columns int
	cells         []float64 // by row, the last of which has what each column would add: the columns, then the limit
	// basis and free list the variable of each row and column: a column of the program, or the slack of a row,
	// numbered from the number of columns on.
	basis, free []int
}

// Begin starts a program of so many columns under these limits, none of which is below 0.
func (l *Linear) Begin(columns int, limits []float64) {
	l.rows, l.columns = len(limits), columns
	n := (l.rows + 1) * (columns + 1)
	l.cells = slices.Grow(l.cells[:0], n)[:n]
	clear(l.cells)
	for i, b := range limits {
		l.cells[i*(columns+1)+columns] = b
	}
	l.basis, l.free = l.basis[:0], l.free[:0]
	for i := range limits {
		l.basis = append(l.basis, columns+i)
	}
	for j := range columns {
		l.free = append(l.free, j)
	}
}

// Value sets the worth of a unit of the column.
func (l *Linear) Value(column int, value float64) { l.cells[l.rows*(l.columns+1)+column] = value }

// Use sets the amount of a limit that a unit of the column uses.
func (l *Linear) Use(row, column int, amount float64) { l.cells[row*(l.columns+1)+column] = amount }

// tiny bounds the numbers that count as zero.
const tiny = 1e-9

// Solve finds columns within the limits that are worth most together. It returns their worth, and writes them to x.
func (l *Linear) Solve(x []float64) (worth float64) {
	w := l.columns + 1
	for range 50 * (l.rows + l.columns) {
		enter := l.best()
		if enter < 0 {
			break
		}
		leave, least := -1, 0.0
		for i := range l.rows {
			if a := l.cells[i*w+enter]; a > tiny {
				if ratio := l.cells[i*w+l.columns] / a; leave < 0 || ratio < least {
					leave, least = i, ratio
				}
			}
		}
		if leave < 0 {
			break // it is unbounded
		}
		l.pivot(leave, enter)
	}
	clear(x)
	for i, j := range l.basis {
		if j < l.columns {
			x[j] = l.cells[i*w+l.columns]
		}
	}
	return 0 - l.cells[l.rows*w+l.columns] // not -0
}

// best returns the column that adds most for a unit; −1 if none adds anything.
func (l *Linear) best() int {
	enter, most := -1, tiny
	for j, v := range l.cells[l.rows*(l.columns+1):][:l.columns] {
		if v > most {
			enter, most = j, v
		}
	}
	return enter
}

// pivot exchanges the variables of a row and a column.
func (l *Linear) pivot(row, column int) {
	w := l.columns + 1
	pivot := l.cells[row*w : row*w+w]
	by := 1 / pivot[column]
	for j := range pivot {
		pivot[j] *= by
	}
	pivot[column] = by
	for i := range l.rows + 1 {
		if i == row {
			continue
		}
		other := l.cells[i*w : i*w+w]
		factor := other[column]
		if factor == 0 {
			continue
		}
		for j := range other {
			other[j] -= factor * pivot[j]
		}
		other[column] = -factor * by
	}
	l.basis[row], l.free[column] = l.free[column], l.basis[row]
}
