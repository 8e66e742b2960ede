package scoring

import (
	"fmt"
	"strings"
)

// Template is the prompt of a judge for which none is given.
const Template = `Two assistants answered the same question. Decide which answer is better: correct first, then complete, then
clear. Neither the order of the answers nor their length matters.

Question:
{{prompt}}

Answer A:
{{a}}

Answer B:
{{b}}

Give your reason in one sentence. Then end with [[A]] if answer A is better, [[B]] if answer B is better, or
[[tie]] if they are equally good.`

// marks lists the places of texts that a template must have.
var marks = []string{"{{prompt}}", "{{a}}", "{{b}}"}

// CheckTemplate returns an error if a judge's prompt lacks the place of the question or of an answer.
func CheckTemplate(text string) error {
	for _, m := range marks {
		if !strings.Contains(text, m) {
			return fmt.Errorf("the judge's prompt has no %s; want %s in it", m, strings.Join(marks, ", "))
		}
	}
	return nil
}

// Fill returns the judge's prompt about two answers. Marks within the texts stay as they are.
func Fill(template, prompt, a, b string) string {
	return strings.NewReplacer(marks[0], prompt, marks[1], a, marks[2], b).Replace(template)
}
