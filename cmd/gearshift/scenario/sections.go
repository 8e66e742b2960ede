package scenario

import (
	"gearshift/serving/config"
	"gearshift/workloads"
)

// sections returns the registered parts of the file, in the order in which they are judged.
func sections() []registered {
	return []registered{evaluationSection(), trustedSection(), timeoutsSection(), overloadSection(), logSection(), jobsSection(), failoverSection()}
}

// evaluationSection describes how policies are judged.
func evaluationSection() registered {
	return section[Evaluation]{
		key:     "evaluation",
		in:      func(s *Scenario) *Evaluation { return &s.Evaluation },
		initial: defaultEvaluation,
		check:   (*checker).evaluation,
		world:   func(e *Evaluation) { e.Rules, e.RulesFor = nil, nil }, // the rules to beat
		offline: true,
	}
}

func defaultEvaluation() Evaluation {
	return Evaluation{
		StaticMemory: 90,
		Requests:     10_000,
		PhaseS:       40,
		StableRates:  []float64{0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48},
		RateScale:    1,
	}
}

func (c *checker) evaluation(e *Evaluation) {
	c.judgeIf(e.Requests < 1, "evaluation.requests", "must be at least 1, not %d", e.Requests)
	c.seconds("evaluation.phase_s", e.PhaseS)
	c.judgeIf(len(e.StableRates) == 0, "evaluation.stable_rates", "at least one is needed")
	c.scale("evaluation.rate_scale", e.RateScale)
	for i, rate := range e.StableRates {
		if _, err := workloads.NewPoisson(rate); err != nil {
			c.judge(item("evaluation.stable_rates", i), "%v", err)
		}
	}
}

// Trusted lists the keys whose evaluations of policies count without another one.
type Trusted struct {
	// TrustedKeys are public keys, as gearshift policy keygen prints them.
	TrustedKeys []string `yaml:"trusted_keys,omitempty"`
}

// trustedSection says whose evaluations of policies are trusted.
func trustedSection() registered {
	const key = "serving.policies"
	return section[Trusted]{
		key: key, offline: true,
		check: func(c *checker, v *Trusted) {
			for i, text := range v.TrustedKeys {
				if !publicKey.MatchString(text) {
					c.judge(item(key+".trusted_keys", i), "%q is not a public key; want one that gearshift policy keygen prints, such as ed25519:… with 44 characters", text)
				}
			}
		},
	}
}

// The parts of the server's configuration that are used outside of it, and so must be taken
// over by a reload. The server judges them, with the rest of its own.

func timeoutsSection() registered {
	return section[config.Timeouts]{
		key: "serving.timeouts", in: func(s *Scenario) *config.Timeouts { return &s.Serving.Server.Timeouts },
		initial: func() config.Timeouts { return config.Default().Timeouts },
		live:    []string{""},
	}
}

func overloadSection() registered {
	return section[config.Overload]{
		key: "serving.overload", in: func(s *Scenario) *config.Overload { return &s.Serving.Server.Overload },
		initial: config.DefaultOverload,
		live:    []string{""},
	}
}

func logSection() registered {
	return section[config.Log]{
		key: "serving.log", in: func(s *Scenario) *config.Log { return &s.Serving.Server.Log },
		initial: config.DefaultLog,
		live:    []string{"level", "access", "sample"},
	}
}
