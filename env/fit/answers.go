package fit

import (
	"math"

	"gearshift/router/drift"
	"gearshift/router/profile"
)

// This file fits a latency model to answers that a router has timed, each with the load on its replica
// meanwhile. Unlike [Fit] it simulates nothing, so that a router can afford it while it serves.

const (
	// LeastAnswers is the fewest answers that [Refine] fits to.
	LeastAnswers = 20
	// Of the errors' logarithms: from what size on one weighs less, what a first token weighs, and how
	// far parameters are from the guess where no answer shows them (in steps of e).
	answerBend, firstWeight, guessSpread = 0.1, 0.35, 1.5
	// iterations of the least squares, and the change at which they end.
	mostIterations, settledChange = 25, 1e-4
	// mostRatio bounds a parameter, as a multiple of the guess or a fraction of it.
	mostRatio = 40
	// mostGrowth and mostContention bound what no engine exceeds.
	mostGrowth, mostContention = 0.5, 4
	// assumedLeast replaces a parameter of 0, which has no logarithm.
	assumedLeast = 1e-7
)

// refined are the parameters that answers show.
func refined(p *profile.Profile, crowded bool) []*float64 {
	list := []*float64{&p.LaunchFloor, &p.Weights, &p.Growth, &p.Token, &p.Context, &p.Sequence, &p.Prompt}
	if crowded {
		list = append(list, &p.Contention)
	}
	return list
}

// Refine returns the latency model under which the answers take as long as they took, begun at the guess.
// What they do not show stays near the guess. Chunked is set for engines that put prompts into decode
// steps. It returns the guess for fewer than [LeastAnswers].
func Refine(guess profile.Profile, answers []drift.Timing, chunked bool) profile.Profile {
	if len(answers) < LeastAnswers || guess.Batches != nil {
		return guess
	}
	r := refinement{guess: guess, answers: answers, chunked: chunked}
	for i := range answers {
		r.crowded = r.crowded || answers[i].During.Neighbours > 0
	}
	x := make([]float64, len(refined(&guess, r.crowded)))
	for k, p := range refined(&guess, r.crowded) {
		x[k] = math.Log(max(*p, assumedLeast))
	}
	r.centre = append(r.centre, x...)
	for range mostIterations {
		next := r.step(x)
		change := 0.0
		for k := range x {
			change = max(change, math.Abs(next[k]-x[k]))
		}
		if x = next; change < settledChange {
			break
		}
	}
	return r.model(x)
}

// refinement is least squares in progress, over the parameters' logarithms.
type refinement struct {
	guess            profile.Profile
	answers          []drift.Timing
	chunked, crowded bool
	centre           []float64
	damping          float64
}

// model returns the profile at x, within its bounds.
func (r *refinement) model(x []float64) profile.Profile {
	p := r.guess
	for k, to := range refined(&p, r.crowded) {
		low, high := r.centre[k]-math.Log(mostRatio), r.centre[k]+math.Log(mostRatio)
		*to = math.Exp(max(low, min(x[k], high)))
	}
	p.Growth, p.Contention = min(p.Growth, mostGrowth), min(p.Contention, mostContention)
	return p
}

// residuals appends the weighted errors of all times, as logarithms, and those of the parameters.
func (r *refinement) residuals(dst, x []float64) []float64 {
	p := r.model(x)
	for i := range r.answers {
		a := &r.answers[i]
		dst = append(dst, bent(math.Log(DecodeTime(&p, a, r.chunked)/(a.Decode.Seconds()*1000))))
		if a.First > 0 && a.Ahead == 0 {
			dst = append(dst, firstWeight*bent(math.Log(FirstTime(&p, a)/(a.First.Seconds()*1000))))
		}
	}
	for k := range x {
		dst = append(dst, (x[k]-r.centre[k])/guessSpread)
	}
	return dst
}

// bent returns an error that grows like its root from [answerBend] on, so that its square grows linearly.
func bent(e float64) float64 {
	if math.IsNaN(e) {
		return 0
	}
	if size := math.Abs(e); size > answerBend {
		return math.Copysign(math.Sqrt(answerBend*(2*size-answerBend)), e) / answerBend
	}
	return e / answerBend
}

