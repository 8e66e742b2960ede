package access_test

import (
	"strings"
	"testing"

	"gearshift/serving/access"
)

func TestWhoTheClientIs(t *testing.T) {
	for _, c := range []struct {
		trusted   string
		conn      string
		forwarded []string
		want      string
	}{
		{"", "192.0.2.7:1234", nil, "192.0.2.7"},
		{"", "192.0.2.7:1234", []string{"1.2.3.4"}, "192.0.2.7"},           // nobody is trusted
		{"10.0.0.0/8", "192.0.2.7:1234", []string{"1.2.3.4"}, "192.0.2.7"}, // nor this one
		{"10.0.0.0/8", "10.0.0.1:9", []string{"1.2.3.4"}, "1.2.3.4"},
		{"10.0.0.0/8", "10.0.0.1:9", []string{"6.6.6.6, 1.2.3.4"}, "1.2.3.4"}, // the client wrote the first
		{"10.0.0.0/8", "10.0.0.1:9", []string{"6.6.6.6", "1.2.3.4, 10.9.9.9"}, "1.2.3.4"},
		{"10.0.0.0/8", "10.0.0.1:9", []string{"nonsense, 10.2.2.2"}, "10.2.2.2"},
		{"10.0.0.0/8", "10.0.0.1:9", []string{"nonsense"}, "10.0.0.1"},
		{"10.0.0.0/8", "10.0.0.1:9", nil, "10.0.0.1"},
		{"10.0.0.1", "[::ffff:10.0.0.1]:9", []string{"[2001:db8::1]:443"}, "2001:db8::1"},
		{"::ffff:10.0.0.0/104", "10.0.0.1:9", []string{"1.2.3.4"}, "1.2.3.4"}, // 10.0.0.0/8, as IPv6 has it
		{"::ffff:10.0.0.0/104", "11.0.0.1:9", []string{"1.2.3.4"}, "11.0.0.1"},
		{"::ffff:10.0.0.1", "10.0.0.1:9", []string{"1.2.3.4"}, "1.2.3.4"},
		{"::1", "[::1]:9", []string{"1.2.3.4:5"}, "1.2.3.4"},
		{"", "@", nil, "@"},
		{"", "", nil, ""},
	} {
		var list []string
		if c.trusted != "" {
			list = []string{c.trusted}
		}
		p, err := access.ParseProxies(list)
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Client(c.conn, c.forwarded); got != c.want {
			t.Errorf("%q trusted, %s with %q: %q, want %q", c.trusted, c.conn, c.forwarded, got, c.want)
		}
	}
}

func TestProxiesThatAreNone(t *testing.T) {
	for _, text := range []string{"", "localhost", "10.0.0.0/33", "10.0.0.1:80"} {
		if _, err := access.ParseProxies([]string{"::1", text}); err == nil || !strings.Contains(err.Error(), "[1]: ") || !strings.Contains(err.Error(), "10.0.0.0/8") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}
