package feedback

import (
	"gearshift/router/quality"
)

// arena keeps the numbers of samples in memory of a fixed size, the newest over the oldest.
type arena struct {
	most   uint64   // places
	memory []uint16 // of so many; nil before the first sample
	end    uint64   // of what has been put, counted over all laps
}

// stored says where a sample is.
type stored struct {
	start      uint64 // counted over all laps
	ids, words int
	sample     quality.Sample // without its lists
}

func newArena(bytes int) arena { return arena{most: uint64(max(1, bytes/2))} }

// size returns how many places a sample takes.
func size(ids, words int) uint64 { return uint64(2*ids + 2*words) }

// reserve makes the place at the end one where the sample fits. Samples that start before until will
// be written over by it. It reports false for a sample that never fits.
func (a *arena) reserve(s *quality.Sample) (until uint64, ok bool) {
	n, lap := size(len(s.IDs), len(s.Words)), a.most
	if n > lap/2 {
		return 0, false
	}
	if a.memory == nil {
		a.memory = make([]uint16, lap)
	}
	if at := a.end % lap; at+n > lap {
		a.end += lap - at
	}
	return max(a.end+n, lap) - lap, true
}

// put copies the sample to the place that was reserved.
func (a *arena) put(s *quality.Sample) stored {
	at := stored{start: a.end, ids: len(s.IDs), words: len(s.Words), sample: quality.Sample{Form: s.Form}}
	to := a.of(at)
	to = to[copy(to, s.IDs):]
	to = to[copy(to, s.Counts):]
	for i, w := range s.Words {
		to[2*i], to[2*i+1] = uint16(w), uint16(w>>16)
	}
	a.end += size(at.ids, at.words)
	return at
}

// get returns a copy of the sample.
func (a *arena) get(at stored) quality.Sample {
	s, from := at.sample, a.of(at)
	lists := make([]uint16, 2*at.ids)
	copy(lists, from)
	s.IDs, s.Counts, from = lists[:at.ids:at.ids], lists[at.ids:], from[2*at.ids:]
	s.Words = make([]uint32, at.words)
	for i := range s.Words {
		s.Words[i] = uint32(from[2*i]) | uint32(from[2*i+1])<<16
	}
	return s
}

// clear overwrites the sample with zeros.
func (a *arena) clear(at stored) { clear(a.of(at)) }

// of returns the places of the sample.
func (a *arena) of(at stored) []uint16 {
	start := at.start % a.most
	return a.memory[start : start+size(at.ids, at.words)]
}
