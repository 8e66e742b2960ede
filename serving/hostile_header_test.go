package serving_test

import (
	"fmt"
	"strings"
	"time"
)

// hostileHeaders are faults of headers, and headers that mean harm.
func hostileHeaders() (list []hostile) {
	for name, c := range map[string]struct{ line, want string }{
		"one of 2 MB":                     {"X: " + strings.Repeat("x", 2<<20), "431 text"},
		"a name of 2 MB":                  {strings.Repeat("x", 2<<20) + ": x", "431 text"},
		"400,000 of them":                 {strings.Repeat("X: y\r\n", 400_000) + "X: y", "431 text"},
		"3,000 of them":                   {strings.Repeat("X: y\r\n", 3_000) + "X: y", served200},
		"no colon":                        {"X y", noText},
		"no name":                         {": y", noText},
		"a colon alone":                   {":", noText},
		"a space in the name":             {"X Y: z", noText},
		"a space before the colon":        {"X : z", noText},
		"a null byte in the name":         {"X\x00Y: z", noText},
		"a null byte in the value":        {"X: y\x00z", noText},
		"a carriage return in a value":    {"X: y\rX-Injected: z", noText},
		"a control in the value":          {"X: y\x01z", noText},
		"a delete in the value":           {"X: y\x7fz", noText},
		"a name that is not ASCII":        {"Ü: z", noText},
		"a value that is not ASCII":       {"X: Ü", served200},
		"a value that is not UTF-8":       {"X: \xff\xfe", served200},
		"a folded value":                  {"X: y\r\n z", served200},
		"a name in quotes":                {`"X": y`, noText},
		"no host":                         {"\x00", noText},
		"two hosts":                       {"Host: evil.example", noText},
		"an ID with a line end":           {"X-Request-Id: a\rX-Injected: yes", noText},
		"an ID with an escaped one":       {"X-Request-Id: a%0d%0aX-Injected:%20yes", served200},
		"an ID of 10 KB":                  {"X-Request-Id: " + strings.Repeat("x", 10<<10), served200},
		"an ID with spaces":               {"X-Request-Id: a b", served200},
		"an ID that is not ASCII":         {"X-Request-Id: \u202eid", served200},
		"two IDs":                         {"X-Request-Id: a\r\nX-Request-Id: b", served200},
		"a task that is none":             {"X-Gearshift-Task: ../../etc/passwd", "400 unknown_task"},
		"a task of 30 KB":                 {"X-Gearshift-Task: " + strings.Repeat("x", 30<<10), "400 unknown_task"},
		"a deadline NaN":                  {"X-Llm-D-Slo-Tpot-Ms: NaN", "400 invalid_deadline"},
		"a deadline of infinity":          {"X-Llm-D-Slo-Tpot-Ms: Inf", "400 invalid_deadline"},
		"a deadline of -0":                {"X-Llm-D-Slo-Tpot-Ms: -0", "400 invalid_deadline"},
		"an enormous deadline":            {"X-Llm-D-Slo-Tpot-Ms: 1e300", "400 invalid_deadline"},
		"a deadline beyond numbers":       {"X-Llm-D-Slo-Tpot-Ms: 1e999", "400 invalid_deadline"},
		"a deadline of next to nothing":   {"X-Llm-D-Slo-Tpot-Ms: 1e-300", "400 invalid_deadline"},
		"a deadline of 10 KB":             {"X-Llm-D-Slo-Tpot-Ms: " + strings.Repeat("9", 10<<10), "400 invalid_deadline"},
		"a deadline with a list":          {"X-Slo-Tpot-Ms: 1,2", "400 invalid_deadline"},
		"a deadline in other digits":      {"X-Slo-Tpot-Ms: ٣", "400 invalid_deadline"},
		"a compressed body":               {"Content-Encoding: gzip", "415 unsupported_encoding"},
		"a list of codings":               {"Content-Encoding: identity, gzip", "415 unsupported_encoding"},
		"an expectation":                  {"Expect: a-miracle", "417 text"},
		"an upgrade to HTTP/2":            {"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA", served200},
		"an upgrade to a socket":          {"Connection: Upgrade\r\nUpgrade: websocket", served200},
		"a connection that names the ID":  {"Connection: X-Request-Id, Content-Length, Host", served200},
		"a trailer that names the length": {"Trailer: Content-Length", served200},
		"a forged answer":                 {"X-Gearshift-Variant: forged\r\nX-Gearshift-Replica: forged", served200},
		"a forged address":                {"X-Forwarded-For: 127.0.0.1\r\nX-Real-Ip: 127.0.0.1\r\nForwarded: for=127.0.0.1", served200},
		"another method":                  {"X-Http-Method-Override: DELETE", served200},
		"another target":                  {"X-Original-Url: /v1/gearshift/status\r\nX-Rewrite-Url: /metrics", served200},
		"a range":                         {"Range: bytes=0-0,1-1,2-2", served200},
		"a condition":                     {"If-None-Match: *", served200},
		"a key of 30 KB":                  {"Authorization: Bearer " + strings.Repeat("x", 30<<10), served200},
		"cookies":                         {"Cookie: " + strings.Repeat("a=b; ", 2000), served200},
	} {
		list = append(list, hostile{name: "headers: " + name, raw: post(ask, c.line), want: c.want})
	}
	for kind, want := range map[string]string{
		"text/plain": "415", "multipart/form-data; boundary=x": "415", "application/x-www-form-urlencoded": "415", "application/json; charset=\"": "415",
		"application/json, text/html": "415", "application/jsonx": "415", "json": "415", "/": "415", ";": "415", "application/" + strings.Repeat("x", 10<<10): "415",
	} {
		raw := strings.Replace(post(ask), "application/json", kind, 1)
		list = append(list, hostile{name: fmt.Sprintf("content type %.40q", kind), raw: raw, want: want + " unsupported_media_type"})
	}
	for host, want := range map[string]string{
		"a b": noText, "a\x00b": noText, "a\"b": noText, "<script>": noText, "": served200, "a/b": noText, "user@evil.example": noText, "router:99999": served200, "[::1": served200, "\xff": noText,
	} {
		raw := strings.Replace(post(ask), "Host: router", "Host: "+host, 1)
		list = append(list, hostile{name: fmt.Sprintf("host %q", host), raw: raw, want: want})
	}
	return append(list,
		hostile{name: "no host at all", raw: strings.Replace(post(ask), "Host: router\r\n", "", 1), want: noText},
		hostile{name: "a folded first line", raw: strings.Replace(post(ask), "Host: router", " X: y", 1), want: noText},
		hostile{name: "line feeds alone", raw: strings.ReplaceAll(post(ask), "\r\n", "\n"), want: served200},
	)
}

