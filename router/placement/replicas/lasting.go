package replicas

// lasting learns how much of what differs now still differs later: a regression on two numbers,
// which forgets.
type lasting struct {
	keep                   float64 // of what is known, with each further case
	xx, xy, yy, xout, yout float64
}

// learn takes what differed then, and what does now.
func (l *lasting) learn(recent, trend, now float64) {
	l.xx = l.keep*l.xx + recent*recent
	l.xy = l.keep*l.xy + recent*trend
	l.yy = l.keep*l.yy + trend*trend
	l.xout = l.keep*l.xout + recent*now
	l.yout = l.keep*l.yout + trend*now
}

// few keeps the regression from large factors while it knows few cases.
const few = 1e-3

// expect returns what will differ.
func (l *lasting) expect(recent, trend float64) float64 {
	xx, yy := l.xx+few, l.yy+few
	det := xx*yy - l.xy*l.xy
	byRecent, byTrend := (yy*l.xout-l.xy*l.yout)/det, (xx*l.yout-l.xy*l.xout)/det
	return byRecent*recent + byTrend*trend
}
