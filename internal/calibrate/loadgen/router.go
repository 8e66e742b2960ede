package loadgen

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"time"
)

// Router is what a Gearshift router says of itself.
type Router struct {
	Policy string // that routes
	// Tasks and Variants are the names of its scenario's.
	Tasks, Variants []string
}

// Router asks the server what it routes by; false if it is no router.
func (s Server) Router(ctx context.Context, client *http.Client) (Router, bool) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := s.request(ctx, http.MethodGet, "/v1/gearshift/status", nil)
	if err != nil {
		return Router{}, false
	}
	response, err := do(client, request)
	if err != nil {
		return Router{}, false
	}
	defer response.Body.Close()
	type named struct {
		Name string `json:"name"`
	}
	var status struct {
		Policy          string `json:"policy"`
		Tasks, Variants []named
	}
	err = json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&status)
	if err != nil || len(status.Tasks) == 0 || len(status.Variants) == 0 {
		return Router{}, false
	}
	r := Router{Policy: status.Policy}
	for _, t := range status.Tasks {
		r.Tasks = append(r.Tasks, t.Name)
	}
	for _, v := range status.Variants {
		r.Variants = append(r.Variants, v.Name)
	}
	return r, true
}
