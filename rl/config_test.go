package rl_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"gearshift/rl"
	"gearshift/rl/rltest"
)

func TestConfigFaultsAreNamedByTheirKeys(t *testing.T) {
	cfg := rltest.Config()
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*rl.Config){
		"decisions: must be at least 1, not 0":                    func(c *rl.Config) { c.Decisions = 0 },
		"hidden: at least one layer":                              func(c *rl.Config) { c.Hidden = nil },
		"hidden[1]: must be at least 1":                           func(c *rl.Config) { c.Hidden = []int{8, 0} },
		"batch: ":                                                 func(c *rl.Config) { c.Batch = 0 },
		"train_every: ":                                           func(c *rl.Config) { c.TrainEvery = -1 },
		"learning_rate: must be positive":                         func(c *rl.Config) { c.LearningRate = math.NaN() },
		"final_learning_rate: ":                                   func(c *rl.Config) { c.FinalLearningRate = math.Inf(1) },
		"final_share: must be between 0 and 1":                    func(c *rl.Config) { c.FinalShare = 1.5 },
		"discount: exactly one of per_step and time_constant_s":   func(c *rl.Config) { c.Discount.TimeConstant = 15 },
		"discount: exactly one":                                   func(c *rl.Config) { c.Discount = rl.Discount{} },
		"discount.per_step: ":                                     func(c *rl.Config) { c.Discount.PerStep = 1.01 },
		"discount.time_constant_s: ":                              func(c *rl.Config) { c.Discount = rl.Discount{TimeConstant: -1} },
		"target_sync: ":                                           func(c *rl.Config) { c.TargetSync = 0 },
		"epsilon.start: ":                                         func(c *rl.Config) { c.Epsilon.Start = 2 },
		"epsilon.end: ":                                           func(c *rl.Config) { c.Epsilon.End = -0.1 },
		"epsilon.share: ":                                         func(c *rl.Config) { c.Epsilon.Share = math.NaN() },
		"replay: must be at least 1":                              func(c *rl.Config) { c.Replay = 0 },
		"replay: 31 transitions cannot fill a batch of 32":        func(c *rl.Config) { c.Replay = 31 },
		"warmup: ":                                                func(c *rl.Config) { c.Warmup = -1 },
		"batch: a run of 31 decisions cannot fill one of 32":      func(c *rl.Config) { c.Decisions, c.Warmup = 31, 0 },
		"warmup: 3001 decisions leave no gradient step of a run":  func(c *rl.Config) { c.Warmup = 3001 },
		"n_step_s: bounds returns of several decisions":           func(c *rl.Config) { c.Discount, c.NStepTime = rl.Discount{TimeConstant: 10}, 0.3 },
		"priority.exponent: must be above 0 and at most 1":        func(c *rl.Config) { c.Priority = &rl.Priority{Correction: 0.4} },
		"priority.correction: must be above 0":                    func(c *rl.Config) { c.Priority = &rl.Priority{Exponent: 1, Correction: math.NaN()} },
		"huber: ":                                                 func(c *rl.Config) { c.Huber = 0 },
		"clip_norm: ":                                             func(c *rl.Config) { c.ClipNorm = 0 },
		"members: must be at least 0":                             func(c *rl.Config) { c.Members = -1 },
		"environments: must be from 1 to 256, or 0 for 1, not -1": func(c *rl.Config) { c.Environments = -1 },
		"environments: must be from 1 to 256":                     func(c *rl.Config) { c.Environments = 100000 },
		"members: must be at most 256, not 257":                   func(c *rl.Config) { c.Members = 257 },
		"hidden[1]: must be at most 16384":                        func(c *rl.Config) { c.Hidden = []int{8, 1e15} },
		"replay: must be at most 100000000":                       func(c *rl.Config) { c.Replay = 1e15 },
		"batch: must be at most 1048576":                          func(c *rl.Config) { c.Batch, c.Decisions, c.Replay = 1<<20+1, 1<<21, 1<<21 },
		"advice_margin: must be positive":                         func(c *rl.Config) { c.AdviceMargin = -0.1 },
		"n_step: ":                                                func(c *rl.Config) { c.NStep = -1 },
		"episode: ":                                               func(c *rl.Config) { c.Episode = 0 },
		"validate_every: ":                                        func(c *rl.Config) { c.ValidateEvery = 0 },
		"checkpoint_every: ":                                      func(c *rl.Config) { c.CheckpointEvery = 0 },
	} {
		cfg := rltest.Config()
		change(&cfg)
		err := cfg.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// Every fault of a config without anything in it, and every key of the type.
func TestConfigReportsAllFaultsAtOnce(t *testing.T) {
	message := (&rl.Config{}).Validate().Error()
	mayBeZero := map[string]bool{"final_share": true, "epsilon": true, "warmup": true, "centre_rewards": true, "weight_average": true}
	kind := reflect.TypeFor[rl.Config]()
	for i := range kind.NumField() {
		key, option := strings.CutSuffix(kind.Field(i).Tag.Get("yaml"), ",omitempty")
		if option {
			continue
		}
		if named := strings.Contains("\n"+message, "\n"+key+": "); named == mayBeZero[key] {
			t.Errorf("%s: named %v in\n%s", key, named, message)
		}
	}
}

func TestDiscount(t *testing.T) {
	if got := (rl.Discount{PerStep: 0.99}).Factor(time.Hour); got != 0.99 {
		t.Errorf("per step: %v", got)
	}
	d := rl.Discount{TimeConstant: 15}
	if got := d.Factor(15 * time.Second); math.Abs(got-1/math.E) > 1e-15 {
		t.Errorf("after one time constant: %v", got)
	}
	if got := d.Factor(0); got != 1 {
		t.Errorf("after no time: %v", got)
	}
	if a, b := d.Factor(time.Second)*d.Factor(2*time.Second), d.Factor(3*time.Second); math.Abs(a-b) > 1e-15 {
		t.Errorf("1 s and 2 s discount by %v, 3 s by %v", a, b)
	}
}

func TestSchedules(t *testing.T) {
	e := rl.Epsilon{Start: 1, End: 0.2, Share: 0.5}
	for decision, want := range map[int]float64{0: 1, 25: 0.6, 50: 0.2, 99: 0.2} {
		if got := e.At(decision, 100); math.Abs(got-want) > 1e-15 {
			t.Errorf("ε at %d is %v, not %v", decision, got, want)
		}
	}
	if got := (rl.Epsilon{Start: 1, End: 0.5}).At(0, 100); got != 0.5 {
		t.Errorf("ε without a share is %v", got)
	}
	p := rl.Priority{Exponent: 0.6, Correction: 0.4}
	for decision, want := range map[int]float64{0: 0.4, 50: 0.7, 100: 1} {
		if got := p.CorrectionAt(decision, 100); math.Abs(got-want) > 1e-15 {
			t.Errorf("correction at %d is %v, not %v", decision, got, want)
		}
	}
	c := rl.Config{Decisions: 100, LearningRate: 5, FinalLearningRate: 1, FinalShare: 0.3}
	for decision, want := range map[int]float64{0: 5, 69: 5, 70: 1, 100: 1} {
		if got := c.LearningRateAt(decision); got != want {
			t.Errorf("learning rate at %d is %v, not %v", decision, got, want)
		}
	}
	c.FinalShare = 0
	if got := c.LearningRateAt(99); got != 5 {
		t.Errorf("learning rate without a final share is %v", got)
	}
}
