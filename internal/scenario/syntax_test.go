package scenario_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/workloads"
)

const shelf = `name: a
tasks:
  - {name: chat, deadline_ms: 40, quality: {small: 0.6}}
variants:
  - name: small
hosts:
  - {name: gpu0, memory: 8GiB} # it's one
profiles:
  - variant: small
    weights_ms: 2
    token_ms: 3
serving:
  addr: x
`

// What is not YAML is said of the line that is wrong: the one to edit.
func TestLinesOfSyntax(t *testing.T) {
	edit := func(n int, line string) string {
		lines := strings.Split(shelf, "\n")
		lines[n-1] = line
		return strings.Join(lines, "\n")
	}
	for name, c := range map[string]struct {
		text string
		line int
		says string
	}{
		"a tab for indentation":              {edit(11, "\ttoken_ms: 3"), 11, "tab"},
		"a tab among spaces":                 {edit(11, "  \ttoken_ms: 3"), 11, "tab"},
		"a tab before a dash":                {edit(5, "\t- name: small"), 5, "tab"},
		"a tab before a top-level key":       {edit(4, "\tvariants:"), 4, "tab"},
		"a space too few":                    {edit(11, "   token_ms: 3"), 11, ""},
		"a space too many":                   {edit(11, "     token_ms: 3"), 11, ""},
		"an item a space too few":            {edit(5, " - name: small\n  - name: large"), 6, ""},
		"a key below its mapping":            {edit(11, "  - token_ms: 3\n    x: 1\n   y: 2"), 13, ""},
		"a section that is indented":         {edit(12, " serving:"), 12, ""},
		"a double quote open":                {edit(5, `  - name: "small`), 5, "not closed"},
		"a single quote open":                {edit(5, `  - name: 'small`), 5, "that begins here ends on line 7"}, // in the comment
		"a quote open in the last line":      {edit(13, `  addr: "x`), 13, "not closed"},
		"a quote open that a later one ends": {edit(5, `  - name: "small`) + "more: \"y\"\n", 5, "ends on line 14"},
		"a quote open in brackets":           {edit(3, `  - {name: "chat, deadline_ms: 40}`), 3, "not closed"},
		"a brace open":                       {edit(3, "  - {name: chat, quality: {small: 0.6}"), 3, `'{' is not closed`},
		"a brace open within":                {edit(3, "  - {name: chat, quality: {small: 0.6, deadline_ms: 40}"), 3, `'{' is not closed`},
		"a bracket open":                     {edit(3, "  - [a, b"), 3, `'[' is not closed`},
		"a bracket closed by a brace":        {edit(7, "  - {name: gpu0, memory: [8GiB}"), 7, "is closed by '}'"},
		"a brace too many":                   {edit(3, "  - {name: chat}}"), 3, "has ended"},
		"a comma missing":                    {edit(3, "  - {name: chat deadline_ms: 40}"), 3, "comma"},
		"a comma missing between lines":      {edit(3, "  - {name: chat,\n     deadline_ms: 40\n     weight: 1}"), 5, "comma"},
		"a colon missing":                    {edit(11, "    token_ms 3"), 11, ""},
		"a colon missing in the middle":      {edit(10, "    weights_ms 2"), 10, ""},
		"a colon missing at the top":         {edit(4, "variants"), 4, ""},
		"no space behind a colon":            {edit(11, "    token_ms:3"), 11, ""},
		"two colons":                         {edit(11, "    token_ms: 3: 4"), 11, ""},
		"a percent sign first":               {edit(7, "  - {name: gpu0, memory: %90}"), 7, ""},
		"an at sign":                         {edit(11, "    token_ms: @3"), 11, ""},
		"a backtick":                         {edit(11, "    token_ms: `3`"), 11, ""},
		"an alias without an anchor":         {edit(11, "    token_ms: *foo"), 11, "no anchor &foo"},
		"an unknown escape":                  {edit(5, `  - name: "sm\qall"`), 5, ""},
		"text behind a quote":                {edit(5, `  - name: "small" x`), 5, "has ended"},
		"a block that is none":               {edit(11, "    token_ms: |x\n      a"), 11, ""},
		"a control character":                {edit(11, "    token_ms: \x01"), 11, "control"},
		"bytes that are no text":             {edit(11, "    token_ms: \xff"), 11, "UTF-8"},
		"a first item indented further":      {edit(5, "    - name: small\n  - name: medium\n  - name: large"), 5, ""},
		"a first key without its colon":      {edit(1, "# a\nname a\n"), 2, ""},
		"a section without its colon":        {edit(2, "tasks"), 2, "colon"},
		"an item without its colon":          {edit(9, "  - variant small"), 9, "colon"},
		// What YAML takes, and the scenario does not.
		"a duplicate key":      {edit(11, "    weights_ms: 3"), 11, "duplicate key; the first is on line 10"},
		"a merge key":          {edit(11, "    <<: {a: 1}"), 11, "merge keys"},
		"a dash without space": {edit(5, "  -name: small"), 5, "-name"},
		"a complex key":        {edit(11, "    ? [a, b]\n    : 3"), 11, "plain text"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := scenario.Parse("f.yaml", []byte(c.text))
			var faults scenario.Faults
			if !errors.As(err, &faults) {
				t.Fatalf("accepted, or another error: %v", err)
			}
			for _, f := range faults {
				if f.Line == c.line && strings.Contains(f.Error(), c.says) {
					return
				}
			}
			t.Errorf("want line %d with %q:\n%v", c.line, c.says, err)
		})
	}
}

// Whatever sign goes or comes, on whatever line, that line is among those that are named.
func TestLinesOfSlips(t *testing.T) {
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	slips := 0
	for i, line := range lines {
		if trimmed := strings.TrimSpace(line); trimmed == "" || trimmed[0] == '#' {
			continue
		}
		var forms []string
		for _, sign := range []string{"{", "}", "[", "]", ","} {
			if at := strings.Index(line, sign); at >= 0 {
				forms = append(forms, line[:at]+line[at+1:])
			}
			if at := strings.LastIndex(line, sign); at >= 0 && !strings.Contains(line[:at], "#") {
				forms = append(forms, line[:at]+line[at+1:])
			}
		}
		if at := strings.Index(line, ": "); at >= 0 {
			forms = append(forms, line[:at+2]+`"`+line[at+2:], line[:at+2]+"'"+line[at+2:])
		}
		forms = append(forms, "\t"+strings.TrimLeft(line, " "))
		for _, form := range forms {
			changed := slices.Clone(lines)
			changed[i] = form
			_, err := scenario.Parse("f.yaml", []byte(strings.Join(changed, "\n")))
			var faults scenario.Faults
			if !errors.As(err, &faults) {
				continue // it happens to be right
			}
			slips++
			if !slices.ContainsFunc(faults, func(f scenario.Fault) bool { return f.Line == i+1 }) {
				t.Errorf("line %d is %q, and it says:\n%v", i+1, form, err)
			}
		}
	}
	if slips < 200 {
		t.Errorf("%d slips tried", slips)
	}
}
