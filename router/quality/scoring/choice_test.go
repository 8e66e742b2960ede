package scoring

import "testing"

func TestParseChoice(t *testing.T) {
	for text, want := range map[string]byte{
		"C":                                     'C',
		"c":                                     'C',
		"(c)":                                   'C',
		"**C**":                                 'C',
		"C.":                                    'C',
		"C) Paris":                              'C',
		"(C) Paris":                             'C',
		"D - the liver":                         'D',
		"A":                                     'A',
		"I":                                     'I',
		"The answer is (C).":                    'C',
		"The answer is C because of A and B.":   'C',
		"the answer is b":                       'B',
		"The correct answer is: **B. 42**":      'B',
		"**Answer:** D":                         'D',
		"**Answer**: D":                         'D',
		"Answer: option B":                      'B',
		"Final answer = \\boxed{E}":             'E',
		`So we have $\boxed{\text{A}}$.`:        'A',
		"The correct option is A.":              'A',
		"The answer to this question is (D).":   'D',
		"The answer is not A. The answer is B.": 'B',
		"Not A: it melts.\nNot B: it burns.\nSo it must be C.":     'C',
		"A) is wrong.\nB) is wrong too.\nThe correct choice is D.": 'D',
		"Answer choices A and B are wrong, which leaves (C).":      'C',
		"I think the answer is a dog, that is, option F":           'F',
		"<answer>\nA\n</answer>":                                   'A',
		`{"answer": "E"}`:                                          'E',
		"Answer: $\\textbf{(B)}\\ 12$":                             'B',
		"The answer is \\(\\boxed{C}\\).":                          'C',
		"The correct answer is:\n\nD. All of them":                 'D',
		"Option C is correct.":                                     'C',
		"C is the correct answer.":                                 'C',
		"I would choose B.":                                        'B',
		"A. Paris\n\nExplanation: B is in Italy.":                  'A',
		"It's B":           'B',
		"Of all, (J) is.":  'J',
		"Let me see.\n\nC": 'C',
		"答案是 (B)":          'B',
	} {
		if got, ok := parseChoice(text); !ok || got != want {
			t.Errorf("%q: %q, %v; want %q", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "none of these", "I think so.", "A dog barks", "The answer is a dog", "K", "Because", "B's", "42"} {
		if got, ok := parseChoice(text); ok {
			t.Errorf("%q settles on %q; want nothing", text, got)
		}
	}
}

func TestScoreOfChoices(t *testing.T) {
	for _, c := range []struct {
		reference, answer string
		want              float64
	}{
		{"C", "The answer is (C).", 1},
		{"(C) Paris", "c", 1},
		{"C", "The answer is (B).", 0},
		{"C", "I do not know.", 0},
	} {
		got, err := scoreOf(Choice, c.answer, c.reference)
		if err != nil || got != c.want {
			t.Errorf("%q against %q: %v, %v; want %v", c.answer, c.reference, got, err, c.want)
		}
	}
}

// A choice is a letter from A to J, and that letter alone is the same choice.
func FuzzParseChoice(f *testing.F) {
	for _, text := range []string{"The answer is (C).", `\boxed{\text{a}}`, "A) x\nB) y", "option b", "answer to it is I", "**J**"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := parseChoice(text)
		if !ok {
			return
		}
		if got < 'A' || got > 'J' {
			t.Fatalf("%q settles on %q", text, got)
		}
		if again, ok := parseChoice("(" + string(got) + ")"); !ok || again != got {
			t.Fatalf("(%c) settles on %q, %v", got, again, ok)
		}
	})
}
