package serving

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/access"
	"gearshift/serving/keys"
	"gearshift/serving/wire"
	"gearshift/serving/work"
)

// mostVariants bounds the variants among which models of keys can choose: see
// fleet.Request.Variants.
const mostVariants = 64

// checkGrants names the classes and models of keys that there are not, by the line of
// the keys file.
func (s *Server) checkGrants(c Config, list []keys.Key) error {
	var faults []error
	var classes []string
	for _, x := range c.Classes {
		classes = append(classes, x.Name)
	}
	for _, k := range list {
		fault := func(format string, args ...any) {
			faults = append(faults, fmt.Errorf("%s:%d: %w", c.KeysFile, k.At(), fmt.Errorf(format, args...)))
		}
		if slices.Equal(k.Models, []string{AutoModel}) {
			fault("models: %q alone; want those among which the policy may choose, %s", AutoModel, s.modelNames(0))
		}
		for _, name := range k.Models {
			switch {
			case name == AutoModel:
			case s.table.VariantIndex(name) < 0:
				fault("models: there is no model %q; %s", name, s.modelNames(0))
			case len(s.table.Variants) > mostVariants:
				fault("models: want a scenario of at most %d variants, found %d", mostVariants, len(s.table.Variants))
			}
		}
		for _, name := range k.Classes {
			if len(classes) > 0 && !slices.Contains(classes, name) {
				fault("classes: there is no class of requests %q; there are %s", name, strings.Join(classes, ", "))
			}
		}
	}
	return errors.Join(faults...)
}

// granted is what the request's key may ask for; everything without a key.
func granted(c *gin.Context) keys.Grants {
	if h := access.Of(c).Holder(); h != nil {
		return h.Grants()
	}
	return keys.Grants{}
}

// allowed has a bit for each variant that the grants allow; zero is all of them.
func (s *Server) allowed(g keys.Grants) (variants uint64) {
	for _, name := range g.Models {
		if i := s.table.VariantIndex(name); i >= 0 {
			variants |= 1 << i
		}
	}
	return variants
}

// permit bounds the call to the models that its key may use.
func (s *Server) permit(c *gin.Context, k *call) *wire.Refusal {
	k.fleet.Variants = s.allowed(granted(c))
	if k.fleet.Variants == 0 {
		return nil
	}
	if k.variant != work.Auto && k.fleet.Variants>>k.variant&1 == 0 {
		return wire.Bad(http.StatusForbidden, "model", "model_not_allowed", fmt.Sprintf("this API key may not use %q; %s", s.table.Variants[k.variant].Name, s.modelNames(k.fleet.Variants)))
	}
	for v := range s.table.Variants {
		if s.table.Reaches(&k.fleet, v) {
			return nil
		}
	}
	if k.fleet.MinQuality == 0 {
		return wire.Bad(http.StatusForbidden, "model", "model_not_allowed", fmt.Sprintf("this API key may use no model that answers task %q; %s", s.table.Tasks[k.fleet.Task].Name, s.modelNames(k.fleet.Variants)))
	}
	return wire.Bad(http.StatusBadRequest, strings.ToLower(headerQuality), "quality_not_found", fmt.Sprintf("no model that this API key may use has quality %v; %s", k.fleet.MinQuality, s.modelNames(k.fleet.Variants)))
}

// expected is how many tokens the request is expected to take, of its prompt and of so
// many answers, of at most maxTokens each if that is not zero.
func (s *Server) expected(prompt, answers, maxTokens int) int64 {
	mean := s.queue.Output()
	switch {
	case maxTokens > 0 && (mean == 0 || float64(maxTokens) < mean):
		mean = float64(maxTokens)
	case mean == 0:
		mean = 1
	}
	return int64(prompt) + int64(math.Ceil(mean))*int64(answers)
}

// reserve sets the tokens aside from the budgets of the request's key.
func (s *Server) reserve(c *gin.Context, tokens int64) (keys.Spend, *wire.Refusal) {
	h := access.Of(c).Holder()
	if h == nil {
		return keys.Spend{}, nil
	}
	spend, wait, ok := h.Reserve(time.Now(), tokens)
	if ok {
		return spend, nil
	}
	const code = "token_budget_exceeded"
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	header := c.Writer.Header()
	header.Set(headerReason, code)
	header.Set("Retry-After", strconv.Itoa(seconds))
	header.Set("X-Should-Retry", "false") // the official clients would try again within seconds
	l := h.Limits()
	message := fmt.Sprintf("this API key may use %s; the request may take %d, and what is left is less. The budget is renewed in %v", budgetsOf(l), tokens, time.Duration(seconds)*time.Second)
	return keys.Spend{}, &wire.Refusal{Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Code: wire.Optional(code), Message: message}}
}

func budgetsOf(l keys.Limits) string {
	var list []string
	if l.TokensPerDay > 0 {
		list = append(list, fmt.Sprintf("%d tokens a day", l.TokensPerDay))
	}
	if l.TokensPerMonth > 0 {
		list = append(list, fmt.Sprintf("%d tokens a month", l.TokensPerMonth))
	}
	return strings.Join(list, " and ")
}
