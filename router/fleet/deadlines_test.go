package fleet

import (
	"testing"
	"time"
)

// What is left of the utility is the product of what the decay leaves after each deadline,
// and a deadline to the first token or to the end decays by its share.
func TestUtilityOfSeveralDeadlines(t *testing.T) {
	const second = 1000
	hard := Task{Weight: 2, Deadline: ms(40), FirstToken: ms(second), Total: ms(10 * second), Quality: []float64{0.5, 1}}
	soft := hard
	soft.Decay = PaperSoft()
	for _, c := range []struct {
		name                       string
		perToken, first, total     float64 // ms
		wantHard, wantSoft, wanted float64
	}{
		{"all held, to the nanosecond", 40, second, 10 * second, 2, 2, 1},
		{"per token", 41, second, 10 * second, 0, 2 * .99, 0},
		{"first token, 2.5 % late as 1 ms of 40", 40, 1.025 * second, 10 * second, 0, 2 * .99, 0},
		{"total, 2.5 % late as 1 ms of 40", 40, second, 10.25 * second, 0, 2 * .99, 0},
		{"each by a little", 41, 1.025 * second, 10.25 * second, 0, 2 * .99 * .99 * .99, 0},
		{"first token by 10 %", 40, 1.1 * second, second, 0, 0, 0},
		{"total by 10 %", 40, second, 11 * second, 0, 0, 0},
		{"what is not known", 40, 0, 0, 2, 2, 1},
	} {
		took := Times{PerToken: ms(c.perToken), FirstToken: ms(c.first), Total: ms(c.total)}
		d := hard.Deadlines(&Request{})
		if got := hard.Utility(1, took, d); got != c.wantHard {
			t.Errorf("%s: hard %v, want %v", c.name, got, c.wantHard)
		}
		if got := soft.Utility(1, took, d); !near(got, c.wantSoft) {
			t.Errorf("%s: soft %v, want %v", c.name, got, c.wantSoft)
		}
		if got := d.Met(took); got != (c.wanted == 1) {
			t.Errorf("%s: met %v", c.name, got)
		}
	}
}

// Where there is no deadline but that per token the utility is that of Eq. 1, to the bit.
func TestUtilityOfOneDeadlineIsAsItWas(t *testing.T) {
	task := Task{Weight: 1.7, Deadline: ms(40), Decay: PaperSoft(), Quality: []float64{0.45, 0.78, 1}}
	for i := range 5000 {
		took, variant := Took(ms(3), time.Duration(i)*time.Millisecond, 100), i%3
		want := task.Weight * task.Decay.Factor(Milliseconds(took.PerToken), 40) * task.Quality[variant]
		if got := task.Utility(variant, took, task.Deadlines(&Request{})); got != want {
			t.Fatalf("utility %v after %v, want %v", got, took, want)
		}
	}
}

func TestRequestsReplaceTheDeadlinesOfTheirTask(t *testing.T) {
	task := Task{Deadline: ms(40), FirstToken: ms(1000)}
	if got, want := task.Deadlines(&Request{}), (Deadlines{PerToken: ms(40), FirstToken: ms(1000)}); got != want {
		t.Errorf("the task's are %v, want %v", got, want)
	}
	r := Request{Deadline: ms(20), FirstToken: ms(300), Total: ms(5000)}
	if got, want := task.Deadlines(&r), (Deadlines{ms(20), ms(300), ms(5000)}); got != want {
		t.Errorf("the request's are %v, want %v", got, want)
	}
}

// An answer without output tokens has its whole latency per token, and where there is a
// deadline for its end, that holds in its place.
func TestAnswersWithoutTokens(t *testing.T) {
	task := Task{Weight: 1, Deadline: ms(40), Quality: []float64{1}}
	took := Took(ms(90), ms(90), 0)
	if took.PerToken != ms(90) {
		t.Errorf("per token %v, want the whole latency", took.PerToken)
	}
	if d := task.Deadlines(&Request{}).Of(0); d.Met(took) || task.Utility(0, took, d) != 0 {
		t.Errorf("%v holds after 90 ms", d)
	}
	if d := task.Deadlines(&Request{Total: ms(100)}).Of(0); !d.Met(took) || task.Utility(0, took, d) != 1 {
		t.Errorf("%v does not hold after 90 ms", d)
	}
	if d := task.Deadlines(&Request{Total: ms(100)}).Of(1); d.Met(took) {
		t.Errorf("%v holds for an answer of a token after 90 ms", d)
	}
}

func TestTablesWantADeadline(t *testing.T) {
	make := func(task Task) error {
		task.Name, task.Quality = "task", []float64{1}
		_, err := NewTable([]Task{task}, []Variant{{Name: "only"}}, []Host{{Name: "host"}}, []Replica{{Name: "a"}})
		return err
	}
	for _, task := range []Task{{Deadline: ms(40)}, {Total: ms(500), Pace: ms(5)}, {FirstToken: ms(500), Pace: time.Hour}, {Deadline: 1, FirstToken: 1, Total: 1}} {
		if err := make(task); err != nil {
			t.Errorf("%+v: %v", task, err)
		}
	}
	for _, task := range []Task{{}, {Pace: 1}, {Total: 1}, {Deadline: -1, Total: 1, Pace: 1}, {Deadline: 1, Total: -1}, {Deadline: 1, FirstToken: -1}} {
		if make(task) == nil {
			t.Errorf("%+v is accepted", task)
		}
	}
}

func TestSeveralDeadlinesAllocateNothing(t *testing.T) {
	task := Task{Weight: 1, Deadline: ms(40), FirstToken: ms(1000), Total: ms(9000), Decay: PaperSoft(), Quality: []float64{1}}
	r := Request{Total: ms(8000)}
	if n := testing.AllocsPerRun(100, func() {
		d := task.Deadlines(&r)
		took := Took(ms(1010), ms(8100), 200)
		if d.Met(took) || task.Utility(0, took, d) <= 0 {
			t.Fatal("want a soft miss")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
