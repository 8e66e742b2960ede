package setting_test

import (
	"strings"
	"testing"

	"gearshift/serving/config/setting"
)

func TestKey(t *testing.T) {
	for _, c := range []struct{ value, want, fault string }{
		{"sk-abc", "sk-abc", ""},
		{"sk-abc\n", "sk-abc", ""},
		{"sk-abc\r\n", "sk-abc", ""},
		{"\n sk-abc \t\r\n\n", "sk-abc", ""},
		{"\ufeffsk-abc\n", "sk-abc", ""},
		{"\u00a0sk-abc\u2028", "sk-abc", ""},
		{"", "", "TEST_SETTING_KEY is empty; it must hold a key"},
		{" \r\n", "", "is empty"},
		{"sk-abc\nsk-def", "", "a line break within its key, at character 7"},
		{"sk-abc def", "", "white space within its key, at character 7"},
		{"Bearer sk-abc", "", "white space within its key, at character 7"},
		{"sk-\x1babc", "", "a control character within its key, at character 4"},
		{"sk-é\x7f", "", "a control character within its key, at character 5"},
		{"sk-abcé", "sk-abcé", ""},
	} {
		t.Setenv("TEST_SETTING_KEY", c.value)
		got, err := setting.Key("TEST_SETTING_KEY", "a key")
		switch {
		case c.fault == "" && (err != nil || got != c.want):
			t.Errorf("%q: %q, %v; want %q", c.value, got, err, c.want)
		case c.fault != "" && (err == nil || !strings.Contains(err.Error(), "TEST_SETTING_KEY") || !strings.Contains(err.Error(), c.fault)):
			t.Errorf("%q: error %v, want %q", c.value, err, c.fault)
		case err != nil && strings.Contains(err.Error(), "abc"):
			t.Errorf("%q: the error tells the key: %v", c.value, err)
		}
	}
}

func TestText(t *testing.T) {
	if got := string(setting.Text([]byte("\ufeffa\ufeff\n"))); got != "a\ufeff\n" {
		t.Errorf("%q", got)
	}
}
