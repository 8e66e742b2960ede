package applications

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gearshift/internal/splitmix"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/placement"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// Drawing describes applications and hosts that are drawn.
type Drawing struct {
	// Applications counts them; zero is as many as fill the hosts.
	Applications int
	Hosts        int
	Sites        int // to which hosts are dealt out in turn
	// Utilisation is the share of the hosts' capacity that the applications take, of the
	// resource of which they take most.
	Utilisation float64
	// Families are those of which each application has one, drawn evenly. Its full variant is
	// the largest that answers within BoundMS.
	Families []workloads.Family
	BoundMS  float64
	// Reference are the families for which the hosts are made, where applications fill them: as
	// large as PerHost applications of these, drawn, make them.
	Reference []workloads.Family
	PerHost   float64
	// Critical is the share of the applications that are critical, spread evenly.
	Critical float64
	Seed     uint64
}

// Of is the drawing with families of one class alone, which fill the hosts. An empty class is all
// families, and as many applications as before.
func (d Drawing) Of(class string) Drawing {
	if class == "" {
		return d
	}
	d.Reference, d.Applications = d.Families, 0
	d.Families = slices.DeleteFunc(slices.Clone(d.Families), func(f workloads.Family) bool { return f.Class(d.BoundMS) != class })
	return d
}

// The rates of applications that are drawn, in requests per second.
const (
	leastRate = 1
	mostRate  = 5
)

// Draw draws the applications, and hosts that are alike and as large as the utilisation asks for.
// Primaries are placed by the caller.
func Draw(d Drawing) (*failover.Problem, error) {
	if d.Hosts < 1 || d.Sites < 1 || !(d.Utilisation > 0 && d.Utilisation <= 1) || len(d.Families) == 0 {
		return nil, fmt.Errorf("cannot draw %d hosts on %d sites, %d families and a utilisation of %v", d.Hosts, d.Sites, len(d.Families), d.Utilisation)
	}
	s := &failover.Problem{Resources: []string{"memory", "compute"}}
	random := rand.New(rand.NewPCG(splitmix.Mix(d.Seed), 11))
	var capacity []float64
	if d.Applications > 0 {
		for range d.Applications {
			s.Applications = append(s.Applications, d.application(len(s.Applications), d.Families, random))
		}
		capacity = d.capacity(s.Applications)
	} else {
		var reference []failover.Application
		for range int(math.Round(d.PerHost * float64(d.Hosts))) {
			reference = append(reference, d.application(len(reference), d.Reference, random))
		}
		capacity = d.capacity(reference)
		s.Applications = d.fill(capacity, random)
	}
	for i := range s.Applications {
		s.Applications[i].Critical = math.Floor(float64(i+1)*d.Critical+1e-9) > math.Floor(float64(i)*d.Critical+1e-9)
	}
	for i := range d.Hosts {
		s.Hosts = append(s.Hosts, fleet.Host{Name: fmt.Sprintf("s%d", i+1), Site: fmt.Sprintf("site%d", i%d.Sites+1)})
		s.Capacity = append(s.Capacity, capacity)
	}
	return s, nil
}

// application draws one.
func (d *Drawing) application(i int, from []workloads.Family, random *rand.Rand) failover.Application {
	f := from[random.IntN(len(from))]
	rate := leastRate + (mostRate-leastRate)*random.Float64()
	return Application(fmt.Sprintf("%s-%d", f.Name, i+1), f, rate, d.BoundMS)
}

// Application returns an application of a family. Qualities are relative to that of its largest variant
// in time, which is its full one.
func Application(name string, f workloads.Family, rate, boundMS float64) failover.Application {
	a := failover.Application{Name: name, Primary: -1, Full: -1, Rate: rate, MaxLatency: profile.Duration(boundMS)}
	best := 0.
	for i := range f.Models {
		m := &f.Models[i]
		if ms := m.ServiceMS(); boundMS == 0 || ms <= boundMS {
			best, a.Full = m.Top1, i
		}
		a.Variants = append(a.Variants, failover.Variant{
			Alternative: placement.Alternative{Name: m.Name, Model: m.Name, Quality: m.Top1, Demand: []float64{m.MemoryMB() * 1e6, rate * m.ServiceMS() / 1000}, Latency: profile.Duration(m.ServiceMS())},
			Load:        profile.Duration(m.LoadMS()),
		})
	}
	for i := range a.Variants {
		a.Variants[i].Quality /= best
	}
	return a
}

// taken returns what the full variants take.
func taken(list []failover.Application) []float64 {
	sum := make([]float64, 2)
	for i := range list {
		for r, x := range list[i].Variants[list[i].Full].Demand {
			sum[r] += x
		}
	}
	return sum
}

// capacity returns how much of each resource a host has if the applications take the utilisation of all hosts.
func (d *Drawing) capacity(list []failover.Application) []float64 {
	all := taken(list)
	for r := range all {
		all[r] /= d.Utilisation * float64(d.Hosts)
	}
	return all
}

// fill draws applications until they take the utilisation of the hosts.
func (d *Drawing) fill(capacity []float64, random *rand.Rand) (list []failover.Application) {
	left := make([]float64, len(capacity))
	for r, x := range capacity {
		left[r] = x * d.Utilisation * float64(d.Hosts)
	}
	for {
		a := d.application(len(list), d.Families, random)
		for r, x := range a.Variants[a.Full].Demand {
			if left[r] -= x; left[r] < 0 {
				return list
			}
		}
		list = append(list, a)
	}
}
