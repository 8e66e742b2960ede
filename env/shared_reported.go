package env

import "time"

// sharedReport is what a host says of itself besides what it has: how busy it was of late, and how long
// requests took.
type sharedReport struct {
	takes  [][levels]float32 // seconds, by slot and how many requests of it were there
	from   time.Duration     // the window began
	worked float64           // seconds of all cores, in the window
	done   int               // requests, in the window
	use    float64
	rate   float64
}

const (
	// levels is how many numbers of requests are distinguished.
	levels = 16
	// window is how long use and rate are measured; half of what is said is the last window's.
	window = time.Second
	// newest is the part of the newest request in the estimate of how long they take.
	newest = 0.2
)

// answered enters a request that found so many of its slot when it came.
func (t *sharedReport) answered(slot int, found int32, took time.Duration) {
	t.done++
	x := &t.takes[slot][min(found, levels-1)]
	if *x == 0 {
		*x = float32(took.Seconds())
		return
	}
	*x += newest * (float32(took.Seconds()) - *x)
}

// advance has time pass until now, in which cores were busy for so many seconds, and begins a new
// window if the last is over.
func (t *sharedReport) advance(busy float64, now time.Duration, cores float64) {
	t.worked += busy
	if passed := now - t.from; passed >= window {
		use, rate := t.worked/cores/passed.Seconds(), float64(t.done)/passed.Seconds()
		if t.from > 0 {
			use, rate = (use+t.use)/2, (rate+t.rate)/2
		}
		t.use, t.rate, t.from, t.worked, t.done = use, rate, now, 0, 0
	}
}

// estimate is how long requests of the slot took that found so many, or the nearest number
// of which there were any.
func (t *sharedReport) estimate(slot, have int) time.Duration {
	have = min(have, levels-1)
	for off := range levels {
		for _, at := range [2]int{have - off, have + off} {
			if at >= 0 && at < levels && t.takes[slot][at] > 0 {
				return time.Duration(t.takes[slot][at] * float32(time.Second))
			}
		}
	}
	return 0
}
