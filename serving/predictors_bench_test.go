package serving_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// prose is a text of so many bytes in lines of words, as JSON has it.
func prose(size int) string {
	random := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < size {
		for range 12 {
			for range 2 + random.IntN(7) {
				b.WriteByte(byte('a' + random.IntN(26)))
			}
			b.WriteByte(' ')
		}
		b.WriteString(`\n`)
	}
	return strings.TrimSuffix(b.String()[:size], `\`)
}

// A request whose quality is predicted costs no more memory than another, but for the fields of its
// answer's header: beyond eight fields, net/http's map of them grows.
func TestPredictionCostsNoMemory(t *testing.T) {
	upstream := instantly(t, "")
	off, _ := senderOf(t, proxied(t, upstream), prose(10<<10))
	on, _ := senderOf(t, proxied(t, upstream, predicting(t), withoutFields), prose(10<<10))
	for range 50 {
		off()
		on()
	}
	if with, without := allocations(on), allocations(off); with > without+growth {
		t.Errorf("%v allocations with a predictor, %v without", with, without)
	}
}

// growth allows for one allocation: whether a map grows depends on its seed, which is another in each process.
const growth = 1.5

// allocations returns the least mean of three, since some of what is counted is the runtime's own. Unlike
// [testing.AllocsPerRun] it does not round down, by which means that are almost equal could differ by one.
func allocations(send func()) float64 {
	least := math.Inf(1)
	for range 3 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		const runs = 100
		for range runs {
			send()
		}
		runtime.ReadMemStats(&after)
		least = min(least, float64(after.Mallocs-before.Mallocs)/runs)
	}
	return least
}

// BenchmarkProxyPredicted compares requests whose quality is predicted with requests of which it is not,
// in turn and over the same upstream. The metric added is the difference of the median times:
//
//	go test -run '^$' -bench ProxyPredicted ./serving
func BenchmarkProxyPredicted(b *testing.B) {
	for _, size := range []int{1 << 10, 10 << 10, 220 << 10} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			upstream := instantly(b, "")
			off, _ := senderOf(b, proxied(b, upstream), prose(size))
			on, _ := senderOf(b, proxied(b, upstream, predicting(b)), prose(size))
			for range 200 {
				off()
				on()
			}
			var with, without []time.Duration
			for b.Loop() {
				began := time.Now()
				on()
				middle := time.Now()
				off()
				with, without = append(with, middle.Sub(began)), append(without, time.Since(middle))
			}
			slices.Sort(with)
			slices.Sort(without)
			b.ReportMetric(float64(with[len(with)/2]-without[len(without)/2]), "added-ns/op")
		})
	}
}
