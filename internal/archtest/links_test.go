package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

var (
	mdLink   = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	mdAnchor = regexp.MustCompile(`<a (?:id|name)="([^"]+)"`)
	mdTag    = regexp.MustCompile(`<[^>]*>`)
	mdText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	scheme   = regexp.MustCompile(`^[a-z]+:`)
	named    = regexp.MustCompile(`\bdocs/[\w/.-]+\.md\b`)
	inPages  = regexp.MustCompile("`((?:router|env|serving|rl|internal|cmd|workloads|checkpoints|scripts|deploy)/[\\w/.-]+)`")
)

// TestLinksOfPages follows each relative link of the documentation to a file and, in
// pages, to a heading or an anchor: pages and headings get other names, and a reader
// who follows a dead link is lost.
func TestLinksOfPages(t *testing.T) {
	pages := markdown(t)
	for file, text := range pages {
		for _, link := range mdLink.FindAllStringSubmatch(withoutCode(text), -1) {
			if target := link[1]; !scheme.MatchString(target) {
				if fault := follow(pages, file, target); fault != "" {
					t.Errorf("%s: the link to %s leads nowhere: %s", file, target, fault)
				}
			}
		}
	}
	for target, want := range map[string]string{"gone.md": "no file", "docs/http-api.md#gone": "no heading", "docs/http-api.md#asking": "", "docs/guides/": "", "README.md": "the page itself"} {
		if fault := follow(pages, "README.md", target); fault != want {
			t.Errorf("the link to %s: %q, want %q", target, fault, want)
		}
	}
}

// TestPagesNamedInCode looks for the pages that comments and messages of the code name.
func TestPagesNamedInCode(t *testing.T) {
	found := 0
	for _, s := range sources(t) {
		text, err := os.ReadFile(filepath.Join(root, s.name))
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range named.FindAllString(string(text), -1) {
			found++
			if _, err := os.Stat(filepath.Join(root, page)); err != nil {
				t.Errorf("%s names %s, which does not exist", s.name, page)
			}
		}
	}
	if found == 0 {
		t.Error("no code names a page")
	}
}

// TestCodeNamedInPages looks for the folders and files of the repository that pages name.
// Decisions and the changelog may name what has moved since.
func TestCodeNamedInPages(t *testing.T) {
	for page, text := range markdown(t) {
		if page == "CHANGELOG.md" || strings.HasPrefix(page, "docs/decisions/") {
			continue
		}
		for _, m := range inPages.FindAllStringSubmatch(withoutCode(text), -1) {
			if name := strings.TrimSuffix(m[1], "/"); !strings.HasSuffix(name, "/.env") {
				if _, err := os.Stat(filepath.Join(root, name)); err != nil {
					t.Errorf("%s names %s, which does not exist", page, name)
				}
			}
		}
	}
}

// markdown returns the text of each page of the repository, by its path.
func markdown(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules" || strings.HasSuffix(d.Name(), "-out")) {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(file) != ".md" {
			return nil
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		pages[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

// follow says what is wrong with a relative link of a page, or nothing.
func follow(pages map[string]string, file, target string) string {
	page, anchor, _ := strings.Cut(target, "#")
	if page == "" {
		page = file
	} else {
		page = filepath.ToSlash(filepath.Join(filepath.Dir(file), page))
	}
	if _, err := os.Stat(filepath.Join(root, page)); err != nil {
		return "no file"
	}
	if page == file && anchor == "" {
		return "the page itself"
	}
	if text, ok := pages[page]; ok && anchor != "" && !anchors(text)[anchor] {
		return "no heading"
	}
	return ""
}

// withoutCode leaves out the lines between fences.
func withoutCode(text string) string {
	var rest strings.Builder
	code := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			rest.WriteString(line)
		}
	}
	return rest.String()
}

// anchors returns what a link into the page may name: its headings as GitHub writes
// them, and its own anchors.
func anchors(text string) map[string]bool {
	all := map[string]bool{}
	text = withoutCode(text)
	for _, m := range mdAnchor.FindAllStringSubmatch(text, -1) {
		all[m[1]] = true
	}
	for line := range strings.Lines(text) {
		if heading := strings.TrimLeft(line, "#"); heading != line && strings.HasPrefix(heading, " ") {
			all[slug(heading)] = true
		}
	}
	return all
}

// slug is the anchor that GitHub gives a heading.
func slug(heading string) string {
	heading = mdText.ReplaceAllString(mdTag.ReplaceAllString(heading, ""), "$1")
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, strings.TrimSpace(heading))
}
