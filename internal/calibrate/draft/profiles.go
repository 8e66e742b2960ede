package draft

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/scenario"
)

// WithProfiles returns the text of a scenario with the profiles of the files.
func WithProfiles(ref string, files []string) ([]byte, error) {
	s, err := scenario.Load(ref)
	if err != nil {
		return nil, err
	}
	doc, root, err := document(ref)
	if err != nil {
		return nil, err
	}
	profiles := valueAt(root, "profiles", yaml.SequenceNode)
	for _, file := range files {
		entries, err := readProfiles(file)
		if err != nil {
			return nil, err
		}
		for _, entry := range entries {
			if err := place(profiles, entry, s); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
		}
	}
	return valid(doc, ref+" with measured profiles")
}

// readProfiles returns the entries of a profile file.
func readProfiles(file string) ([]*yaml.Node, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cannot read the profile: %w", err)
	}
	var doc struct {
		Profiles []yaml.Node `yaml:"profiles"`
	}
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: not a profile: %s", file, flat(err))
	}
	if len(doc.Profiles) == 0 {
		return nil, fmt.Errorf("%s: no profiles; want a file as gearshift profile measure writes it", file)
	}
	var entries []*yaml.Node
	for i := range doc.Profiles {
		entries = append(entries, &doc.Profiles[i])
	}
	return entries, nil
}

// place puts a measured entry in the place of the variant's.
func place(profiles, measured *yaml.Node, s *scenario.Scenario) error {
	var m scenario.LatencyModel
	if err := measured.Decode(&m); err != nil {
		return fmt.Errorf("not a profile: %s", flat(err))
	}
	if !slices.ContainsFunc(s.Variants, func(v scenario.Variant) bool { return v.Name == m.Variant }) {
		return fmt.Errorf("the profile is of variant %q; there are %s", m.Variant, scenario.Names(s.Variants, func(v scenario.Variant) string { return v.Name }))
	}
	var of []*yaml.Node
	for i, l := range s.Models {
		if l.Variant == m.Variant && (len(m.Hosts) == 0 || slices.Equal(l.Hosts, m.Hosts)) {
			of = append(of, profiles.Content[i])
		}
	}
	if len(of) != 1 {
		return fmt.Errorf("the scenario has %d profiles of variant %s by host; say which with hosts: in the file", len(of), m.Variant)
	}
	for i := 0; i+1 < len(measured.Content); i += 2 {
		key, value := measured.Content[i].Value, measured.Content[i+1]
		memory := strings.HasSuffix(key, "_bytes") || strings.HasSuffix(key, "_bytes_per_token")
		if key == "variant" || key == "hosts" || memory && value.Value == "0" {
			continue
		}
		*valueAt(of[0], key, yaml.ScalarNode) = *value
	}
	// Keys that may be left out are, where nothing was measured: what stood there is of
	// another measurement.
	for key, value := range map[string]float64{"prompt_ms": m.Prompt, "request_ms": m.Request, "crowding": m.Crowding} {
		if value == 0 {
			drop(of[0], key)
		}
	}
	return nil
}

// flat returns an error of several lines on one.
func flat(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }
