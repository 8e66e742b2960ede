package picker_test

import (
	"net/http"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/config"
)

// TestAGatewaysHeadersAreRead: a gateway's headers name the class, which gets its size first under load, and the model.
func TestAGatewaysHeadersAreRead(t *testing.T) {
	g := newRig(t, func(o *serving.Options) {
		o.Config.Classes = []config.Class{{Name: "interactive"}, {Name: "batch", First: &config.First{Variant: "small", From: 0.5}}}
	})
	other := strings.Replace(ask, "auto", "food-review", 1)
	for _, c := range []struct {
		name, body string
		load       float32
		fields     []string
		want       string
	}{
		{"no class", ask, 0.9, nil, "large"},
		{"a class below its load", ask, 0.4, []string{"x-llm-d-inference-objective", "batch"}, "large"},
		{"a class under load", ask, 0.9, []string{"x-llm-d-inference-objective", "batch"}, "small"},
		{"the class by its older name", ask, 0.9, []string{"x-gateway-inference-objective", "batch"}, "small"},
		{"another model", other, 0, []string{"x-llm-d-model-name-rewrite", "small"}, "small"},
		{"another model, of the policy", other, 0, []string{"x-gateway-model-name-rewrite", "auto"}, "large"},
	} {
		g.core.Ledger().SetBusy([]float32{c.load, c.load})
		w := send(g.gateway(), "POST", chat, c.body, c.fields...)
		h := w.Result().Header
		if w.Code != http.StatusOK || h.Get("X-Gearshift-Variant") != c.want || !strings.HasPrefix(h.Get("X-Engine"), c.want) || !strings.Contains(h.Get("X-Got"), `"model":"served-`+c.want+`"`) {
			t.Errorf("%s: status %d, %q of %s got %s; want %s", c.name, w.Code, h.Get("X-Gearshift-Variant"), h.Get("X-Engine"), h.Get("X-Got"), c.want)
		}
		<-g.ended
	}
	g.idle(t)
}
