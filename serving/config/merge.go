package config

import (
	"reflect"
	"slices"
	"strings"
	"unicode"
)

// liveKeys are the keys of a [Config] that may change while the server runs, each
// standing for what lies under it. The rest is built into what serves.
var liveKeys = []string{
	"max_body", "max_answers", "memory", "connections", "default_task", "body_timeout", "write_timeout", "keep_alive", "retry_after", "drain_timeout", "ready_grace",
	"timeouts", "retries", "lease_timeout", "leases", "overload", "classes",
	"log.level", "log.access", "log.sample", "cooldown", "health", "gauges", "drift",
	"signals.counter", "signals.counters", "signals.change_over", "signals.probe_timeout", "signals.stale_after",
	"keys_file", "metrics", "trusted_proxies", "tls", "admin.tls", "trial", "cors", "hosts",
}

// Merge is the configuration in force, with what of the other one may change
// while the server runs. Changed and left are the keys that differ and have, and
// have not, been taken over.
func Merge(now, other Config) (merged Config, changed, left []string) {
	merged = now
	visit("", reflect.ValueOf(&merged).Elem(), reflect.ValueOf(other), func(key string, to, from reflect.Value) {
		if reflect.DeepEqual(to.Interface(), from.Interface()) {
			return
		}
		if !isLive(key) {
			left = append(left, "serving."+key)
			return
		}
		to.Set(from)
		changed = append(changed, "serving."+key)
	})
	// A listener is encrypted, or not, from its beginning.
	for _, x := range []struct {
		key     string
		to, was *TLS
	}{{"serving.tls", &merged.TLS, &now.TLS}, {"serving.admin.tls", &merged.Admin.TLS, &now.Admin.TLS}} {
		if x.to.On() != x.was.On() {
			*x.to = *x.was
			changed = slices.DeleteFunc(changed, func(key string) bool { return strings.HasPrefix(key, x.key+".") })
			left = append(left, x.key)
		}
	}
	return merged, changed, left
}

func isLive(key string) bool {
	return slices.ContainsFunc(liveKeys, func(l string) bool { return key == l || strings.HasPrefix(key, l+".") })
}

// visit calls f for the fields of two like structs, and of the structs in them,
// by their keys.
func visit(under string, a, b reflect.Value, f func(key string, a, b reflect.Value)) {
	for i := range a.NumField() {
		field := a.Type().Field(i)
		name, flags, _ := strings.Cut(field.Tag.Get("yaml"), ",")
		if flags == "inline" {
			visit(under, a.Field(i), b.Field(i), f)
			continue
		}
		if name == "" || name == "-" { // the scenario has a key of its own form for it
			name = snake(field.Name)
		}
		if under != "" {
			name = under + "." + name
		}
		if field.Type.Kind() == reflect.Struct {
			visit(name, a.Field(i), b.Field(i), f)
			continue
		}
		f(name, a.Field(i), b.Field(i))
	}
}

// snake writes MaxBody as max_body.
func snake(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
