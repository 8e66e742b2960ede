package dashboard

import (
	"net/http"

	"gearshift/serving"
)

// filePolicy lets the page load what the router serves, nothing from elsewhere, and nothing
// that is not a file.
const filePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Join implements [serving.Module]: the page for anyone who can connect, as its files hold
// no data, and the data that it reads.
func (d *Dashboard) Join(s *serving.Server) serving.Parts {
	files := d.Files()
	serve := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", filePolicy)
		w.Header().Set("Cache-Control", "no-cache") // the next binary may have others
		files.ServeHTTP(w, r)
	}
	data := func(w http.ResponseWriter, r *http.Request) {
		_ = serving.Answer(w, http.StatusOK, d.Data(s.Status(), s.Policies(), r.URL.Query())) // a page that left needs none
	}
	parts := serving.Parts{Observer: d}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		parts.Routes = append(parts.Routes,
			serving.Route{Method: method, Path: "/", Access: serving.AdminOpen, About: "the page for operators", Handler: serve},
			serving.Route{Method: method, Path: "/assets/{path...}", Access: serving.AdminOpen, About: "files of the page", Handler: serve})
	}
	parts.Routes = append(parts.Routes,
		serving.Route{Method: http.MethodGet, Path: "/admin/dashboard", Access: serving.AdminRead, About: "what the page shows", Handler: data})
	return parts
}
