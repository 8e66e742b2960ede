package subjects

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func load(t *testing.T) *Set {
	t.Helper()
	s, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The questions are those that the README describes.
func TestQuestionsAreThoseOfTheReadme(t *testing.T) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	if !strings.Contains(string(readme), hex.EncodeToString(sum[:])) {
		t.Errorf("README.md lacks the questions' SHA-256, %x", sum)
	}
	s := load(t)
	counts := make([]int, len(s.Subjects))
	for _, q := range s.Questions {
		if q.Prompt == "" || utf8.RuneCountInString(q.Prompt) > 300 || s.Subjects[q.Label] != q.Group {
			t.Fatalf("question %+v of subject %q", q, s.Subjects[q.Label])
		}
		counts[q.Label]++
	}
	if len(s.Subjects) != 29 || slices.Min(counts) < 66 || slices.Max(counts) != 130 {
		t.Errorf("%d subjects of %v questions, want 29 of 66 to 130", len(s.Subjects), counts)
	}
}

// A split has each question once, half and two quarters of each subject, and follows the seed.
func TestSplit(t *testing.T) {
	s := load(t)
	split := s.Split(1)
	all := slices.Concat(split.Training, split.Fitting, split.HeldOut)
	seen := map[string]int{}
	for _, q := range all {
		if seen[q.Prompt]++; seen[q.Prompt] > 1 {
			t.Errorf("%.60q is in the parts twice", q.Prompt)
		}
	}
	if len(all) != len(s.Questions) {
		t.Errorf("the parts have %d questions of %d", len(all), len(s.Questions))
	}
	counts := make([][3]int, len(s.Subjects))
	for p, part := range [][]Question{split.Training, split.Fitting, split.HeldOut} {
		for _, q := range part {
			counts[q.Label][p]++
		}
	}
	for i, n := range counts {
		if whole := n[0] + n[1] + n[2]; n[0] != whole/2 || n[1] < whole/4 || n[2] < whole/4 {
			t.Errorf("%s: %v questions in the parts", s.Subjects[i], n)
		}
	}
	if !reflect.DeepEqual(split, s.Split(1)) || reflect.DeepEqual(split.HeldOut, s.Split(2).HeldOut) {
		t.Error("the parts do not follow the seed")
	}
}

func TestReadRefuses(t *testing.T) {
	if _, err := read([]byte("no gzip")); err == nil {
		t.Error("what is not compressed is accepted")
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_ = json.NewEncoder(w).Encode(Question{Prompt: "a", Group: "b"})
	_, _ = w.Write([]byte("{\n"))
	_ = w.Close()
	if _, err := read(b.Bytes()); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a broken line: %v", err)
	}
}
