package operate

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"gearshift/router/placement"
	"gearshift/router/profile"
)

// failoverFile is a problem as it is written. What is free and what variants demand has the names of
// resources as keys.
type failoverFile struct {
	Alpha           float64              `yaml:"alpha"`
	Policy          string               `yaml:"policy"`
	SiteIndependent bool                 `yaml:"site_independent,omitempty"`
	Servers         []plannedServer      `yaml:"servers"`
	Applications    []plannedApplication `yaml:"applications"`
}

type plannedServer struct {
	Name string             `yaml:"name"`
	Site string             `yaml:"site,omitempty"`
	Free map[string]float64 `yaml:"free"`
}

type plannedApplication struct {
	Name         string           `yaml:"name"`
	Primary      string           `yaml:"primary,omitempty"`
	Site         string           `yaml:"site,omitempty"` // of a primary that is not among the servers
	Rate         *float64         `yaml:"rate,omitempty"` // default 1
	Critical     bool             `yaml:"critical,omitempty"`
	MaxLatencyMS float64          `yaml:"max_latency_ms,omitempty"`
	Variants     []plannedVariant `yaml:"variants"`
}

type plannedVariant struct {
	Name      string             `yaml:"name"`
	Quality   float64            `yaml:"quality"`
	Demand    map[string]float64 `yaml:"demand"`
	LatencyMS float64            `yaml:"latency_ms,omitempty"`
}

// defaultAlpha is the paper's (FL-6).
const defaultAlpha = 0.1

// problem checks what is written, and is what it says.
func (f *failoverFile) problem() (*placement.Problem, error) {
	p := &placement.Problem{Alpha: f.Alpha, SiteIndependent: f.SiteIndependent, Resources: f.resources()}
	sites := map[string]string{}
	for _, s := range f.Servers {
		free, err := amounts(p.Resources, s.Free, false)
		if err != nil {
			return nil, fmt.Errorf("server %q: free: %w", s.Name, err)
		}
		p.Bins = append(p.Bins, placement.Bin{Name: s.Name, Site: s.Site, Free: free})
		sites[s.Name] = s.Site
	}
	for _, a := range f.Applications {
		x := placement.Item{Name: a.Name, Primary: a.Primary, Site: a.Site, Rate: 1, MaxLatency: duration(a.MaxLatencyMS)}
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
			demand, err := amounts(p.Resources, v.Demand, true)
			if err != nil {
				return nil, fmt.Errorf("application %q: variant %q: demand: %w", a.Name, v.Name, err)
			}
			x.Variants = append(x.Variants, placement.Alternative{Name: v.Name, Quality: v.Quality, Demand: demand, Latency: duration(v.LatencyMS)})
		}
		p.Items = append(p.Items, x)
	}
	return p, p.Validate()
}

// duration is a time in ms, cut to what is longer than any answer takes.
func duration(ms float64) time.Duration {
	const most = 1e9
	return profile.Duration(max(-most, min(most, ms)))
}

// resources are the names of all that servers have or variants demand, in order.
func (f *failoverFile) resources() []string {
	names := map[string]bool{}
	note := func(list map[string]float64) {
		for name := range list {
			names[name] = true
		}
	}
	for _, s := range f.Servers {
		note(s.Free)
	}
	for _, a := range f.Applications {
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
