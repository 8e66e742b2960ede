package scenario

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// clock is a section made up, as a room would bring it.
type clock struct {
	Owner string        `yaml:"owner"` // required
	Tick  time.Duration `yaml:"tick"`
	Alarm struct {
		Loudness float64 `yaml:"loudness,omitempty"`
		Zone     string  `yaml:"clock_zone,omitempty"`
	} `yaml:"alarm,omitempty"`
}

// bell is one under a section of the core.
type bell struct {
	Rings int `yaml:"bell_rings,omitempty"`
}

func madeUpSections() []registered {
	return append(sections(),
		section[clock]{
			key:     "clock",
			initial: func() clock { return clock{Tick: time.Second} },
			check: func(c *checker, v *clock) {
				if v.Tick <= 0 {
					c.judge("clock.tick", "want a time above 0, not %v", v.Tick)
				}
			},
			world: func(v *clock) { v.Alarm.Loudness = 0 }, // which nobody simulates
			live:  []string{"alarm"},
		},
		section[bell]{key: "serving.bell", live: []string{""}},
	)
}

// withLines is testdata/minimal.yaml and more lines, parsed with the sections made up.
func withLines(t *testing.T, lines string) (*Scenario, string) {
	t.Helper()
	text, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	s, r, err := parseWith(madeUpSections(), "test.yaml", append(text, lines...))
	if err != nil {
		return s, err.Error()
	}
	if err := r.err(); err != nil {
		t.Fatal(err)
	}
	return s, ""
}

func mustParseLines(t *testing.T, lines string) *Scenario {
	t.Helper()
	s, faults := withLines(t, lines)
	if faults != "" {
		t.Fatal(faults)
	}
	return s
}

// A section is read into its own type, with its defaults.
func TestARegisteredSectionIsDecoded(t *testing.T) {
	s := mustParseLines(t, "clock:\n  owner: ann\n  alarm: {loudness: 3}\nserving:\n  bell: {bell_rings: 2}\n")
	if c := Of[clock](s); c.Owner != "ann" || c.Tick != time.Second || c.Alarm.Loudness != 3 {
		t.Errorf("%+v", c)
	}
	if b := Of[bell](s); b.Rings != 2 {
		t.Errorf("%+v", b)
	}
	without := mustParseLines(t, "")
	if c := Of[clock](without); c.Owner != "" || c.Tick != time.Second {
		t.Errorf("left out: %+v, want the defaults", c)
	}
	if c := Of[clock](new(Scenario)); *c != (clock{}) {
		t.Errorf("of no file: %+v", c)
	}
}

// Faults have file, line and key, and an unknown key a suggestion that knows the section.
func TestARegisteredSectionIsChecked(t *testing.T) {
	for lines, want := range map[string]string{
		"clock:\n  owner: ann\n  tick: 0s\n":            "clock.tick: want a time above 0, not 0s",
		"clock:\n  owner: ann\n  tick: soon\n":          `clock.tick: want a time such as 30s or 10m, found "soon"`,
		"clock:\n  tick: 2s\n":                          "clock.owner: missing; it has no default",
		"clock:\n  owner: ann\n  alarm: {loudnes: 1}\n": `clock.alarm.loudnes: unknown key; did you mean "loudness"?`,
		"clok:\n  owner: ann\n":                         `clok: unknown key; did you mean "clock"?`,
		"serving:\n  bel: {bell_rings: 1}\n":            `serving.bel: unknown key; did you mean "bell"?`,
		"serving:\n  policies: {trusted_keys: [abc]}\n": `serving.policies.trusted_keys[0]: "abc" is not a public key`,
		"serving:\n  policies: {trustd_keys: [abc]}\n":  `serving.policies.trustd_keys: unknown key; did you mean "trusted_keys"?`,
		"clock: 3\n": "clock: want a mapping, found 3",
	} {
		_, faults := withLines(t, lines)
		if !strings.HasPrefix(faults, "test.yaml:") || !strings.Contains(faults, want) || strings.Count(faults, "\n") > 0 {
			t.Errorf("%q: %q, want one line: %s", lines, faults, want)
		}
	}
	text, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("test.yaml", append(text, "clock: {owner: ann}\n"...)); err == nil || !strings.Contains(err.Error(), "clock: unknown key") {
		t.Errorf("a section that nobody has registered: %v", err)
	}
}

