package access

import (
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"gearshift/internal/faults"
)

// HostsKey is the key of a scenario that lists further names of the router.
const HostsKey = "serving.hosts"

// AnyOrigin stands for all origins, headers or hosts.
const AnyOrigin = "*"

// CORS says which pages of other origins may ask, and how. Its zero value lets none.
type CORS struct {
	// Origins are scheme://host[:port]. The host may begin with "*.", for all below
	// it, and the port may be "*". Any allows every origin.
	Origins []string `yaml:"origins,omitempty"`
	// Headers that a page may send in addition to Authorization and Content-Type. Empty, or
	// Any, allows every header.
	Headers []string `yaml:"headers,omitempty"`
	// MaxAge is how long a browser may go on without asking again. Zero leaves that
	// to the browser.
	MaxAge time.Duration `yaml:"max_age"`
}

// DefaultCORS allows no origin.
func DefaultCORS() CORS { return CORS{MaxAge: 10 * time.Minute} }

// Validate names every fault, by its YAML key.
func (c CORS) Validate() error {
	var found faults.List
	for i, text := range c.Origins {
		if _, err := parseOrigin(text); err != nil {
			found.Add(fmt.Errorf("cors.origins[%d]: %w", i, err))
		}
	}
	for i, name := range c.Headers {
		found.If(!token(name), "cors.headers[%d]: %q is not the name of a header; want one such as x-gearshift-task, or %q for all", i, name, AnyOrigin)
	}
	found.If(c.MaxAge < 0, "cors.max_age: %v is negative; want a time such as 10m, or 0s to leave it to the browser", c.MaxAge)
	return found.Err()
}

// origin is one that may ask, or a pattern of those.
type origin struct {
	scheme, host, port string
	below              bool // hosts that end in host
}

// parseOrigin reads an origin as a browser writes it. [AnyOrigin] is no origin, and no fault.
func parseOrigin(text string) (o origin, err error) {
	if text == AnyOrigin || text == "null" {
		return o, nil
	}
	fault := fmt.Errorf("%q is not an origin; want scheme://host[:port] without a path, such as https://chat.example.com, https://*.example.com or http://localhost:*, or %q for all", text, AnyOrigin)
	scheme, rest, ok := strings.Cut(strings.ToLower(text), "://")
	if !ok {
		return o, fault
	}
	o.scheme, o.host = scheme, rest
	if at := strings.LastIndexByte(rest, ':'); at > strings.LastIndexByte(rest, ']') {
		o.host, o.port = rest[:at], rest[at+1:]
		if number, err := strconv.ParseUint(o.port, 10, 16); o.port != AnyOrigin && (err != nil || number == 0) {
			return o, fault
		}
	}
	if o.host, o.below = strings.CutPrefix(o.host, "*"); o.below && !strings.HasPrefix(o.host, ".") {
		return o, fault
	}
	u, err := url.Parse(scheme + "://" + strings.TrimPrefix(o.host, "."))
	if err != nil || u.Host == "" || u.Host != strings.TrimPrefix(o.host, ".") || u.User != nil || u.Path != "" || u.RawQuery != "" ||
		strings.ContainsAny(o.host, "*#? ") || !ascii(o.host) {
		return o, fault
	}
	if o.port == usualPort(scheme) {
		o.port = "" // browsers leave it out
	}
	return o, nil
}

func usualPort(scheme string) string {
	switch scheme {
	case "http":
		return "80"
	case "https":
		return "443"
	}
	return ""
}

func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// matches reports whether the origin, as a browser sends it, is one of the pattern's.
func (o *origin) matches(text string) bool {
	rest, ok := strings.CutPrefix(text, o.scheme+"://")
	if !ok {
		return false
	}
	host, port := rest, ""
	if at := strings.LastIndexByte(rest, ':'); at > strings.LastIndexByte(rest, ']') {
		host, port = rest[:at], rest[at+1:]
	}
	if o.port != AnyOrigin && port != o.port || strings.ContainsAny(rest, "/@ ") {
		return false
	}
	if o.below {
		return len(host) > len(o.host) && strings.HasSuffix(host, o.host)
	}
	return host == o.host
}

