//go:build !serveonly

package profiling

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAReportIsWrittenWhereNoRequestCouldBeSimulated(t *testing.T) {
	p, _, _ := measuredOf(t, "tiny", "large", "small")
	p.Measured.Simulated = nil
	dir := t.TempDir()
	if err := p.WriteReport(dir); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !strings.Contains(string(page), "No request alone could be simulated.") {
		t.Errorf("the page lacks its third sentence (%v):\n%s", err, page)
	}
}
