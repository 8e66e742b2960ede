package access

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/openai/wire"
)

// HeaderReason says why a request is refused under load.
const HeaderReason = "X-Gearshift-Reason"

// Granted is what the request's key may ask for; everything without a key.
func Granted(c *gin.Context) Grants {
	if h := Of(c).Holder(); h != nil {
		return h.Grants()
	}
	return Grants{}
}

// Reserve sets the tokens aside from the budgets of the request's key.
func Reserve(c *gin.Context, tokens int64) (Spend, *wire.Refusal) {
	h := Of(c).Holder()
	if h == nil {
		return Spend{}, nil
	}
	spend, wait, ok := h.Reserve(time.Now(), tokens)
	if ok {
		return spend, nil
	}
	const code = "token_budget_exceeded"
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	header := c.Writer.Header()
	header.Set(HeaderReason, code)
	header.Set("Retry-After", strconv.Itoa(seconds))
	header.Set("X-Should-Retry", "false") // the official clients would try again within seconds
	l := h.Limits()
	message := fmt.Sprintf("this API key may use %s; the request may take %d, and what is left is less. The budget is renewed in %v", budgetsOf(l), tokens, time.Duration(seconds)*time.Second)
	return Spend{}, &wire.Refusal{Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Code: wire.Optional(code), Message: message}}
}

func budgetsOf(l Limits) string {
	var list []string
	if l.TokensPerDay > 0 {
		list = append(list, fmt.Sprintf("%d tokens a day", l.TokensPerDay))
	}
	if l.TokensPerMonth > 0 {
		list = append(list, fmt.Sprintf("%d tokens a month", l.TokensPerMonth))
	}
	return strings.Join(list, " and ")
}