// token reports whether the text can be the name of a header (RFC 9110, 5.6.2).
func token(text string) bool {
	for i := range len(text) {
		c := text[i]
		letter := c|0x20 >= 'a' && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return text != ""
}

// PageRules are a [CORS] and the server's names, made ready. They are read by any goroutine.
type PageRules struct {
	on       bool // some origin may ask
	any      bool // every origin may
	exact    map[string]struct{}
	patterns []origin
	headers  map[string]struct{} // lower case; nil allows all
	maxAge   []string
	exposed  []string

	hosts   map[string]struct{} // lower case
	anyHost bool
}

// NewPageRules makes rules of what [CORS.Validate] and [ValidateHosts] find no fault with. Exposed are
// the headers of an answer that pages may read. Hosts are names of this server in addition
// to those of every machine's loopback addresses.
func NewPageRules(c CORS, exposed, hosts []string) *PageRules {
	r := &PageRules{on: len(c.Origins) > 0, exact: map[string]struct{}{}, exposed: []string{strings.Join(exposed, ", ")}, hosts: map[string]struct{}{}}
	for _, text := range c.Origins {
		if text == AnyOrigin {
			r.any = true
			continue
		}
		if o, _ := parseOrigin(text); o.below || o.port == AnyOrigin {
			r.patterns = append(r.patterns, o)
		} else {
			r.exact[o.text()] = struct{}{}
		}
	}
	if len(c.Headers) > 0 {
		r.headers = map[string]struct{}{"authorization": {}, "content-type": {}}
		for _, name := range c.Headers {
			if name == AnyOrigin {
				r.headers = nil
				break
			}
			r.headers[strings.ToLower(name)] = struct{}{}
		}
	}
	if c.MaxAge > 0 {
		r.maxAge = []string{strconv.FormatInt(int64(c.MaxAge/time.Second), 10)}
	}
	for _, host := range hosts {
		r.anyHost = r.anyHost || host == AnyOrigin
		r.hosts[strings.ToLower(host)] = struct{}{}
	}
	return r
}

// text is the origin as a browser sends it; that of "null" is itself.
func (o *origin) text() string {
	switch {
	case o.scheme == "":
		return "null"
	case o.port == "":
		return o.scheme + "://" + o.host
	}
	return o.scheme + "://" + net.JoinHostPort(strings.Trim(o.host, "[]"), o.port)
}

// Allows reports whether pages of the origin may ask.
func (r *PageRules) Allows(origin string) bool {
	if r.any || !r.on {
		return r.any
	}
	if _, ok := r.exact[origin]; ok {
		return true
	}
	for i := range r.patterns {
		if r.patterns[i].matches(origin) {
			return true
		}
	}
	return false
}

// Mark says in an answer's header what the page that asked may read of it. Requests that
// come from no page of another origin are left alone.
func (r *PageRules) Mark(answer http.Header, request *http.Request) {
	if !r.on {
		return
	}
	if !r.any {
		answer["Vary"] = []string{"Origin"}
	}
	from := request.Header["Origin"]
	if len(from) != 1 || !r.Allows(from[0]) {
		return
	}
	if answer["Access-Control-Expose-Headers"] = r.exposed; r.any {
		answer["Access-Control-Allow-Origin"] = []string{AnyOrigin}
	} else {
		answer["Access-Control-Allow-Origin"] = from
	}
}

// Preflight reports whether the request is a browser's question, ahead of another
// request, whether that may be sent.
func Preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && len(r.Header["Origin"]) > 0 && len(r.Header["Access-Control-Request-Method"]) > 0
}

// Answer answers a preflight by the methods that its path has. It reports false, and
// writes nothing, if pages of the origin may not ask.
func (r *PageRules) Answer(answer http.Header, request *http.Request, methods string) bool {
	from := request.Header["Origin"]
	if len(from) != 1 || !r.Allows(from[0]) {
		return false
	}
	r.Mark(answer, request)
	delete(answer, "Access-Control-Expose-Headers") // of an answer, which this is not
	answer["Vary"] = []string{"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"}
	answer["Access-Control-Allow-Methods"] = []string{methods}
	if names := r.allowed(request.Header["Access-Control-Request-Headers"]); names != "" {
		answer["Access-Control-Allow-Headers"] = []string{names}
	}
	if r.maxAge != nil {
		answer["Access-Control-Max-Age"] = r.maxAge
	}
	if request.Header.Get("Access-Control-Request-Private-Network") == "true" { // a page from the Internet asks a server in the house
		answer["Access-Control-Allow-Private-Network"] = []string{"true"}
	}
	return true
}

// allowed are those of the headers asked for that may be sent.
func (r *PageRules) allowed(asked []string) string {
	var names []string
	for _, list := range asked {
		for name := range strings.SplitSeq(list, ",") {
			name = strings.ToLower(strings.TrimSpace(name))
			if _, ok := r.headers[name]; token(name) && (r.headers == nil || ok) {
				names = append(names, name)
			}
		}
	}
	return strings.Join(names, ", ")
}
