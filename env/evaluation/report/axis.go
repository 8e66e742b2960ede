package report

import (
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
)

// scaled sets an axis of the plot up: its label, its scale, its ticks, and its
// range, if that is given.
func scaled(to *plot.Axis, a *Axis) {
	to.Label.Text = a.named()
	to.Tick.Marker = plot.TickerFunc(linearTicks)
	if a.Log {
		to.Scale = plot.LogScale{}
		to.Tick.Marker = plot.TickerFunc(logTicks)
	}
	if a.Range != nil {
		to.Min, to.Max = a.Range.Min, a.Range.Max
	}
}

// named returns the axis's label with its unit, "rate (requests/s)".
func (a *Axis) named() string {
	if a.Unit == "" {
		return a.Label
	}
	return a.Label + " (" + a.Unit + ")"
}

// roomy widens a range that the data set, so that no line lies on the frame; a
// range from or to 0 keeps that end.
func roomy(axis *plot.Axis, a *Axis) {
	if a.Range != nil || !(axis.Min <= axis.Max) {
		return
	}
	const share = 0.04
	if a.Log {
		factor := math.Pow(axis.Max/axis.Min, share)
		if factor == 1 {
			factor = 2
		}
		axis.Min, axis.Max = axis.Min/factor, axis.Max*factor
		return
	}
	room := share * (axis.Max - axis.Min)
	if room == 0 {
		room = max(math.Abs(axis.Max), 1) / 10
	}
	if axis.Min != 0 {
		axis.Min -= room
	}
	if axis.Max != 0 {
		axis.Max += room
	}
}

// linearTicks labels five or so round numbers of the range.
func linearTicks(low, high float64) []plot.Tick {
	const wanted = 5
	step := math.Pow10(int(math.Floor(math.Log10((high - low) / wanted))))
	for _, multiple := range []float64{1, 2, 5, 10} {
		if (high-low)/(step*multiple) <= wanted+1 {
			step *= multiple
			break
		}
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	var ticks []plot.Tick
	const slack = 1e-9
	for i := math.Ceil(low/step - slack); i <= high/step+slack; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: tickLabel(i*step, decimals)})
	}
	return ticks
}

// logTicks labels the numbers 1, 2, 5 × 10ⁿ of the range, or the powers of ten
// of a long one, and marks the digits between.
func logTicks(low, high float64) []plot.Tick {
	const longDecades = 2.7
	long := math.Log10(high/low) > longDecades
	var ticks []plot.Tick
	first, last := int(math.Floor(math.Log10(low))), int(math.Ceil(math.Log10(high)))
	for decade := first; decade <= last; decade++ {
		for digit := 1; digit < 10; digit++ {
			v, err := strconv.ParseFloat(strconv.Itoa(digit)+"e"+strconv.Itoa(decade), 64)
			if err != nil || v < low*(1-1e-9) || v > high*(1+1e-9) {
				continue
			}
			tick := plot.Tick{Value: v}
			if digit == 1 || !long && (digit == 2 || digit == 5) {
				tick.Label = tickLabel(v, max(0, -decade))
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// tickLabel groups the digits of large numbers, so that they can be counted.
func tickLabel(v float64, decimals int) string {
	label := decimal(v, decimals)
	if math.Abs(v) < 10_000 {
		return label
	}
	whole, fraction, _ := strings.Cut(label, ".")
	const group = 3
	for at := len(whole) - group; at > 0 && whole[at-1] <= '9'; at -= group {
		whole = whole[:at] + "," + whole[at:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole
}

// categorical names the positions of the X axis. Names too long for their
// share of the width are broken into lines, or turned if a word alone is.
func categorical(p *plot.Plot, names []string, width vg.Length) {
	style := &p.X.Tick.Label
	room := width / vg.Length(len(names)) * 0.92
	ticks := make(plot.ConstantTicks, len(names))
	turned := false
	for i, name := range names {
		label := broken(name, *style, room)
		turned = turned || style.Width(label) > room
		ticks[i] = plot.Tick{Value: float64(i), Label: label}
	}
	if turned {
		for i, name := range names {
			ticks[i].Label = name + "  " // clear of the axis
		}
		style.Rotation = math.Pi / 6
		style.XAlign, style.YAlign = text.XRight, text.YCenter
	}
	p.X.Tick.Marker = ticks
	p.X.Min, p.X.Max = -0.5, float64(len(names))-0.5
}

// broken breaks a name between its words into lines within the room.
func broken(name string, style text.Style, room vg.Length) string {
	var lines []string
	for _, word := range strings.Fields(name) {
		if last := len(lines) - 1; last >= 0 && style.Width(lines[last]+" "+word) <= room {
			lines[last] += " " + word
			continue
		}
		lines = append(lines, word)
	}
	return strings.Join(lines, "\n")
}