// A section that is left out, or says its defaults, is the same world; what it leaves of its
// values for the world makes another.
func TestARegisteredSectionIsHashed(t *testing.T) {
	text, err := os.ReadFile("testdata/minimal.yaml")
	if err != nil {
		t.Fatal(err)
	}
	bare, err := Parse("test.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	hash := bare.Hash()
	for lines, same := range map[string]bool{
		"":                               true,
		"clock: {owner: '', tick: 1s}\n": true,
		"clock: {owner: '', alarm: {loudness: 5}}\n": true,
		"serving: {bell: {bell_rings: 5}}\n":         true, // no part of the world
		"clock: {owner: ann}\n":                      false,
		"clock: {owner: '', tick: 2s}\n":             false,
		"evaluation: {rules: ['slackfit:0.9']}\n":    true,
		"evaluation: {requests: 7}\n":                false,
	} {
		if got := mustParseLines(t, lines).Hash() == hash; got != same {
			t.Errorf("%q: the same world is %v, want %v", lines, got, same)
		}
	}
	s := mustParseLines(t, "clock: {owner: ann, alarm: {loudness: 5}}\n")
	s.Hash()
	if Of[clock](s).Alarm.Loudness != 5 {
		t.Error("hashing has changed the section")
	}
}

// A running router takes over what may change, and the rest takes a restart.
func TestARegisteredSectionIsReloaded(t *testing.T) {
	now := mustParseLines(t, "clock: {owner: ann, alarm: {loudness: 1}}\n")
	next := mustParseLines(t, "clock: {owner: bob, alarm: {loudness: 2, clock_zone: x}}\nserving: {bell: {bell_rings: 9}}\nevaluation: {requests: 7}\n")
	if got, want := now.Changed(next), []string{"clock.alarm.loudness", "clock.alarm.clock_zone", "serving.bell.bell_rings"}; !slices.Equal(got, want) {
		t.Errorf("changed %q, want %q", got, want)
	}
	if got, want := now.Differences(next), []string{"clock.owner"}; !slices.Equal(got, want) {
		t.Errorf("to restart %q, want %q", got, want)
	}
	inForce := *now
	inForce.TakeOver(next)
	if c := Of[clock](&inForce); c.Owner != "ann" || c.Alarm.Loudness != 2 || c.Alarm.Zone != "x" || Of[bell](&inForce).Rings != 9 {
		t.Errorf("in force: %+v, %+v", c, Of[bell](&inForce))
	}
	if c := Of[clock](now); c.Alarm.Loudness != 1 || Of[bell](now).Rings != 0 {
		t.Errorf("the scenario before has changed: %+v", c)
	}
	if inForce.Evaluation.Requests == 7 {
		t.Error("what a router does not use was taken over")
	}
	if got := inForce.Changed(next); len(got) > 0 {
		t.Errorf("still changed: %q", got)
	}
}

// The documentation is held to the keys of registered sections as well.
func TestKeysOfRegisteredSectionsAreGuarded(t *testing.T) {
	got := undocumented(t, madeUpSections())
	for _, want := range []string{"clock.owner", "clock.alarm.loudness", "clock.alarm.clock_zone", "serving.bell", "serving.bell.bell_rings"} {
		if !slices.Contains(got, want) {
			t.Errorf("%s counts as documented; what does not: %q", want, got)
		}
	}
}

// [Of] finds a section by its type, and files have one section of a key.
// kindOf returns the type of a section.
func kindOf(d registered) reflect.Type {
	s := new(Scenario)
	s.register(sections())
	return reflect.TypeOf(d.value(s)).Elem()
}

func TestRegisteredSectionsAreApart(t *testing.T) {
	kinds, keys := map[reflect.Type]bool{}, map[string]bool{}
	eachField(reflect.ValueOf(new(Scenario)).Elem(), func(name string, _ reflect.Value, _ bool) { keys[name] = true })
	for _, d := range sections() {
		if kinds[kindOf(d)] || d.kept() && keys[d.path()] {
			t.Errorf("%s is there twice, by its key or its type", d.path())
		}
		kinds[kindOf(d)], keys[d.path()] = true, true
	}
}
