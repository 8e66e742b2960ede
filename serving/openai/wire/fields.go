package wire

import (
	"mime"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
)

// This file says which fields of a header pass through the router: from clients
// to replicas, and back.

// betweenNeighbours says of a field that it is of one connection only (RFC 9110,
// 7.6.1), or describes a body which each server frames for itself. The name is as it
// stands in a header that was read.
func betweenNeighbours(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// StripHop drops from a header what concerns two neighbours alone, so that the
// rest can go on to the next, and the fields that are also to go.
func StripHop(h http.Header, also func(name string) bool) {
	for _, list := range h["Connection"] {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for name := range h {
		if betweenNeighbours(name) || also(name) {
			delete(h, name)
		}
	}
}

// meant is the name as servers read it that hand fields on as variables of an environment
// (CGI, WSGI): to them a low line is a hyphen, so that X_Forwarded_For is X-Forwarded-For.
func meant(name string) string {
	if strings.IndexByte(name, '_') < 0 {
		return name
	}
	return textproto.CanonicalMIMEHeaderKey(strings.ReplaceAll(name, "_", "-"))
}

// reserved begins the names of the router's own fields. Names stand in their canonical
// form everywhere here.
const reserved = "X-Gearshift-"

// Forwarding reports whether the field says where a request came from. A client could
// write anything into it.
func Forwarding(name string) bool {
	switch name {
	case "Forwarded", "Forwarded-For", "X-Forwarded", "Via", "X-Real-Ip", "X-Client-Ip", "X-Cluster-Client-Ip", "True-Client-Ip",
		"Cf-Connecting-Ip", "Cf-Connecting-Ipv6", "Fastly-Client-Ip", "Fly-Client-Ip", "X-Envoy-External-Address",
		"X-Original-Forwarded-For", "X-Original-Host", "X-Original-Url", "X-Rewrite-Url", "X-Host", "X-Scheme",
		"X-Originating-Ip", "X-Remote-Ip", "X-Remote-Addr", "X-Proxyuser-Ip", "Proxy-Client-Ip", "Wl-Proxy-Client-Ip",
		"X-Azure-Clientip", "X-Azure-Socketip", "X-Appengine-Remote-Addr", "X-Appengine-User-Ip",
		"Remote-User", "X-Remote-User", "X-Client-Cert", "X-Ssl-Client-Cert", "X-Arr-Clientcert": // whom a proxy has seen
		return true
	}
	return strings.HasPrefix(name, "X-Forwarded-")
}

// Browsing reports whether the field is between a browser and the server that it asks:
// which page sent the request, and how.
func Browsing(name string) bool {
	return name == "Origin" || name == "Referer" || strings.HasPrefix(name, "Sec-") || strings.HasPrefix(name, "Access-Control-")
}

// Inward reports whether the field of a client's request ends at the router: it is the
// router's own, says where the request came from, or describes a body that is framed
// again.
func Inward(name string) bool {
	name = meant(name)
	switch name {
	case "Accept-Encoding", // an answer that the upstream compressed could not be metered
		"Content-Length", "Content-Encoding", "Expect",
		"Endpoint-Load-Metrics-Format": // the router says its own load, and asks replicas for theirs
		return true
	}
	return strings.HasPrefix(name, reserved) || Forwarding(name) || Browsing(name)
}

// Outward reports whether the field of a replica's answer ends at the router: it would
// set what a client's browser does with the router's whole address, say what runs
// behind it, or give orders to a proxy before it.
func Outward(name string) bool {
	switch name {
	case "Endpoint-Load-Metrics", "Date", "Set-Cookie", "Set-Cookie2", "Clear-Site-Data", "Refresh",
		"Server", "Via", "X-Powered-By", "X-Aspnet-Version", "X-Runtime", "Server-Timing",
		"Strict-Transport-Security", "Public-Key-Pins", "Public-Key-Pins-Report-Only", "Expect-Ct",
		"Content-Security-Policy", "Content-Security-Policy-Report-Only", "X-Content-Security-Policy",
		"X-Frame-Options", "X-Xss-Protection", "Permissions-Policy", "Feature-Policy", "Referrer-Policy",
		"X-Permitted-Cross-Domain-Policies", "Origin-Agent-Cluster", "Timing-Allow-Origin", "Service-Worker-Allowed",
		"Alt-Svc", "Alt-Used", "Nel", "Report-To", "Reporting-Endpoints", "Sourcemap", "X-Sourcemap",
		"X-Sendfile", "X-Lighttpd-Send-File", "X-Litespeed-Location", "X-Reproxy-Url",
		"Set-Login", "Activate-Storage-Access", "Observe-Browsing-Topics",
		"Accept-Ch", "Critical-Ch", "Document-Policy", "Document-Policy-Report-Only", "Require-Document-Policy",
		"Document-Isolation-Policy", "Document-Isolation-Policy-Report-Only", "Integrity-Policy", "Integrity-Policy-Report-Only",
		"Speculation-Rules", "Supports-Loading-Mode", "X-Dns-Prefetch-Control", "X-Ua-Compatible", "X-Robots-Tag",
		"Surrogate-Control", "Surrogate-Key", "Cdn-Cache-Control", "Cache-Tag":
		return true
	}
	for _, prefix := range []string{reserved, "Access-Control-", "Cross-Origin-", "Attribution-Reporting-", "X-Forwarded-", "X-Accel-"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Plain reports whether the text can go into headers and logs as it is.
func Plain(text string) bool {
	if text == "" || len(text) > 128 {
		return false
	}
	for _, b := range []byte(text) {
		if b <= ' ' || b > '~' {
			return false
		}
	}
	return true
}

// Bearer is the token of the Authorization header; empty without one.
func Bearer(h http.Header) string {
	scheme, token, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// MaxMessage bounds the text of an error or of a line of the log, which may quote the client.
const MaxMessage = 1024

// Clipped is the text without its middle, if it is long.
func Clipped(text string) string {
	if len(text) <= MaxMessage {
		return text
	}
	const half = MaxMessage / 2
	return strings.ToValidUTF8(text[:half], "") + " … " + strings.ToValidUTF8(text[len(text)-half:], "")
}

// Field is [http.Header.Get] for names that are canonical as they stand, which it would find
// out for each request again.
func Field(h http.Header, name string) string {
	if values := h[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}

// MediaType is [mime.ParseMediaType] without parameters, quick at what is usual.
func MediaType(value string) (string, error) {
	if value == "application/json" || value == "text/event-stream" {
		return value, nil
	}
	media, _, err := mime.ParseMediaType(value)
	return media, err
}

// This file reads the paths of requests as clients write them: with a slash too
// many, where a base that ends in one was joined with a path that begins with one, or
// without the base's /v1.

// models is what the names of models stand behind. They may hold slashes of their own.
const models = "/v1/models/"

// CleanPath returns the path that is meant: runs of slashes are one, a slash at the end is
// dropped, and an OpenAI path without /v1 gets it. The name of a model keeps the slashes
// within it. A path that is clean is returned as it is, without an allocation.
func CleanPath(path string) string {
	if len(path) < 2 || path[0] != '/' {
		return path
	}
	name := ""
	if doubled(path) {
		path, name = split(path)
		path = collapse(path)
	} else if name, ok := strings.CutPrefix(path, models); ok && strings.Trim(name, "/") != "" {
		return strings.TrimRight(path, "/")
	}
	if name == "" && len(path) > 1 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	if withoutBase(path) {
		path = "/v1" + path
	}
	return path + name
}

func doubled(path string) bool { return strings.Contains(path, "//") }

// split parts the name of a model, which is not to be collapsed, from what is before it.
func split(path string) (before, name string) {
	rest, first := path, ""
	for _, want := range []string{"v1", "models"} {
		rest = strings.TrimLeft(rest, "/")
		if first, rest, _ = strings.Cut(rest, "/"); first == "models" && want == "v1" {
			break // without the base
		} else if first != want {
			return path, ""
		}
	}
	if name = strings.Trim(rest, "/"); name == "" {
		return path, ""
	}
	return models, name
}

// collapse makes each run of slashes one.
func collapse(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	return b.String()
}

// bases are OpenAI's paths below /v1 that other servers answer without it, too.
var bases = []string{"/chat/completions", "/completions", "/embeddings", "/models", "/responses", "/audio/transcriptions", "/audio/translations"}

// withoutBase reports whether the path is one of OpenAI's without its /v1.
func withoutBase(path string) bool {
	if len(path) > 1 && path[1] == 'v' { // as nearly all
		return false
	}
	for _, base := range bases {
		if rest, ok := strings.CutPrefix(path, base); ok && (rest == "" || rest[0] == '/' && (base == "/models" || base == "/responses")) {
			return true
		}
	}
	return false
}

// CleanPaths has paths read as they are meant; see [CleanPath].
func CleanPaths(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := CleanPath(r.URL.Path); path != r.URL.Path {
			meant := *r
			meant.URL = new(url.URL)
			*meant.URL = *r.URL
			meant.URL.Path, meant.URL.RawPath = path, ""
			r = &meant
		}
		next.ServeHTTP(w, r)
	})
}