// hostileTargets are targets and methods that some server might have.
func hostileTargets() (list []hostile) {
	for _, target := range []string{
		"/V1/Chat/Completions", "/v1/chat/completions;x", "/v1/chat%2fcompletions/x",
		"/v1/./chat/completions", "/v1/../v1/chat/completions", "/..%2f..%2fetc/passwd", "/.env", "/.git/config", "/admin", "/debug/pprof/",
		"/debug/vars", "/wp-login.php", "/cgi-bin/sh", "/actuator/env", "/v1/gearshift", "/v1/files/x",
		"/" + strings.Repeat("../", 1000), "/" + strings.Repeat("a/", 5000), "/%2e%2e/%2e%2e/", "/\\..\\..\\", "/v1/chat/completions%0d%0aX-Injected:%20yes",
	} {
		list = append(list, hostile{name: fmt.Sprintf("target %.40s", target), raw: head("GET " + target + " HTTP/1.1"), want: unknown})
	}
	for _, target := range []string{"//v1/chat/completions", "/v1/chat/completions/", "/v1/gearshift/route/"} {
		list = append(list, hostile{name: "target " + target, raw: head("GET " + target + " HTTP/1.1"), want: notAllowed})
	}
	for _, method := range []string{"PUT", "DELETE", "PATCH", "OPTIONS", "PROPFIND", "GET"} {
		list = append(list, hostile{name: method + " of completions", raw: head(method + " " + chat + " HTTP/1.1"), want: notAllowed})
	}
	return append(list,
		hostile{name: "HEAD of completions", raw: head("HEAD " + chat + " HTTP/1.1"), want: "405 head"},
		hostile{name: "POST of the models", raw: head("POST /v1/models HTTP/1.1", "Content-Length: 0"), want: notAllowed},
		hostile{name: "POST of the metrics", raw: head("POST /metrics HTTP/1.1", "Content-Length: 0"), want: notAllowed},
		hostile{name: "a lease without a name", raw: head("GET /v1/gearshift/route//end HTTP/1.1"), want: unknown},
		hostile{name: "a model that climbs", raw: head("GET /v1/models/../../../etc/passwd HTTP/1.1"), want: "404 model_not_found"},
		hostile{name: "a model that is a path", raw: head("GET /v1/models/..%2f..%2fetc%2fpasswd HTTP/1.1"), want: "404 model_not_found"},
		hostile{name: "a model of 30 KB", raw: head("GET /v1/models/" + strings.Repeat("x", 30<<10) + " HTTP/1.1"), want: "404 model_not_found"},
		hostile{name: "a model with a line end", raw: head("GET /v1/models/a%0d%0aX-Injected:%20yes HTTP/1.1"), want: "404 model_not_found"},
		hostile{name: "a lease that is none", raw: head("POST /v1/gearshift/route/%27%20OR%201=1/end HTTP/1.1", "Content-Length: 0"), want: "404 lease_not_found"},
		hostile{name: "a lease of 30 KB", raw: head("POST /v1/gearshift/route/"+strings.Repeat("f", 30<<10)+"/end HTTP/1.1", "Content-Length: 0"), want: "404 lease_not_found"},
		hostile{name: "a lease with a null byte", raw: head("POST /v1/gearshift/route/%00/end HTTP/1.1", "Content-Length: 0"), want: "404 lease_not_found"},
	)
}

