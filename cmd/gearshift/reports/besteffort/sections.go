package besteffort

import (
	"context"
	"strings"

	"gearshift/env/evaluation/report"
)

// frontierName is the section whose points a file may hold.
const frontierName = "frontier"

// section is a part of the report.
type section struct {
	name string
	make func(*paper, context.Context) report.Section
	// slow says that --quick leaves it out.
	slow bool
	// alone makes a report of this section, for --only, without the policies and rules of the
	// others. It is nil where the section needs those. About says what it shows.
	alone func(*paper, context.Context) *report.Report
	about string
}

// sections are all that a report has, in its order. Some use what earlier ones have played.
func sections() []section {
	return []section{
		{name: "rules", make: (*paper).rulesSection},
		{name: "ceiling", make: (*paper).ceilingSection},
		{name: "stable", make: (*paper).stableSection},
		{name: "unstable", make: (*paper).unstableSection},
		{name: frontierName, make: (*paper).frontierSection, alone: (*paper).frontierAlone, about: "utility against time near the peak"},
		{name: "soft", make: (*paper).softSection},
		{name: "shift", make: (*paper).shiftSection},
		{name: "hardware", make: (*paper).hardwareSection},
		{name: "deadlines", make: (*paper).deadlineSection},
		{name: "beyond", make: (*paper).beyondSection},
		{name: "others", make: (*paper).othersSection, slow: true}, // other fleets take long
		{name: "training", make: (*paper).trainingSection},
	}
}

// sectionNamed is the section that --only may name; nil if there is none of the name.
func sectionNamed(name string) *section {
	for _, s := range sections() {
		if s.name == name && s.alone != nil {
			return &s
		}
	}
	return nil
}

// onlyOnes are the names that --only may have, each followed by what it shows if about is set.
func onlyOnes(about bool) string {
	var list []string
	for _, s := range sections() {
		switch {
		case s.alone == nil:
		case about:
			list = append(list, s.name+", "+s.about)
		default:
			list = append(list, s.name)
		}
	}
	return strings.Join(list, "; ")
}
