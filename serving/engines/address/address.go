// Package address reads the URL of an OpenAI-compatible server as people write it: with
// or without /v1, with another version, or with the path of an endpoint.
package address

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"gearshift/serving/config/setting"
)

// Server is where an OpenAI-compatible server answers. The paths of both URLs end in a
// slash, and both have the query that the server's own URL has.
type Server struct {
	// API is what the endpoints of OpenAI lie below, such as chat/completions.
	API url.URL
	// Root is what everything else lies below, such as health and metrics: API without
	// its version.
	Root url.URL
}

// clientPrefix begins the paths of OpenAI's endpoints as clients of a router ask for them.
const clientPrefix = "/v1/"

// example is a URL as the faults recommend it.
const example = "http://gpu0:8000/v1"

var (
	// version matches a segment such as v1, v3, v1.1, v1beta or v1alpha2.
	version = regexp.MustCompile(`^[vV]\d+(\.\d+)*((alpha|beta|preview|rc)\d*)?$`)
	// endpoints are the paths that lie below an API. Without a version before it, only
	// the first of them is taken for one: the others may be anybody's.
	endpoints = []string{"chat/completions", "completions", "embeddings", "responses", "models", "messages", "rerank"}
)

// Parse reads a server's URL. A path that ends in a version (/v1, /v3, /api/v4), or in
// /openai after one (/v1beta/openai), is the API as it stands; to any other /v1 is added.
// A URL of an endpoint (/v1/chat/completions) stands for what that lies below. unix: and a path is a
// server on a Unix socket, see [Dialer].
func Parse(text string) (Server, error) {
	text = setting.Trim(text)
	if IsSocket(text) {
		u, err := parseSocket(text)
		if err != nil {
			return Server{}, err
		}
		return split(*u), nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" {
		return Server{}, fmt.Errorf("%q is not a URL; want http:// or https://, a host and a path, such as %s, or %s of a Unix socket", text, example, socketExample)
	}
	if port, err := strconv.ParseUint(u.Port(), 10, 16); u.Port() != "" && (err != nil || port == 0) {
		return Server{}, fmt.Errorf("%q has no valid port; want 1 to 65535, as in %s", u.Redacted(), example)
	}
	if u.User != nil {
		return Server{}, fmt.Errorf("%q has a user name, which would not be sent; a key goes into the variable that api_key_env names", u.Redacted())
	}
	u.Fragment, u.RawFragment = "", "" // which no server gets
	return split(*u), nil
}

// split finds the API and the root of a URL.
func split(u url.URL) Server {
	path, whole := withoutEndpoint(strings.TrimRight(u.EscapedPath(), "/"))
	n := versioned(path)
	var s Server
	switch {
	case n > 0:
		s.Root, s.API = at(u, path[:len(path)-n]), at(u, path)
	case whole:
		s.Root, s.API = at(u, path), at(u, path)
	default:
		s.Root, s.API = at(u, path), at(u, path+"/v1")
	}
	return s
}

// withoutEndpoint cuts the path of an endpoint off, and reports whether there was one.
func withoutEndpoint(path string) (string, bool) {
	for i, endpoint := range endpoints {
		if before, found := strings.CutSuffix(path, "/"+endpoint); found && (i == 0 || versioned(before) > 0) {
			return strings.TrimRight(before, "/"), true
		}
	}
	return path, false
}

// versioned is the length of the version that the path ends in, its slash included; zero
// if it ends in none.
func versioned(path string) int {
	before, last := cut(path)
	if last == "openai" {
		if _, above := cut(before); version.MatchString(above) {
			return len(above) + len(last) + 2
		}
	}
	if version.MatchString(last) {
		return len(last) + 1
	}
	return 0
}

// cut parts the last segment from the path.
func cut(path string) (before, last string) {
	i := strings.LastIndexByte(path, '/')
	if i < 0 {
		return "", ""
	}
	return path[:i], path[i+1:]
}

// at is the URL with another path, which is escaped, and a slash.
func at(u url.URL, path string) url.URL {
	path += "/"
	plain, err := url.PathUnescape(path)
	if err != nil { // it was parsed before
		panic(err)
	}
	u.Path, u.RawPath = plain, path
	if u.EscapedPath() == plain { // then the raw form says nothing more
		u.RawPath = ""
	}
	return u
}

// To is where a request for a path, as clients ask for it, goes: what begins with /v1/
// lies below the API, everything else below the root. The queries of both are joined.
func (s *Server) To(asked *url.URL) url.URL {
	base, path, escaped := s.Root, asked.Path, ""
	if asked.RawPath != "" || s.API.RawPath != "" {
		escaped = asked.EscapedPath()
	}
	if strings.HasPrefix(path, clientPrefix) {
		base, path = s.API, path[len(clientPrefix)-1:]
		escaped = strings.TrimPrefix(escaped, clientPrefix[:len(clientPrefix)-1])
	}
	to := base
	to.Path += strings.TrimPrefix(path, "/")
	if escaped != "" {
		to.RawPath = base.EscapedPath() + strings.TrimPrefix(escaped, "/")
	}
	if to.RawQuery != "" && asked.RawQuery != "" {
		to.RawQuery += "&"
	}
	to.RawQuery += asked.RawQuery
	return to
}
