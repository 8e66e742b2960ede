package app

import (
	"fmt"
	"io"
	"net/http"
	"text/tabwriter"

	"gearshift/internal/calibrate/draft"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
)

// showAssumed prints the values that a router without a scenario file begins with.
func showAssumed(w io.Writer, list []draft.Value) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintln(w, "Begins with these values; the page and GET /admin/learned show what becomes known:")
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, v := range list {
		fmt.Fprintf(t, "  %s\t%s\t%s\n", v.What, v.Value, v.From)
	}
	_ = t.Flush() // an unwritable stderr stops nothing
	fmt.Fprintln(w)
}

// learned shows the values that a router uses and no file declares.
type learned struct {
	assumed []draft.Value
	routing *Reloader
}

// learnedReport is the body of GET /admin/learned.
type learnedReport struct {
	// Values lists the values with which the router began.
	Values []draft.Value `json:"values"`
}

// shown adds the endpoints to the modules, and has the operators' page show the same values.
func (l *learned) shown(modules []serving.Module) []serving.Module {
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok && len(l.assumed) > 0 {
			page.Learned = func() any { return l.report() }
		}
	}
	return append(modules, l)
}

// Join implements [serving.Module].
func (l *learned) Join(*serving.Server) serving.Parts {
	return serving.Parts{Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/learned", Access: serving.AdminRead, About: "the values that the router uses and no file declares, with the source of each", Handler: l.show},
		{Method: http.MethodGet, Path: "/admin/scenario", Access: serving.AdminRead, About: "the scenario that the router serves, with what it has learned", Handler: l.save},
	}}
}

func (l *learned) report() learnedReport { return learnedReport{Values: l.assumed} }

func (l *learned) show(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, l.report()) // a client that does not read the answer has left
}

// SavedScenario is the body of GET /admin/scenario.
type SavedScenario struct {
	Name string `json:"name"`
	// Text holds a scenario file.
	Text string `json:"text"`
}

func (l *learned) save(w http.ResponseWriter, _ *http.Request) {
	name, text := l.routing.Text()
	_ = serving.Answer(w, http.StatusOK, SavedScenario{Name: name, Text: string(text)})
}
