package balance

import "math"

// budget keeps the questions of a client to so many for each request, on average, and spends
// them where they are of most worth: it sets the price that the worth of a question must reach.
type budget struct {
	price    float64 // as a logarithm
	left     float64 // questions
	requests float64
	work     float64 // mean of the estimates of requests
}

const (
	// priceStep is by how much the logarithm of the price rises with a question that was wanted
	// beyond the budget.
	priceStep = 0.02
	// saved bounds how many questions are saved up.
	saved = 4
	// firstPrice is the price at a budget of one question for each request. A client begins with
	// that, divided by the root of its budget: what it may ask seldom it asks for more worth.
	firstPrice = 0.1
)

// request begins one, of the estimated work. Chance, of 0 to 1, decides where a client's first
// question falls, so that clients do not all ask with the same request.
func (b *budget) request(each, work, chance float64) {
	if b.requests == 0 {
		b.left, b.price = chance, math.Log(firstPrice/math.Sqrt(each))
	}
	b.requests++
	b.left = min(saved, b.left+each)
	b.work += (work - b.work) / b.requests
}

// buys reports whether a question is worth its price, of which worth is measured in deviations
// of all loads. That counts for more the more work the request is.
func (b *budget) buys(worth, work float64) bool {
	if work > 0 {
		worth *= work / b.work
	}
	return worth > math.Exp(b.price)
}

// pay takes a question from the budget, if it has one left.
func (b *budget) pay() bool {
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

// settle changes the price after a request for which so many questions were wanted.
func (b *budget) settle(each float64, wanted int) {
	b.price = min(2, max(-12, b.price+priceStep*(float64(wanted)-each)))
}
