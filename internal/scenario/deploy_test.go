package scenario_test

import (
	"errors"
	"io"
	"math"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"

	"gearshift/internal/scenario"
	"gearshift/router/policy"
)

const deployed = "../../deploy/scenario.yaml"

func TestTheDeployedScenarioIsValid(t *testing.T) {
	s := load(t, deployed)
	if s.Serving.Backend != scenario.Upstream || len(s.Serving.Upstreams) != len(s.Table().Replicas) {
		t.Errorf("backend %q with %d upstreams", s.Serving.Backend, len(s.Serving.Upstreams))
	}
}

// What is deployed routes by tuned rules from the first hour on, and trains by the same.
func TestTheDeployedScenarioHasTunedRules(t *testing.T) {
	s := load(t, deployed)
	if len(s.Evaluation.Rules) < 4 || s.NamesFallback() || s.Serving.Fallback != s.Evaluation.Rules[0] || s.Spec().Advice() != s.Evaluation.Rules[0] {
		t.Errorf("rules %q, fallback %q, advice %q", s.Evaluation.Rules, s.Serving.Fallback, s.Spec().Advice())
	}
}

// documents reads every document of a YAML file, as far as T has its keys.
func documents[T any](t *testing.T, path string) []T {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []T
	for d := yaml.NewDecoder(f); ; {
		var one T
		if err := d.Decode(&one); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		list = append(list, one)
	}
}

// argument is what follows a flag.
func argument(args []string, flag string) string {
	if i := slices.Index(args, flag); i >= 0 && i+1 < len(args) {
		return args[i+1]
	}
	return ""
}

// servesAt holds the engines that are found at the upstreams' host and port against
// what the scenario says of them.
func servesAt(t *testing.T, find func(host, port string) []string) {
	t.Helper()
	s := load(t, deployed)
	prompt, output := s.Workload.Longest()
	longest := prompt + output
	for _, r := range s.Replicas {
		upstream := s.Serving.Upstreams[r.Variant+"@"+r.Hosts[0]]
		at, err := url.Parse(upstream.URL)
		if err != nil {
			t.Fatal(err)
		}
		args := find(at.Hostname(), at.Port())
		if got := argument(args, "--model"); got != upstream.Model {
			t.Errorf("%s: the engine has the model %q, the scenario %q", upstream.URL, got, upstream.Model)
		}
		if share, err := strconv.ParseFloat(argument(args, "--gpu-memory-utilization"), 64); err != nil || math.Round(share*100) != float64(r.Memory.Share) {
			t.Errorf("%s: the engine has %v of the memory (%v), the scenario %v %%", upstream.URL, share, err, r.Memory.Share)
		}
		if got, err := strconv.Atoi(argument(args, "--max-model-len")); err != nil || got < longest {
			t.Errorf("%s: the engine takes %d tokens (%v), the longest request has %d", upstream.URL, got, err, longest)
		}
	}
}

// waits holds the command of an engine against what it has to do before it measures the
// memory that is free: to see the engine before it answer. All is how it passes on its
// arguments.
func waits(t *testing.T, name string, command []string, before, all string) {
	t.Helper()
	want := []string{"bash", "-c", "trap exit TERM; until curl -sf " + before + "/health; do sleep 2; done; exec vllm serve " + all, "--"}
	if before != "" && !slices.Equal(command, want) {
		t.Errorf("%s starts by %q, want %q", name, command, want)
	}
}

// The engines of the compose file are those of the scenario, and start in turn.
func TestComposeServesTheScenario(t *testing.T) {
	compose := documents[struct {
		Services map[string]struct{ Command, Entrypoint []string }
	}](t, "../../deploy/compose/compose.yaml")[0]
	before := ""
	servesAt(t, func(host, port string) []string {
		args := compose.Services[host].Command
		if listens := argument(args, "--port"); listens != port && (listens != "" || port != "8000") {
			t.Errorf("%s listens on another port than %s", host, port)
		}
		waits(t, host, compose.Services[host].Entrypoint, before, `"$$@"`)
		before = "http://" + host + ":" + port
		return args
	})
}

// object is a Deployment or a Service, as far as it says who answers where.
type object struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		Selector                 yaml.Node
		PublishNotReadyAddresses bool `yaml:"publishNotReadyAddresses"`
		Ports                    []struct {
			Port       int
			TargetPort string `yaml:"targetPort"`
		}
		Template struct {
			Metadata struct{ Labels map[string]string }
			Spec     struct {
				Containers []struct {
					Command, Args []string
					Ports         []struct {
						Name          string
						ContainerPort int `yaml:"containerPort"`
					}
				}
			}
		}
	}
}

