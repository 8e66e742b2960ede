package tail

import (
	"context"
	"fmt"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// knowledge is the load that is carried, by what clients know and compare, and by their number.
func (s *study) knowledge(ctx context.Context, p *reports.Part) error {
	c, err := s.curves(ctx, rules())
	if err != nil {
		return err
	}
	p.Say("Each client sees what hosts say with its own answers. The more clients there are, the older that is, until it is worth no more than a random choice; a poll is as fresh with any number.")
	p.Tables = []report.Table{c.table("carried", "The load that is carried, by the number of clients")}
	last := len(c.rules) - 1
	gain := reports.Less(c.carried(last, 0), c.carried(1, 0))
	mean := func(rule, k int) float64 { return evaluation.Bootstrap(c.carried(rule, k)).Mean }
	var words []string
	for k, n := range s.clients {
		words = append(words, fmt.Sprintf("%.2f of its cores with %d clients", mean(1, k), n))
	}
	p.Head("By what hosts last said of themselves a tier carries %s; by chance %.2f.", strings.Join(words, ", "), mean(0, 0))
	p.Head("Polled and compared by work it carries %.2f: %s more with %d clients.", mean(last, 0), evaluation.Signed(gain), s.clients[0])
	return nil
}
