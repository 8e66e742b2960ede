package balance

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"strconv"
	"strings"

	"gearshift/router/fleet"
)

// PowerOfK draws K distinct available replicas, each set equally likely, and picks
// the one with the fewest requests in flight; any of equals. K of 1 is a random
// replica, and the more there are the nearer it comes to [SmallestBatch], which herds
// where many routers share a fleet. Where there are no more than K, all are drawn.
type PowerOfK struct{ K int }

const (
	powerOfK   = "power-of-k:"
	powerOfTwo = "power-of-two" // K of 2, which has a name of its own
)

// maxK bounds K: far more than helps.
const maxK = 64

// Name is "power-of-k:K", or "power-of-two".
func (b PowerOfK) Name() string {
	if b.K == 2 {
		return powerOfTwo
	}
	return powerOfK + strconv.Itoa(b.K)
}

// drawStream sets the numbers that draw replicas apart from others of a seed.
const drawStream = 0x64726177

// Pick implements router.Balancer.
func (b PowerOfK) Pick(v *fleet.View, _ *fleet.Request, variant int, random uint64) int {
	var source rand.PCG // which a rand.Rand would make escape
	source.Seed(random, drawStream)
	chance := func(n int) int {
		high, _ := bits.Mul64(source.Uint64(), uint64(n))
		return int(high)
	}
	best, ties := -1, 0
	// Knuth's selection sampling (The Art of Computer Programming, 3.4.2, S): each
	// is drawn with the chance of those wanted among those left.
	wanted, left := b.K, count(v, variant, math.MaxInt32)
	for _, i := range v.ReplicasOf(variant) {
		if wanted == 0 {
			break
		}
		if !v.Available(i) {
			continue
		}
		drawn := wanted >= left || chance(left) < wanted
		left--
		if !drawn {
			continue
		}
		wanted--
		switch {
		case best < 0 || v.InFlight[i] < v.InFlight[best]:
			best, ties = i, 1
		case v.InFlight[i] == v.InFlight[best]:
			if ties++; chance(ties) == 0 {
				best = i
			}
		}
	}
	return best
}

// parsePowerOfK reads "power-of-k:K"; false if name is of no such form.
func parsePowerOfK(name string) (Balancer, bool, error) {
	text, ok := strings.CutPrefix(name, powerOfK)
	if !ok {
		return nil, false, nil
	}
	k, err := strconv.Atoi(text)
	if err != nil || k < 1 || k > maxK {
		return nil, true, fmt.Errorf("balancer %q: want %sK with a K of 1 to %d", name, powerOfK, maxK)
	}
	return PowerOfK{K: k}, true, nil
}
