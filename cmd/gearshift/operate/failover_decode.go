package operate

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"gearshift/internal/output"
	"gearshift/router/placement"
)

// failoverForm is what the input of a plan looks like. What is free and what variants demand has the
// names of resources as keys.
var failoverForm = output.Form{
	Name: "the problem", Want: "an object with servers and applications",
	Keys: map[string][]string{
		"the problem":  {"alpha", "policy", "site_independent", "servers", "applications"},
		"servers":      {"name", "site", "free"},
		"applications": {"name", "primary", "site", "rate", "critical", "max_latency_ms", "variants"},
		"variants":     {"name", "quality", "demand", "latency_ms"},
	},
}

// failoverFile is a problem as it is written. What has no default is a pointer.
type failoverFile struct {
	Alpha           *float64              `json:"alpha"`
	Policy          string                `json:"policy"`
	SiteIndependent bool                  `json:"site_independent"`
	Servers         *[]plannedServer      `json:"servers"`
	Applications    *[]plannedApplication `json:"applications"`
}

type plannedServer struct {
	Name string             `json:"name"`
	Site string             `json:"site"`
	Free map[string]float64 `json:"free"`
}

type plannedApplication struct {
	Name         string           `json:"name"`
	Primary      string           `json:"primary"`
	Site         string           `json:"site"` // of a primary that is not among the servers
	Rate         *float64         `json:"rate"`
	Critical     bool             `json:"critical"`
	MaxLatencyMS float64          `json:"max_latency_ms"`
	Variants     []plannedVariant `json:"variants"`
}

type plannedVariant struct {
	Name      string             `json:"name"`
	Quality   *float64           `json:"quality"`
	Demand    map[string]float64 `json:"demand"`
	LatencyMS float64            `json:"latency_ms"`
}

// defaultAlpha is the paper's (FL-6).
const defaultAlpha = 0.1

// problem checks what is written, and is what it says.
func (f *failoverFile) problem() (*placement.Problem, error) {
	switch {
	case f.Servers == nil:
		return nil, errors.New("servers is missing; want a list, which may be empty")
	case f.Applications == nil:
		return nil, errors.New("applications is missing; want a list")
	}
	p := &placement.Problem{Alpha: defaultAlpha, SiteIndependent: f.SiteIndependent, Resources: f.resources()}
	if f.Alpha != nil {
		p.Alpha = *f.Alpha
	}
	sites := map[string]string{}
	for _, s := range *f.Servers {
		free, err := amounts(p.Resources, s.Free, false)
		if err != nil {
			return nil, fmt.Errorf("server %q: free: %w", s.Name, err)
		}
		p.Bins = append(p.Bins, placement.Bin{Name: s.Name, Site: s.Site, Free: free})
		sites[s.Name] = s.Site
	}
	for _, a := range *f.Applications {
		x := placement.Item{Name: a.Name, Primary: a.Primary, Site: a.Site, Rate: 1, MaxLatencyMS: a.MaxLatencyMS}
		if site, known := sites[a.Primary]; known {
			if a.Site != "" && a.Site != site {
				return nil, fmt.Errorf("application %q: site: %q is not that of its primary %s, %q; leave it out", a.Name, a.Site, a.Primary, site)
			}
			x.Site = site
		}
		if a.Rate != nil {
			x.Rate = *a.Rate
		}
		for _, v := range a.Variants {
			if v.Quality == nil {
				return nil, fmt.Errorf("application %q: variant %q: quality is missing; want a number", a.Name, v.Name)
			}
			demand, err := amounts(p.Resources, v.Demand, true)
			if err != nil {
				return nil, fmt.Errorf("application %q: variant %q: demand: %w", a.Name, v.Name, err)
			}
			x.Variants = append(x.Variants, placement.Alternative{Name: v.Name, Quality: *v.Quality, Demand: demand, LatencyMS: v.LatencyMS})
		}
		p.Items = append(p.Items, x)
	}
	return p, p.Validate()
}

// resources are the names of all that servers have or variants demand, in order.
func (f *failoverFile) resources() []string {
	names := map[string]bool{}
	note := func(list map[string]float64) {
		for name := range list {
			names[name] = true
		}
	}
	for _, s := range *f.Servers {
		note(s.Free)
	}
	for _, a := range *f.Applications {
		for _, v := range a.Variants {
			note(v.Demand)
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// amounts are those of the resources, in order. A server must have what it is written with; a
// variant that does not name a resource demands none of it.
func amounts(resources []string, of map[string]float64, optional bool) ([]float64, error) {
	if len(of) == 0 {
		return nil, errors.New("it is missing; want amounts by resource, such as {\"memory\": 400}")
	}
	list := make([]float64, len(resources))
	for r, name := range resources {
		amount, there := of[name]
		if !there && !optional {
			return nil, fmt.Errorf("there is no amount of %s, which others have; want one", name)
		}
		list[r] = amount
	}
	return list, nil
}
