package feedback

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/quality"
)

// watch is a clock that is set by hand.
type watch time.Duration

func (w *watch) now() time.Duration { return time.Duration(*w) }

func anHour() time.Duration { return time.Hour }

// sampleOf returns a sample of n words, which differ by seed.
func sampleOf(n int, seed uint64) *quality.Sample {
	random := rand.New(rand.NewPCG(seed, 1))
	s := &quality.Sample{}
	for range n {
		s.IDs, s.Counts = append(s.IDs, uint16(random.Uint32())), append(s.Counts, uint16(random.Uint32()))
		s.Words = append(s.Words, random.Uint32())
	}
	s.Form[0] = float32(seed)
	return s
}

// answer has a request remembered and answered.
func answer(m *Memory, owner, request, id string, s *quality.Sample) {
	t := m.Begin(&Request{Owner: owner, ID: request, Task: 2, Sample: s})
	m.Answered(t, Answer{Variant: 1, Arm: OnTrial, ID: []byte(id)})
	m.Ended(t, true)
}

func TestAnAnswerIsScoredOnceByItsOwner(t *testing.T) {
	var w watch
	m := NewMemory(10, 1<<20, anHour, w.now)
	s := sampleOf(20, 1)
	p := fleet.Prediction{Known: true, Quality: [fleet.MostPredicted]float32{0.25, 0.75}}
	ticket := m.Begin(&Request{Owner: "a", ID: "r1", Task: 2, Predicted: &p, Sample: s})
	want := Label{Owner: "a", Task: 2, Variant: 1, Arm: OnTrial, Candidate: true, Score: 0.5, Predicted: 0.75, Known: true, Sample: s.Clone()}
	*s = *sampleOf(20, 2) // the caller's again
	if _, err := m.Score("a", "r1", 1); !errors.Is(err, ErrUnknown) {
		t.Errorf("before its answer: %v", err)
	}
	m.Answered(ticket, Answer{Variant: 1, Arm: OnTrial, Candidate: true, ID: []byte("chatcmpl-1")})
	m.Ended(ticket, true)
	for _, c := range []struct {
		owner, id string
		want      error
	}{
		{"b", "chatcmpl-1", ErrUnknown}, {"b", "r1", ErrUnknown}, {"a", "chatcmpl-2", ErrUnknown}, {"", "r1", ErrUnknown},
		{"a", "chatcmpl-1", nil}, {"a", "chatcmpl-1", ErrTwice}, {"a", "r1", ErrTwice}, {"b", "r1", ErrUnknown},
	} {
		l, err := m.Score(c.owner, c.id, 0.5)
		if !errors.Is(err, c.want) {
			t.Errorf("%s scores %s: %v, want %v", c.owner, c.id, err, c.want)
		}
		if err == nil && !reflect.DeepEqual(l, want) {
			t.Errorf("%+v, want %+v", l, want)
		}
	}
}

func TestAnswersGetTooOldToBeScored(t *testing.T) {
	var w watch
	m := NewMemory(10, 1<<20, anHour, w.now)
	ticket := m.Begin(&Request{ID: "slow", Sample: sampleOf(3, 1)})
	w = watch(50 * time.Minute)
	m.Answered(ticket, Answer{})
	m.Ended(ticket, true)
	answer(m, "", "quick", "x", sampleOf(3, 2))
	w = watch(110 * time.Minute)
	if _, err := m.Score("", "slow", 1); err != nil {
		t.Errorf("an hour after the answer's end: %v", err)
	}
	w++
	m.Expire()
	if _, err := m.Score("", "quick", 1); !errors.Is(err, ErrLate) {
		t.Errorf("later: %v", err)
	}
	if m.Expire(); m.samples.memory[0] != 0 || m.samples.memory[12] != 0 {
		t.Error("samples of answers that are too old are kept")
	}
}

func TestWhoIsAlone(t *testing.T) {
	var w watch
	m := NewMemory(2, 1<<20, anHour, w.now)
	for _, c := range []struct {
		owner string
		at    time.Duration
		want  bool
	}{{"a", 0, true}, {"a", 0, true}, {"b", 0, false}, {"b", 0, true}, {"a", 0, false}, {"b", 61 * time.Minute, true}, {"b", 61 * time.Minute, true}} {
		w = watch(c.at)
		answer(m, c.owner, "r", "x", sampleOf(1, 1))
		if m.Alone() != c.want {
			t.Errorf("%s at %v: alone is %v", c.owner, c.at, m.Alone())
		}
	}
}