// step returns the parameters after one step of Levenberg and Marquardt, which never makes the sum of
// squares larger.
func (r *refinement) step(x []float64) []float64 {
	const probe = 1e-3
	n := len(x)
	at := r.residuals(nil, x)
	jacobian := make([][]float64, n)
	moved := append([]float64(nil), x...)
	for k := range x {
		moved[k] = x[k] + probe
		column := r.residuals(make([]float64, 0, len(at)), moved)
		for i := range column {
			column[i] = (column[i] - at[i]) / probe
		}
		jacobian[k], moved[k] = column, x[k]
	}
	normal, gradient := make([][]float64, n), make([]float64, n)
	for j := range n {
		normal[j] = make([]float64, n)
		for k := range n {
			normal[j][k] = dot(jacobian[j], jacobian[k])
		}
		gradient[j] = dot(jacobian[j], at)
	}
	before := dot(at, at)
	for range 8 {
		delta := solved(normal, gradient, r.damping)
		next := make([]float64, n)
		for k := range x {
			next[k] = x[k] - max(-1, min(delta[k], 1))
		}
		if after := r.residuals(nil, next); dot(after, after) <= before {
			r.damping /= 4
			return next
		}
		r.damping = max(1e-3, r.damping*8)
	}
	return x
}

func dot(a, b []float64) (sum float64) {
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// solved returns the solution of a symmetric, positive system whose diagonal is larger by a share, by
// elimination.
func solved(matrix [][]float64, right []float64, damping float64) []float64 {
	n := len(right)
	a := make([][]float64, n)
	for j := range a {
		a[j] = append(append([]float64(nil), matrix[j]...), right[j])
		a[j][j] *= 1 + damping
	}
	for j := range n {
		for i := j + 1; i < n; i++ {
			by := a[i][j] / a[j][j]
			for k := j; k <= n; k++ {
				a[i][k] -= by * a[j][k]
			}
		}
	}
	x := make([]float64, n)
	for j := n - 1; j >= 0; j-- {
		x[j] = a[j][n]
		for k := j + 1; k < n; k++ {
			x[j] -= a[j][k] * x[k]
		}
		x[j] /= a[j][j]
	}
	return x
}

// Pace returns the time of a decode step of a mean load in milliseconds.
func Pace(p *profile.Profile, l *drift.Load) float64 {
	n := max(1, l.Sequences)
	low := math.Floor(n)
	at := func(sequences float64) float64 {
		ms, _ := p.Time(int(sequences), int(sequences), int(l.Context), l.Neighbours)
		return ms
	}
	ms := at(low)
	if part := n - low; part > 0 {
		ms += part * (at(low+1) - ms)
	}
	return ms
}

// DecodeTime returns the time that the answer's tokens take by the profile in milliseconds, prompts that
// are read meanwhile included.
func DecodeTime(p *profile.Profile, a *drift.Timing, chunked bool) float64 {
	pace := Pace(p, &a.During)
	ms := float64(a.Tokens) * pace
	if a.PromptSteps > 0 {
		tokens := a.PromptTokens / a.PromptSteps
		each := p.Prefill(tokens, a.During.Neighbours)
		if chunked {
			n := int(max(1, a.During.Sequences))
			with, _ := p.Time(n+tokens, n+1, int(a.During.Context), a.During.Neighbours)
			each = max(0, with-pace) + p.Prompt
		}
		ms += float64(a.PromptSteps) * each
	}
	if a.Whole {
		ms += FirstTime(p, a)
	}
	return ms
}

// FirstTime returns the time to the first token by the profile in milliseconds, of an answer that found
// no prompts ahead of its own: half of the step under way, and its prefill.
func FirstTime(p *profile.Profile, a *drift.Timing) float64 {
	ms := p.Prefill(a.Prompt, a.Before.Neighbours)
	if a.Before.Sequences >= 1 {
		ms += Pace(p, &a.Before) / 2
	}
	return ms
}
