package scoring

import (
	"math"
	"testing"
)

func TestLastNumber(t *testing.T) {
	for text, want := range map[string]float64{
		"The robe takes 2 bolts and 1 more, so 2 + 1 = 3 bolts in total.": 3,
		"#### 540":                             540,
		"He pays $1,234.50.":                   1234.5,
		"**Total: $18**":                       18,
		"It is 45% of them":                    45,
		`\boxed{\frac{3}{4}}`:                  0.75,
		`-\dfrac{1}{2}`:                        -0.5,
		"The probability is 3/4.":              0.75,
		"1 1/2 cups":                           1.5,
		"x = -7":                               -7,
		"−40 °C":                               -40,
		"-$3":                                  -3,
		"10-3":                                 3, // a subtraction
		"pages 12-15":                          15,
		"2 000 000":                            0,
		"2\u202f000\u202f000":                  2e6,
		`1{,}000`:                              1000,
		"1, 2, 3":                              3,
		"1,2,3":                                3,
		"12,3456":                              3456,
		"about 1.5e6 of them":                  1.5e6,
		"3e":                                   3,
		"3 eggs":                               3,
		"42km":                                 42,
		"答案是42。":                               42,
		".5":                                   0.5,
		"The answer is 42. I used H2O and x2.": 42,
		"on 5/10/2024":                         2024,
		"2024-05-01":                           1,
		"1/0":                                  0,
		"1e999 is too large, 7 is not; 2e999 is.": 7,
	} {
		got, ok := lastNumber(text)
		if !ok || math.Abs(got.Value-want) > 1e-12 {
			t.Errorf("%q: %v, %v; want %v", text, got.Value, ok, want)
		}
	}
	for _, text := range []string{"", "none", "I don't know.", "x2", "H2O", "forty-two", "-", ".", `\frac{}{}`, "1e999"} {
		if got, ok := lastNumber(text); ok {
			t.Errorf("%q has the number %v; want none", text, got)
		}
	}
}

func TestScoreOfNumbers(t *testing.T) {
	for _, c := range []struct {
		reference, answer string
		want              float64
	}{
		{"18", "She makes 9 * 2 = $18 every day.", 1},
		{"18", "18.00", 1},
		{"18", "18.4", 0},
		{"18", "-18", 0},
		{"1000000", "1000001", 0},
		{"1/3", "about 0.33", 1},
		{"1/3", "0.333333", 1},
		{"1/3", "0.3", 0},
		{"3.14159", "3.14", 1},
		{"0.5", "0.54", 0},
		{"0.45", "45%", 1},
		{"45", "45 percent", 1},
		{"45%", `45\%`, 1},
		{"45%", "0.45", 1},
		{"45%", "4.5", 0},
		{"12.5%", "1/8", 1},
		{"70,000", "The profit is $70000", 1},
		{"7", "I cannot tell.", 0},
		{"42", "The answer is 42.\n\nCheck: 6 * 7 = 42, which took 2 steps.", 1},
		{"42", "The answer is 6 * 7 = 42", 1},
		{"42", "Answer: let me see.\n6 * 7 = 42", 1},
		{"0.75", `So $\boxed{\frac{3}{4}}$ of the 12 pieces.`, 1},
		{"She has 9 left.\n9 * 2 = 18\n#### 18", "#### 18\nThat is for 7 days.", 1},
	} {
		got, err := scoreOf(Number, c.answer, c.reference)
		if err != nil || got != c.want {
			t.Errorf("%q against %q: %v, %v; want %v", c.answer, c.reference, got, err, c.want)
		}
	}
}

// A number is read from any text, is finite, and is the same whatever stands before it.
func FuzzLastNumber(f *testing.F) {
	for _, text := range []string{"1,234.5e-3%", `-\frac{1}{2}`, "1 1/2", "5/10/2024", "9" + string(rune(0x202f)) + "000", "1{,}000", "$-3", "1e999"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, ok := lastNumber(text)
		if !ok {
			return
		}
		if math.IsNaN(q.Value) || math.IsInf(q.Value, 0) {
			t.Fatalf("%q has the number %v", text, q.Value)
		}
		if !q.Equal(q) {
			t.Fatalf("%q: %v does not equal itself", text, q)
		}
		again, ok := lastNumber("It is: " + text)
		if !ok || math.Abs(again.Value) != math.Abs(q.Value) {
			t.Fatalf("%q: %v alone, %v after words", text, q, again)
		}
	})
}
