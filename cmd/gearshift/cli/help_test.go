package cli

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	long := strings.Repeat("word ", 25) + "end"
	for _, c := range []struct{ text, start, indent string }{
		{long, "word", ""}, {"Forms:  " + long, "Forms:", "        "}, {"    " + long, "    word", "    "}, {"two words: " + long, "two", ""},
	} {
		lines := strings.Split(wrap("a\n"+c.text+"\nb"), "\n")
		if len(lines) != 4 || lines[0] != "a" || lines[3] != "b" || !strings.HasPrefix(lines[1], c.start) || len(lines[1]) > HelpWidth ||
			!strings.HasPrefix(lines[2], c.indent+"word") || strings.Join(strings.Fields(strings.Join(lines[1:3], " ")), " ") != strings.Join(strings.Fields(c.text), " ") {
			t.Errorf("%q: %q", c.text, lines)
		}
	}
	if solid := strings.Repeat("x", 150); wrap(solid) != solid {
		t.Errorf("a word was broken: %q", wrap(solid))
	}
}
