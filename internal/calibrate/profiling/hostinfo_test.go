package profiling

import (
	"os"
	"testing"

	"gearshift/internal/calibrate/loadgen"
)

func TestHere(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Skipf("this machine has no name that an address could say: %v", err)
	}
	for address, want := range map[string]bool{
		"http://127.0.0.1:8000/v1": true, "http://[::1]:8000/v1": true, "http://localhost/v1": true, "http://" + name + ":8000": true,
		"http://192.0.2.1:8000/v1": false, "http://elsewhere.example/v1": false, "": false, "http://a b/": false,
	} {
		if here(address) != want {
			t.Errorf("%q: %v", address, !want)
		}
		if said := MachineOf(address) != Unsaid; said != want {
			t.Errorf("%q is said to be %s", address, MachineOf(address))
		}
	}
}

// One target elsewhere, and what the processors here did tells nothing.
func TestProcessorsElsewhere(t *testing.T) {
	read := Processors(loadgen.Target{URL: "http://127.0.0.1:8000/v1"}, loadgen.Target{URL: "http://192.0.2.1:8000/v1"})
	if got := read(); got != (loadgen.Processors{}) {
		t.Errorf("processors %+v", got)
	}
}
