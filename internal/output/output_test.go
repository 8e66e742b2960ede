package output

import (
	"strings"
	"testing"
	"time"
)

// Where nobody watches, a line comes now and then, and none of what is over at once.
func TestCountingWithoutATerminal(t *testing.T) {
	var out strings.Builder
	now := time.Unix(0, 0)
	count := counting(&out, "judging", func() time.Time { return now })
	for done := 1; done <= 30; done++ {
		now = now.Add(time.Second)
		count(done, 30)
	}
	if want := "judging 10/30\njudging 20/30\njudging 30/30\n"; out.String() != want {
		t.Errorf("counted\n%swant\n%s", out.String(), want)
	}
}