func TestWhatIsNoAnswerIsNotScored(t *testing.T) {
	var w watch
	m := NewMemory(10, 1<<20, anHour, w.now)
	for i, c := range []struct{ answered, ended bool }{{true, false}, {false, true}, {false, false}} {
		id := fmt.Sprint(i)
		ticket := m.Begin(&Request{ID: id, Sample: sampleOf(3, 1)})
		if c.answered {
			m.Answered(ticket, Answer{})
		}
		m.Ended(ticket, c.ended)
		if _, err := m.Score("", id, 1); !errors.Is(err, ErrUnknown) {
			t.Errorf("answered %v, ended well %v: %v", c.answered, c.ended, err)
		}
	}
}

// Some engines number their answers from one again.
func TestTheLastOfEqualIDsIsScored(t *testing.T) {
	var w watch
	m := NewMemory(3, 1<<20, anHour, w.now)
	answer(m, "a", "r1", "chatcmpl-7", sampleOf(3, 1))
	answer(m, "a", "r2", "chatcmpl-7", sampleOf(3, 2))
	if l, err := m.Score("a", "chatcmpl-7", 1); err != nil || l.Sample.Form[0] != 2 {
		t.Errorf("%+v, %v", l, err)
	}
	if l, err := m.Score("a", "r1", 1); err != nil || l.Sample.Form[0] != 1 {
		t.Errorf("the first, by its request: %+v, %v", l, err)
	}
	answer(m, "a", "r3", "x", sampleOf(3, 3)) // the first is dropped next
	answer(m, "a", "r4", "y", sampleOf(3, 4))
	if _, err := m.Score("a", "chatcmpl-7", 1); !errors.Is(err, ErrTwice) {
		t.Errorf("after the first was dropped: %v", err)
	}
}

// Requests of random sizes are remembered like in a list of the newest that fit.
func TestTheNewestRequestsAreRemembered(t *testing.T) {
	const seed, most, places = 5, 40, 3000
	random := rand.New(rand.NewPCG(seed, 2))
	var w watch
	m := NewMemory(most, 2*places, anHour, w.now)
	known := map[int]*quality.Sample{}
	for i := range 2000 {
		n := random.IntN(60)
		if i%100 == 0 {
			n = 1000 // never fits
		}
		s := sampleOf(n, uint64(i))
		if ticket := m.Begin(&Request{ID: fmt.Sprint(i), Sample: s}); ticket > 0 {
			m.Answered(ticket, Answer{})
			known[i] = s
		} else if n < 1000 {
			t.Fatalf("seed %d: a sample of %d words was not remembered", seed, n)
		}
		sum := 0
		for last := i; m.Len() > 0 && last > i-most; last-- {
			s := known[last]
			if s == nil {
				continue
			}
			sum += 4 * len(s.IDs)
			e := m.find(m.byID[m.hash("", fmt.Sprint(last))])
			if e == nil && sum < places-240 {
				t.Fatalf("seed %d: request %d is not remembered after %d; they take %d places", seed, last, i, sum)
			}
			if e == nil {
				break
			}
			if got := m.samples.get(e.sample); !reflect.DeepEqual(got, clone(s)) {
				t.Fatalf("seed %d: request %d is remembered as %+v, was %+v", seed, last, got, s)
			}
		}
		if m.Len() > most || len(m.byID) > m.Len() {
			t.Fatalf("seed %d: %d requests and %d IDs are remembered", seed, m.Len(), len(m.byID))
		}
	}
}

// clone is a copy whose lists are not nil.
func clone(s *quality.Sample) quality.Sample {
	return quality.Sample{IDs: append([]uint16{}, s.IDs...), Counts: append([]uint16{}, s.Counts...), Words: append([]uint32{}, s.Words...), Form: s.Form}
}

// BenchmarkMemory remembers a request with a prompt of 1 KB until its end:
//
//	go test -run '^$' -bench Memory ./serving/quality/feedback
func BenchmarkMemory(b *testing.B) {
	var w watch
	m := NewMemory(DefaultEntries, DefaultBytes, anHour, w.now)
	s, id := sampleOf(300, 1), []byte("chatcmpl-123456789012345678901234")
	s.Words = s.Words[:150]
	r := Request{Owner: "a", ID: "0123456789abcdef", Predicted: &fleet.Prediction{Known: true}, Sample: s}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		id[len(id)-1-i%8] = 'a' + byte(i%26)
		t := m.Begin(&r)
		m.Answered(t, Answer{Variant: 1, ID: id})
		m.Ended(t, true)
	}
}
