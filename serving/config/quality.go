package config

import (
	"slices"
	"strings"
	"time"

	"gearshift/internal/faults"
)

// Quality sets how the server uses a predictor of the quality of answers, and how it learns from
// scores of them. It does nothing without a predictor.
type Quality struct {
	// KeepPrompts keeps the text of some prompts in memory, for operators. Otherwise only hashes are kept.
	KeepPrompts bool `yaml:"keep_prompts,omitempty"`
	// Headers says what was predicted in the header of answers.
	Headers  bool     `yaml:"headers,omitempty"`
	Feedback Feedback `yaml:"feedback,omitempty"`
	Shadow   Shadow   `yaml:"shadow,omitempty"`
	Learn    Learn    `yaml:"learn,omitempty"`
}

// Feedback bounds the scores that clients give to answers.
type Feedback struct {
	// Within bounds the time after its end in which an answer may be scored. Zero takes no scores.
	Within time.Duration `yaml:"within,omitempty"`
	// PerKey bounds the scores that a key may give in an hour.
	PerKey int `yaml:"per_key,omitempty"`
	// Trusted names the keys from whose scores the router learns without the agreement of others.
	Trusted []string `yaml:"trusted,omitempty"`
}

// Shadow has a second size answer some of the requests too, so that the answers are compared. It
// does so only while there is room.
type Shadow struct {
	// Share of the requests, from 0 to 1.
	Share float64 `yaml:"share,omitempty"`
	// TokensPerHour bounds the output tokens of these answers.
	TokensPerHour int `yaml:"tokens_per_hour,omitempty"`
	// ScoredBy is one of [ShadowScores].
	ScoredBy string `yaml:"scored_by,omitempty"`
}

// ShadowScores are the values of [Shadow.ScoredBy]. The first is the default.
var ShadowScores = []string{"agreement", "judge"}

// Learn sets how scores change the predictor in use.
type Learn struct {
	// Every is the time between two versions of the predictor in use. Zero learns nothing.
	Every time.Duration `yaml:"every,omitempty"`
	// Rate is the weight of one score, as a multiple of a label that the predictor was fitted on.
	Rate float64 `yaml:"rate,omitempty"`
}

// DefaultQuality takes scores for an hour after each answer and learns from them by the minute. It
// has no request answered twice.
func DefaultQuality() Quality {
	return Quality{
		Headers:  true,
		Feedback: Feedback{Within: time.Hour, PerKey: 600},
		Shadow:   Shadow{TokensPerHour: 100_000, ScoredBy: ShadowScores[0]},
		Learn:    Learn{Every: time.Minute, Rate: 1},
	}
}

// Validate names every fault of the configuration, by its YAML key.
func (q Quality) Validate() error {
	var found faults.List
	within, every := q.Feedback.Within, q.Learn.Every
	found.If(within != 0 && (within < time.Second || within > 30*24*time.Hour), "feedback.within: %v; want 0s (no scores) or a time from 1s to 720h", within)
	found.If(q.Feedback.PerKey < 1, "feedback.per_key: %d must be at least 1", q.Feedback.PerKey)
	found.If(!(q.Shadow.Share >= 0 && q.Shadow.Share <= 1), "shadow.share: %v must be a share from 0 to 1", q.Shadow.Share)
	found.If(q.Shadow.TokensPerHour < 1, "shadow.tokens_per_hour: %d must be at least 1", q.Shadow.TokensPerHour)
	found.If(!slices.Contains(ShadowScores, q.Shadow.ScoredBy), "shadow.scored_by: unknown value %q; want %s", q.Shadow.ScoredBy, strings.Join(ShadowScores, " or "))
	found.If(q.Shadow.ScoredBy == "judge", "shadow.scored_by: judge; no judge can be asked while serving: want %s", ShadowScores[0])
	found.If(every != 0 && (every < time.Second || every > 24*time.Hour), "learn.every: %v; want 0s (never) or a time from 1s to 24h", every)
	found.If(!(q.Learn.Rate > 0 && q.Learn.Rate <= 100), "learn.rate: %v must be above 0 and at most 100", q.Learn.Rate)
	return found.Err()
}
