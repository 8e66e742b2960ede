package dashboard

import (
	"net/http"
	"net/http/pprof"

	"gearshift/serving"
)

// This file is the server's module with Go's profiles of the running process.

// Profiles serves /debug/pprof/ to callers with the admin token. It implements
// [serving.Module].
type Profiles struct{}

// Join implements [serving.Module].
func (Profiles) Join(*serving.Server) serving.Parts {
	return serving.Parts{Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/debug/pprof/{profile...}", About: "profiles of the running process", Handler: profile},
		{Method: http.MethodPost, Path: "/debug/pprof/symbol", About: "names of program counters", Handler: pprof.Symbol},
	}}
}

func profile(w http.ResponseWriter, r *http.Request) {
	switch r.PathValue("profile") {
	case "cmdline": // it may hold secrets
		serving.NotFound(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
}
