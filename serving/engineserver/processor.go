package engineserver

import (
	"runtime"
	"sync"
	"time"

	"gearshift/router/signals"
)

// processorEvery is how often the use of processors is measured at most.
const processorEvery = 500 * time.Millisecond

// processor measures what share of the machine's processors the program uses.
type processor struct {
	mu    sync.Mutex // protects all below
	at    time.Time
	used  time.Duration
	share float64
}

func newProcessor() *processor {
	p := &processor{at: time.Now(), share: signals.Unsaid}
	p.used, _ = processorTime()
	return p
}

// use returns the share of the last interval, or [signals.Unsaid] where there is none.
func (p *processor) use() float64 {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	past := now.Sub(p.at)
	if past < processorEvery {
		return p.share
	}
	used, ok := processorTime()
	if !ok {
		return signals.Unsaid
	}
	p.share = max(0, (used-p.used).Seconds()/past.Seconds()/float64(runtime.NumCPU()))
	p.at, p.used = now, used
	return p.share
}
