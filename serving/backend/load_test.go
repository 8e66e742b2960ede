package backend

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestLoadFollowsTheWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, ten, ten)
		defer s.Close()
		for range 9 { // one more than the batch takes
			response, err := post(t.Context(), s.Replica(0), ChatPath, `{`+hello+`,"max_tokens":9,"ignore_eos":true,"stream":true}`)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
		}
		time.Sleep(25 * time.Millisecond)
		l := s.Load(0)
		if l.Running != 8 || l.Waiting != 1 || l.CacheUsage <= 0 || l.CacheUsage > 1 || l.Tokens == 0 {
			t.Errorf("under way %+v", l)
		}
		if other := s.Load(1); other != (Load{}) {
			t.Errorf("the neighbour %+v", other)
		}
		time.Sleep(time.Second)
		if l := s.Load(0); l.Running+l.Waiting != 0 || l.CacheUsage != 0 || l.Tokens != 81 {
			t.Errorf("afterwards %+v", l)
		}
	})
}

func TestSpansTellHowAnswersWent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var spans []Span
		s := simulated(t, ten, ten)
		defer s.Close()
		s.hosts[0].observe = func(s Span) { spans = append(spans, s) }
		answer(t, s.Replica(1), ChatPath, `{`+hello+`,"max_tokens":3,"ignore_eos":true}`)
		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Millisecond)
		defer cancel()
		if _, err := post(ctx, s.Replica(0), ChatPath, `{`+hello+`}`); err == nil {
			t.Fatal("no error")
		}
		s.Close()
		want := []Span{
			{Replica: 1, PromptTokens: 4, OutputTokens: 3, First: 10 * time.Millisecond, Total: 30 * time.Millisecond, Cut: true},
			{Replica: 0, PromptTokens: 4, OutputTokens: 3, First: 10 * time.Millisecond, Total: 35 * time.Millisecond, Err: context.DeadlineExceeded},
		}
		if len(spans) != 2 || spans[0] != want[0] || !errors.Is(spans[1].Err, want[1].Err) {
			t.Errorf("got  %+v\nwant %+v", spans, want)
		}
		spans[1].Err = want[1].Err
		if spans[1] != want[1] {
			t.Errorf("got  %+v\nwant %+v", spans[1], want[1])
		}
	})
}
