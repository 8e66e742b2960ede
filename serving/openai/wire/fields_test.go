package wire_test

import (
	"net/http"
	"testing"

	"gearshift/serving/openai/wire"
)

func TestFieldsThatPass(t *testing.T) {
	for name, pass := range map[string][2]bool{ // inward, outward
		"Content-Type": {true, true}, "Authorization": {true, true}, "User-Agent": {true, true}, "X-Custom": {true, true},
		"traceparent": {true, true}, "OpenAI-Organization": {true, true}, "x-llm-d-slo-ttft-ms": {true, true},
		"openai-processing-ms": {true, true}, "x-ratelimit-remaining-tokens": {true, true}, "Retry-After": {true, true},
		"X-Envoy-Upstream-Service-Time": {true, true}, "Cache-Control": {true, true}, "ETag": {true, true}, "WWW-Authenticate": {true, true},
		"X-Gearshift-Task": {false, false}, "x-gearshift-admin": {false, false}, "X-GEARSHIFT-": {false, false},
		"X-Forwarded-For": {false, false}, "x-forwarded-proto": {false, false}, "Forwarded": {false, true}, "Via": {false, false},
		"X-Real-IP": {false, true}, "CF-Connecting-IP": {false, true}, "X-Original-URL": {false, true},
		"Accept-Encoding": {false, true}, "Expect": {false, true},
		"endpoint-load-metrics-format": {false, true}, "endpoint-load-metrics": {true, false},
		"Set-Cookie": {true, false}, "Server": {true, false}, "Strict-Transport-Security": {true, false}, "Alt-Svc": {true, false},
		"Access-Control-Allow-Origin": {false, false}, "Origin": {false, true}, "Referer": {false, true}, "Sec-Fetch-Site": {false, true}, "Sec-Ch-Ua": {false, true}, "X-Origin": {true, true}, "Content-Security-Policy": {true, false}, "Clear-Site-Data": {true, false},
		"X-Accel-Redirect": {true, false}, "Public-Key-Pins": {true, false}, "Cross-Origin-Opener-Policy": {true, false},
		"X-XSS-Protection": {true, false}, "NEL": {true, false}, "SourceMap": {true, false}, "Timing-Allow-Origin": {true, false},
		// Servers that make variables of fields read a low line as a hyphen.
		"X_Forwarded_For": {false, true}, "x-forwarded_proto": {false, true}, "x_gearshift_task": {false, true}, "My_Field": {true, true},
		"Forwarded-For": {false, true}, "X-Forwarded": {false, true}, "WL-Proxy-Client-IP": {false, true}, "X-Azure-ClientIP": {false, true},
		"X-ProxyUser-Ip": {false, true}, "X-Remote-User": {false, true}, "X-Client-Cert": {false, true},
		"Set-Login": {true, false}, "Accept-CH": {true, false}, "Critical-CH": {true, false}, "Document-Policy": {true, false},
		"Document-Isolation-Policy": {true, false}, "Integrity-Policy": {true, false}, "Speculation-Rules": {true, false},
		"Attribution-Reporting-Register-Source": {true, false}, "Activate-Storage-Access": {true, false}, "Supports-Loading-Mode": {true, false},
		"X-LiteSpeed-Location": {true, false}, "X-Lighttpd-Send-File": {true, false}, "Surrogate-Control": {true, false}, "CDN-Cache-Control": {true, false},
	} {
		name = http.CanonicalHeaderKey(name)
		if got := [2]bool{!wire.Inward(name), !wire.Outward(name)}; got != pass {
			t.Errorf("%s passes %v, want %v (to replicas, to clients)", name, got, pass)
		}
	}
}
