package scenario

import "testing"

func TestBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"24GiB": 24 << 30, "1.5KiB": 1536, "500MB": 500_000_000, "2 TB": 2e12, "12_000": 12_000, "7B": 7, "1kB": 1000,
	} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err != nil || b != want {
			t.Errorf("%s: %d, %v; want %d", text, b, err, want)
		}
	}
	for _, text := range []string{"", "GiB", "0", "-1", "1XB", "NaN", "Inf", "1e30", "0.5B", "20%", "1GiBGiB"} {
		var b Bytes
		if err := b.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d bytes", text, b)
		}
	}
}

func TestMemoryReadsWhatItWrites(t *testing.T) {
	for _, text := range []string{"5%", "33.3%", "7%", "100%", "123456789"} {
		var m Memory
		if err := m.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := m.MarshalText(); err != nil || string(got) != text {
			t.Errorf("%s comes back as %s, %v", text, got, err)
		}
	}
}

func TestShareRoundsDown(t *testing.T) {
	const host Bytes = 24 << 30
	var sum Bytes
	for _, s := range []Share{5, 20, 75} {
		sum += s.Of(host)
	}
	if sum > host || sum < host-3 {
		t.Errorf("5, 20 and 75%% of %d take %d", host, sum)
	}
}

func TestClosest(t *testing.T) {
	known := []string{"deadline_ms", "decay", "weight", "gpu0", "gpu1"}
	for name, want := range map[string]string{
		"dedline_ms": "deadline_ms", "Decay": "decay", "deacy": "decay", "wieght": "weight",
		"colour": "", "gpu9": "", "gpu": "", "": "",
	} {
		if got := closest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
