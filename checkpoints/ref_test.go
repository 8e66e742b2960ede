package checkpoints_test

import (
	"errors"
	"strings"
	"testing"

	"gearshift/checkpoints"
)

func TestParseRef(t *testing.T) {
	for s, want := range map[string]checkpoints.Ref{
		"chat":              {Name: "chat"},
		"opt_6.7b-u1":       {Name: "opt_6.7b-u1"},
		"7":                 {Name: "7"},
		"chat@3":            {Name: "chat", Version: 3},
		"chat@production":   {Name: "chat", Alias: "production"},
		"chat@previous":     {Name: "chat", Alias: "previous"},
		"chat@newest":       {Name: "chat", Alias: "newest"},
		"chat@2024-02-29":   {Name: "chat", Alias: "2024-02-29"},
		"chat@987654321012": {Name: "chat", Version: 987654321012},
	} {
		got, err := checkpoints.ParseRef(s)
		if err != nil || got != want {
			t.Errorf("ParseRef(%q) = %+v, %v; want %+v", s, got, err, want)
		}
		if got.String() != s {
			t.Errorf("%+v.String() = %q, want %q", got, got.String(), s)
		}
	}
}

func TestParseRefSaysWhatIsWrong(t *testing.T) {
	long := strings.Repeat("a", 201)
	for s, text := range map[string]string{
		"":                          `the policy name is missing`,
		"@3":                        `the policy name is missing`,
		"Chat":                      `policy name "Chat" may hold only a-z, 0-9, '.', '_' and '-'`,
		"static:opt-125m":           `policy name "static:opt-125m" may hold only a-z, 0-9, '.', '_' and '-'`,
		"naïve":                     `policy name "naïve" may hold only a-z, 0-9, '.', '_' and '-'`,
		"-chat":                     `policy name "-chat" must begin with a letter or a digit`,
		"../chat":                   `policy name "../chat" may hold only a-z, 0-9, '.', '_' and '-'`,
		long:                        `policy name "` + long + `" is longer than 200 bytes`,
		"chat@":                     `the alias name is missing`,
		"chat@0":                    `"0" is not a version: versions are 1, 2, 3 and so on`,
		"chat@03":                   `"03" is not a version: versions are 1, 2, 3 and so on`,
		"chat@99999999999999999999": `"99999999999999999999" is not a version: versions are 1, 2, 3 and so on`,
		"chat@-1":                   `alias name "-1" must begin with a letter or a digit`,
		"chat@3@4":                  `alias name "3@4" may hold only a-z, 0-9, '.', '_' and '-'`,
	} {
		_, err := checkpoints.ParseRef(s)
		if err == nil {
			t.Errorf("ParseRef(%q) is no error", s)
			continue
		}
		text = `cannot read policy reference "` + s + `": ` + text
		if !errors.Is(err, checkpoints.ErrInvalidName) || err.Error() != text {
			t.Errorf("ParseRef(%q): error\n\t%v\nwant\n\t%s", s, err, text)
		}
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"chat", "chat@3", "chat@production", "a@b@c", "@", "x@01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := checkpoints.ParseRef(s)
		if err != nil {
			if !errors.Is(err, checkpoints.ErrInvalidName) {
				t.Errorf("ParseRef(%q): %v is no ErrInvalidName", s, err)
			}
			return
		}
		if ref.String() != s {
			t.Errorf("ParseRef(%q).String() = %q", s, ref.String())
		}
		if ref.Version < 0 || ref.Version > 0 && ref.Alias != "" {
			t.Errorf("ParseRef(%q) = %+v", s, ref)
		}
	})
}
