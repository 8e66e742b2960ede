package scenario_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

// rendered are the objects of a template of the chart, with the values of values.yaml but for some,
// as Helm renders it.
func rendered(t *testing.T, name string, change func(values map[string]any)) (list []map[string]any, err error) {
	t.Helper()
	const chart = "../../deploy/helm/gearshift"
	text, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{}
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	change(values)
	all := template.New("")
	indented := func(n int, s string) string {
		return "\n" + strings.Repeat(" ", n) + strings.ReplaceAll(s, "\n", "\n"+strings.Repeat(" ", n))
	}
	all.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := all.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"default": func(or, v any) any {
			if v == nil || v == "" {
				return or
			}
			return v
		},
		"fail": func(s string) (string, error) { return "", errors.New(s) }, "nindent": indented,
		"quote": func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) }, "int": func(v any) int { return v.(int) },
		"trunc": func(_ int, s string) string { return s }, "trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"contains": func(part, s string) bool { return strings.Contains(s, part) }, "replace": func(old, now, s string) string { return strings.ReplaceAll(s, old, now) },
		"regexMatch": func(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) },
		"sha256sum":  func(string) string { return "sum" }, "toString": func(v any) string { return fmt.Sprint(v) },
		"int64": func(string) int64 { return 1 }, "mul": func(...any) int64 { return 1 }, "div": func(any, any) int64 { return 1 },
	})
	for _, file := range []string{"_helpers.tpl", name} {
		text, err := os.ReadFile(filepath.Join(chart, "templates", file))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all.New(file).Parse(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	data := map[string]any{"Values": values, "Release": map[string]any{"Name": "gearshift", "Service": "Helm"}, "Chart": map[string]any{"Name": "gearshift", "Version": "1", "AppVersion": "1"}}
	if err := all.ExecuteTemplate(&out, name, data); err != nil {
		return nil, err
	}
	for d := yaml.NewDecoder(&out); ; {
		var one map[string]any
		switch err := d.Decode(&one); {
		case errors.Is(err, io.EOF):
			return list, nil
		case err != nil:
			t.Fatalf("%s: %v", name, err)
		case one != nil:
			list = append(list, one)
		}
	}
}

// at is what a path of keys and indices leads to.
func at(v any, path ...any) any {
	for _, key := range path {
		switch k := key.(type) {
		case int:
			v = v.([]any)[k]
		case string:
			v = v.(map[string]any)[k]
		}
	}
	return v
}

// The chart's engines report to its router, which selects none of their pods, and has what failover
// needs.
func TestTheChartHasAgents(t *testing.T) {
	with := func(values map[string]any) {
		values["failover"].(map[string]any)["enabled"] = true
		values["agents"].(map[string]any)["hosts"] = []any{map[string]any{"name": "h1"}, map[string]any{"name": "h2"}}
		values["agents"].(map[string]any)["tokenSecret"] = "token"
	}
	router, err := rendered(t, "deployment.yaml", with)
	if err != nil {
		t.Fatal(err)
	}
	engines, err := rendered(t, "engines.yaml", with)
	if err != nil || len(engines) != 5 {
		t.Fatalf("%d objects, %v; want the admin Service, and a Service and a Deployment for each host", len(engines), err)
	}
	args := fmt.Sprint(at(router[0], "spec", "template", "spec", "containers", 0, "args"))
	for _, want := range []string{"--admin-addr=:8081", "--failover-state=/var/lib/gearshift/failover.db"} {
		if !strings.Contains(args, want) {
			t.Errorf("the router has %s, want %s among it", args, want)
		}
	}
	if at(router[0], "spec", "strategy", "type") != "Recreate" {
		t.Errorf("strategy %v: two pods would want the state", at(router[0], "spec", "strategy"))
	}
	admin := at(engines[0], "metadata", "name")
	selects := func(selector, labels any) bool {
		all := labels.(map[string]any)
		for k, v := range selector.(map[string]any) {
			if all[k] != v {
				return false
			}
		}
		return true
	}
	for i, host := range []string{"h1", "h2"} {
		service, deployment := engines[1+2*i], engines[2+2*i]
		labels := at(deployment, "spec", "template", "metadata", "labels")
		if !selects(at(service, "spec", "selector"), labels) || !selects(at(deployment, "spec", "selector", "matchLabels"), labels) || at(service, "metadata", "name") != "gearshift-"+host {
			t.Errorf("%v does not select %v", service, slices.Sorted(maps.Keys(labels.(map[string]any))))
		}
		if selects(at(engines[0], "spec", "selector"), labels) {
			t.Error("the router's Services select engines")
		}
		if env := fmt.Sprint(at(deployment, "spec", "template", "spec", "containers", 0, "env")); env != "[map[name:GEARSHIFT_FLEET_TOKEN valueFrom:map[secretKeyRef:map[key:GEARSHIFT_FLEET_TOKEN name:token]]]]" {
			t.Errorf("%s gets %s, want the fleet's token alone", host, env)
		}
		args := fmt.Sprint(at(deployment, "spec", "template", "spec", "containers", 0, "args"))
		for _, want := range []string{fmt.Sprintf("--agent=http://%v:8081", admin), "--agent-host=" + host, "--repository=/models"} {
			if !strings.Contains(args, want) {
				t.Errorf("%s has %s, want %s among it", host, args, want)
			}
		}
	}
	if list, err := rendered(t, "engines.yaml", func(map[string]any) {}); err != nil || len(list) != 0 {
		t.Errorf("without failover there are %v, %v", list, err)
	}
	for want, change := range map[string]func(map[string]any){
		"want replicas: 1":            func(v map[string]any) { with(v); v["replicas"] = 2 },
		"want failover.enabled: true": func(v map[string]any) { with(v); v["failover"].(map[string]any)["enabled"] = false },
	} {
		name := "deployment.yaml"
		if strings.Contains(want, "enabled") {
			name = "engines.yaml"
		}
		if _, err := rendered(t, name, change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