// hostilePace are clients that are slow, or stop.
func hostilePace() []hostile {
	body := strings.Repeat(" ", 1000) + ask
	return []hostile{
		{name: "pace: nothing is sent", want: "nothing"},
		{name: "pace: half a line", raw: "POST /v1", want: noText},
		{name: "pace: half a header", raw: "POST " + chat + " HTTP/1.1\r\nHost: router\r\nX", want: noText},
		{name: "pace: no end of the header", raw: "POST " + chat + " HTTP/1.1\r\nHost: router\r\n", want: "nothing"},
		{name: "pace: a header a byte at a time", raw: post(ask), want: noText, pace: time.Second},
		{name: "pace: a body a byte at a time", raw: post(body), want: "408 body_timeout", pace: 150 * time.Millisecond / 2},
		{name: "pace: a chunk now and then", raw: head("POST "+chat+" HTTP/1.1", "Transfer-Encoding: chunked") + strings.Repeat("1\r\n \r\n", 1000), want: "408 body_timeout", pace: 50 * time.Millisecond},
		{name: "pace: a body to where none is read", raw: head("POST /nowhere HTTP/1.1", "Content-Length: 1000"), want: unknown},
		{name: "pace: gone after a byte", raw: "P", hangup: true},
		{name: "pace: gone within the header", raw: "POST " + chat + " HTTP/1.1\r\nHost: ro", hangup: true},
		{name: "pace: gone within a chunk", raw: head("POST "+chat+" HTTP/1.1", "Transfer-Encoding: chunked") + "ff\r\nxx", hangup: true},
		{name: "pace: gone once asked", raw: post(ask), deaf: true, hangup: true},
		{name: "pace: never reads", raw: post(ask), deaf: true},
		{name: "pace: asks again and again and never reads", raw: strings.Repeat(post(ask), 50), deaf: true, hangup: true},
	}
}
