package workloads

import (
	"strings"
	"testing"
	"time"
)

// The named bursts have the mean rates that their documentation gives, and
// arrive in clusters as their law says.
func TestBursts(t *testing.T) {
	for name, rate := range map[string]float64{"short-bursts": 5.27, "long-bursts": 4.83, "clusters": 4} {
		spec, err := Parse(name)
		if err != nil || spec.String() != name {
			t.Fatalf("%s: %v, %v", name, spec, err)
		}
		p, err := spec.Process(Settings{})
		if err != nil {
			t.Fatal(err)
		}
		near(t, name+": own mean rate", p.MeanRate(), rate, 0.002)
		m := Measure(open(t, p, Seed(Evaluation, 1), Limit{Requests: 250_000}))
		near(t, name+": mean rate", m.MeanRate, rate, 0.06)
		if m.GapCV < 1.5 {
			t.Errorf("%s: gaps of CV %v are no bursts", name, m.GapCV)
		}
	}
}

func TestParseMMPP(t *testing.T) {
	spec, err := Parse("mmpp:0,40,30,2.5")
	if want := (Spec{Form: "mmpp", High: 40, Calm: 30, Burst: 2.5}); err != nil || spec != want || spec.String() != "mmpp:0,40,30,2.5" {
		t.Fatalf("%+v, %v", spec, err)
	}
	p, err := spec.Process(Settings{RateScale: 3}) // scales what is the paper's only
	if err != nil {
		t.Fatal(err)
	}
	near(t, "mean rate", p.MeanRate(), 40*2.5/32.5, 1e-9)
	near(t, "long-run IDC", dispersion(t, p, Forever), 1+2*1600*(2.5/32.5)*(30/32.5)/(1/30.0+1/2.5)/p.MeanRate(), 1e-9)
}

// A scaled process is the same arrivals, sooner: mean rate and rates are so many
// times as high, and the dispersion is that of as many requests.
func TestScaled(t *testing.T) {
	for _, text := range []string{"u1", "u2", "u2-uniform", "short-bursts"} {
		spec, _ := Parse(text)
		plain, err := spec.Process(Settings{RateScale: 1})
		if err != nil {
			t.Fatal(err)
		}
		fast, err := spec.Process(Settings{RateScale: 2.5})
		if err != nil {
			t.Fatal(err)
		}
		near(t, text+": mean rate", fast.MeanRate(), 2.5*plain.MeanRate(), 1e-12)
		if idc, known := plain.IDC(10 * time.Second); known {
			near(t, text+": IDC", dispersion(t, fast, 4*time.Second), idc, 1e-9)
		}
		near(t, text+": long-run IDC", dispersion(t, fast, Forever), dispersion(t, plain, Forever), 1e-12)
		a, b := plain.Times(source(1, arrivalPart)), fast.Times(source(1, arrivalPart))
		for range 1000 {
			at, rate, _ := a()
			sooner, higher, ok := b()
			if d := sooner - time.Duration(float64(at)/2.5); !ok || d < -1 || d > 1 || higher != 2.5*rate {
				t.Fatalf("%s: %v at rate %v, unscaled %v at rate %v", text, sooner, higher, at, rate)
			}
		}
	}
}

// Every other workload keeps the rate that it was given, and the scale 1 is no
// scale at all.
func TestWhatIsNotScaled(t *testing.T) {
	for _, text := range []string{"stable:3", "poisson:3", "gamma:3,2", "weibull:3,2", "trace:arena@3"} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		p, err := spec.Process(Settings{RateScale: 4})
		if err != nil {
			t.Fatal(err)
		}
		near(t, text, p.MeanRate(), 3, 1e-6)
	}
	for _, scale := range []float64{0, 1} {
		if p, err := (Spec{Form: "u1"}).Process(Settings{RateScale: scale}); err != nil || p != (U1{}) {
			t.Errorf("scale %v: %v, %v", scale, p, err)
		}
	}
	for _, scale := range []float64{-1, 0.001, 101} {
		if p, err := (Spec{Form: "u1"}).Process(Settings{RateScale: scale}); err == nil || p != nil {
			t.Errorf("scale %v makes %v", scale, p)
		}
	}
}

// The traces that are named are built in, whatever the working directory.
func TestBuiltInTracesAreNamed(t *testing.T) {
	for _, name := range []string{"azure-code", "arena"} {
		if loaded(name).Name != name || !strings.Contains(Forms, name) {
			t.Errorf("%s is not named in %s", name, Forms)
		}
	}
}
