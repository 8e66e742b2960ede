package archtest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestNotice holds NOTICE against the licences of what the binary links, so that each
// release carries them as they are.
func TestNotice(t *testing.T) {
	file := filepath.Join(root, "NOTICE")
	got := notice(t)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Error("the licences of the binary's modules differ from NOTICE; if that is meant: go test ./internal/archtest -update")
	}
	for module := range strings.Lines(dependencies(t)) {
		module, _, _ = strings.Cut(strings.TrimSpace(module), " ")
		if module != "" && module != "#" && !strings.Contains(got, "\n  "+module+" ") {
			t.Errorf("NOTICE does not name %s", module)
		}
	}
}

// licence is a text, and what is under it.
type licence struct {
	text string
	of   []string
}

// notice is the text of NOTICE: each licence once, with the modules that it is of.
func notice(t *testing.T) string {
	t.Helper()
	var list []*licence
	take := func(name, folder string) {
		texts := licencesIn(t, folder)
		if len(texts) == 0 {
			t.Errorf("%s has no licence in %s", name, folder)
		}
		for _, text := range texts {
			i := slices.IndexFunc(list, func(l *licence) bool { return l.text == text })
			if i < 0 {
				i = len(list)
				list = append(list, &licence{text: text})
			}
			list[i].of = append(list[i].of, name)
		}
	}
	take("Go", strings.TrimSpace(goTool(t, nil, "env", "GOROOT")))
	for _, line := range linked(t, "{{with .Module}}{{if not .Main}}{{.Path}}|{{.Version}}|{{.Dir}}{{end}}{{end}}", "") {
		part := strings.Split(line, "|")
		take(part[0]+" "+part[1], part[2])
	}
	take("the sizes and accuracies of workloads/families", filepath.Join(root, "workloads/families"))
	take("the recorded day of workloads/daily", filepath.Join(root, "workloads/daily"))
	take("the digits of workloads/digits (not in serveonly)", filepath.Join(root, "workloads/digits"))
	take("the prompts of workloads/prompts (not in serveonly)", filepath.Join(root, "workloads/prompts"))
	take("the questions of workloads/subjects (not in serveonly)", filepath.Join(root, "workloads/subjects"))
	var b strings.Builder
	b.WriteString("Gearshift\nLicensed under the Apache License, Version 2.0; see LICENSE.\n\n" +
		"The binary contains Go's library, the modules and the data below, under these licences.\n" +
		"Written by: go test ./internal/archtest -update\n")
	for _, l := range list {
		fmt.Fprintf(&b, "\n%s\n\n  %s\n\n%s\n", strings.Repeat("=", 80), strings.Join(l.of, "\n  "), l.text)
	}
	return b.String()
}

// licenceFile is what modules call the files with their terms.
var licenceFile = regexp.MustCompile(`(?i)^(licen[sc]e|copying|copyright|notice|patents)([-._].*)?$`)

// licencesIn is the texts at the root of a module, without what editors add to lines.
func licencesIn(t *testing.T, folder string) (texts []string) {
	t.Helper()
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !licenceFile.MatchString(e.Name()) || e.IsDir() || strings.HasSuffix(e.Name(), ".go") {
			continue
		}
		data, err := os.ReadFile(filepath.Join(folder, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range bytes.Lines(data) {
			lines = append(lines, strings.TrimRight(string(line), " \t\r\n"))
		}
		if text := strings.Trim(strings.Join(lines, "\n"), "\n"); text != "" {
			texts = append(texts, text)
		}
	}
	return texts
}
