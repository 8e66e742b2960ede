package scoring

import (
	"math"
	"testing"
)

func TestAgree(t *testing.T) {
	for _, c := range []struct {
		answer, other string
		want          float64
	}{
		{"Paris.", "paris", 1},
		{"The answer is (C), by far.", "**Answer:** C", 1},
		{"The answer is (C), by far.", "B", 0},
		{"9 * 2 = 18.\n#### 18", "So the answer is 18 dollars.", 1},
		{"9 * 2 = 18.\n#### 18", "So the answer is 19.", 0},
		{"$18", "18.00", 1},
		{`\boxed{0.5}`, "The answer is 1/2.\nI hope that this helps 100 %!", 1},
		{"It rains in Spain.", "In Spain it rains!", 1},
		{"one two three four", "one two five six", 0.5},
		{"It was founded in 1998 by 2 people", "The firm was founded in 1998", 8 / 14.},
		{"東京です", "東京", 2 * 2 / 6.},
		{"yes", "no", 0},
		{"", "no", 0},
	} {
		got, err := scoreOf(Agreement, c.answer, c.other)
		if err != nil || math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%q and %q: %v, %v; want %v", c.answer, c.other, got, err, c.want)
		}
	}
}

// Agreement is the same both ways, and whole with oneself.
func FuzzAgree(f *testing.F) {
	f.Add("The answer is (C).", "C")
	f.Add("#### 18", "$18")
	f.Add("a b c", "c b")
	f.Fuzz(func(t *testing.T, a, b string) {
		ab, ba := Agree(a, b), Agree(b, a)
		if ab != ba || !(ab >= 0 && ab <= 1) {
			t.Fatalf("%q and %q: %v, and turned %v", a, b, ab, ba)
		}
		if same := Agree(a, a); normal(a) != "" && same != 1 {
			t.Fatalf("%q with itself: %v", a, same)
		}
	})
}
