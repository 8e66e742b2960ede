package serving_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/openai/wire"
)

// A variant that leaves parts out of messages has its engine see none of them, and the
// answer's header says what was used. A message that is nothing else stays whole.
func TestVariantsLeavePartsOut(t *testing.T) {
	const (
		text  = `{"type":"text","text":"what is it?"}`
		image = `{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}`
		sound = `{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`
	)
	body := func(model, content string) string {
		return `{"model":"` + model + `","messages":[{"role":"user","content":[` + content + `]}]}`
	}
	for _, c := range []struct {
		name, model, content string
		cut                  wire.Cut
		want, used           string
	}{
		{"images and sounds", "auto", image + "," + text + "," + sound, wire.Cut{Without: wire.Images | wire.Sounds}, text, "text"},
		{"coarse images", "auto", text + "," + image, wire.Cut{Coarse: true}, text + "," + strings.Replace(image, `{"url"`, `{"detail":"low","url"`, 1), "text,image:low"},
		{"no other part", "auto", image, wire.Cut{Without: wire.Images}, image, "text,image"},
		{"a variant that uses all", "large", text + "," + image, wire.Cut{Without: wire.Images}, text + "," + image, "text,image"},
		{"text alone", "auto", text, wire.Cut{Without: wire.Images}, text, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got string
			keeps := func(name string) serving.Backend {
				return serving.Backend{Model: name, Transport: transport(func(r *http.Request) (*http.Response, error) {
					b, err := io.ReadAll(r.Body)
					got = string(b)
					if err != nil {
						return nil, err
					}
					return good(r)
				})}
			}
			g := newRig(t, nil, func(o *serving.Options) {
				o.Backends = []serving.Backend{keeps("m"), keeps("m"), keeps("m")}
				o.Backends[smallOnA].Cut, o.Backends[smallOnB].Cut = c.cut, c.cut
			})
			w := g.do("POST", chat, body(c.model, c.content))
			if want := body("m", c.want); w.Code != http.StatusOK || got != want || w.Header().Get("X-Gearshift-Modalities") != c.used {
				t.Errorf("status %d, parts used %q, want %q; the engine got\n%s\nwant\n%s", w.Code, w.Header().Get("X-Gearshift-Modalities"), c.used, got, want)
			}
		})
	}
}