// So are those of the Helm chart's example, through their Services. One engine that is
// not ready must not take the others of its pod away.
func TestTheHelmExampleServesTheScenario(t *testing.T) {
	objects := documents[object](t, "../../deploy/helm/examples/vllm.yaml")
	named := func(kind, name string) object {
		i := slices.IndexFunc(objects, func(o object) bool { return o.Kind == kind && (name == "" || o.Metadata.Name == name) })
		if i < 0 {
			t.Fatalf("there is no %s %s", kind, name)
		}
		return objects[i]
	}
	pod := named("Deployment", "").Spec.Template
	before := ""
	servesAt(t, func(host, port string) []string {
		service := named("Service", host).Spec
		var selector map[string]string
		if err := service.Selector.Decode(&selector); err != nil || len(selector) != 1 || selector["app"] != pod.Metadata.Labels["app"] {
			t.Errorf("Service %s selects %v (%v), the pod has %v", host, selector, err, pod.Metadata.Labels)
		}
		if !service.PublishNotReadyAddresses {
			t.Errorf("Service %s has no address once another engine of the pod is not ready", host)
		}
		for _, c := range pod.Spec.Containers {
			for _, p := range c.Ports {
				if p.Name == service.Ports[0].TargetPort && strconv.Itoa(service.Ports[0].Port) == port && strconv.Itoa(p.ContainerPort) == argument(c.Args, "--port") {
					waits(t, service.Ports[0].TargetPort, c.Command, before, `"$@"`)
					before = "http://localhost:" + strconv.Itoa(p.ContainerPort)
					return c.Args
				}
			}
		}
		t.Errorf("Service %s leads to no container at port %s", host, port)
		return nil
	})
}

// Without a claim the chart takes the rules there are, and no stored policy.
func TestTheChartKnowsTheRules(t *testing.T) {
	text, err := os.ReadFile("../../deploy/helm/gearshift/templates/deployment.yaml")
	if err != nil {
		t.Fatal(err)
	}
	guard := regexp.MustCompile(`regexMatch "\^\(([a-z|-]+)\)\(:\|\$\)"`).FindSubmatch(text)
	if guard == nil {
		t.Fatal("the chart does not ask which policies are rules")
	}
	var rules []string
	for _, form := range regexp.MustCompile(`([a-z-]+)\[?:`).FindAllStringSubmatch(policy.RuleForms, -1) {
		rules = append(rules, form[1])
	}
	if got := strings.Split(string(guard[1]), "|"); !slices.Equal(got, rules) {
		t.Errorf("the chart takes %v for rules, there are %v", got, rules)
	}
}

// The chart gives Go's collector 85 % of the container's memory.
func TestTheChartSetsTheMemoryLimit(t *testing.T) {
	text, err := os.ReadFile("../../deploy/helm/gearshift/templates/_helpers.tpl")
	if err != nil {
		t.Fatal(err)
	}
	helpers := template.New("").Funcs(template.FuncMap{ // as Helm has them
		"include":    func(string, any) string { return "" },
		"default":    func(a, b any) any { return b },
		"contains":   strings.Contains,
		"replace":    func(old, now, s string) string { return strings.ReplaceAll(s, old, now) },
		"quote":      strconv.Quote,
		"trunc":      func(_ int, s string) string { return s },
		"trimSuffix": func(suffix, s string) string { return strings.TrimSuffix(s, suffix) },
		"toString":   func(v any) string { return v.(string) },
		"regexMatch": func(pattern, s string) bool { return regexp.MustCompile(pattern).MatchString(s) },
		"int64":      func(s string) int64 { n, _ := strconv.ParseInt(s, 10, 64); return n },
		"mul": func(list ...any) int64 {
			product := int64(1)
			for _, v := range list {
				product *= reflect.ValueOf(v).Int()
			}
			return product
		},
		"div": func(a int64, b int) int64 { return a / int64(b) },
	})
	if _, err := helpers.Parse(string(text)); err != nil {
		t.Fatal(err)
	}
	for limit, want := range map[string]string{"1Gi": "870MiB", "16Gi": "13926MiB", "512Mi": "435MiB", "1G": "", "": ""} {
		limits := map[string]any{}
		if limit != "" {
			limits["memory"] = limit
		}
		var b strings.Builder
		values := map[string]any{"Values": map[string]any{"resources": map[string]any{"limits": limits}}}
		if err := helpers.ExecuteTemplate(&b, "gearshift.memoryLimit", values); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != want {
			t.Errorf("a container of %q: GOMEMLIMIT %q, want %q", limit, got, want)
		}
	}
	used, err := os.ReadFile("../../deploy/helm/gearshift/templates/deployment.yaml")
	if err != nil || !strings.Contains(string(used), `{name: GOMEMLIMIT, value: {{ . | quote }}}`) {
		t.Errorf("the container does not get it: %v", err)
	}
}
