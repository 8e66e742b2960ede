// Package settings configures the discovery of engines for replicas that come and go.
package settings

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"

	"gearshift/internal/faults"
)

// Config names the source of engines. At most one is set; without any, discovery is off.
type Config struct {
	// File lists endpoints, and is watched.
	File       string      `yaml:"file,omitempty"`
	Kubernetes *Kubernetes `yaml:"kubernetes,omitempty"`
	DNS        *DNS        `yaml:"dns,omitempty"`
	// Labels are the keys of pod labels that describe the engine.
	Labels Labels `yaml:"labels"`
}

// Kubernetes finds pods.
type Kubernetes struct {
	// Namespace of the pods. Empty: the router's own pod's, or the kubeconfig's.
	Namespace string `yaml:"namespace,omitempty"`
	// Pool names an InferencePool, which sets selector and ports. Empty: the replicas set them.
	Pool string `yaml:"pool,omitempty"`
	// Kubeconfig is a file. Empty: the pod's service account, or else $KUBECONFIG or ~/.kube/config.
	Kubeconfig string `yaml:"kubeconfig,omitempty"`
}

// DNS looks up names.
type DNS struct {
	// Names map a variant, or an entry of replicas, to a name with an address per engine, or to an SRV name, which
	// begins with an underscore.
	Names map[string]string `yaml:"names,flow"`
	// Every is the time between two look-ups.
	Every time.Duration `yaml:"every,omitempty"`
}

// Labels are keys of pod labels.
type Labels struct {
	Variant string `yaml:"variant,omitempty"`
	Host    string `yaml:"host,omitempty"`
}

// Default returns the configuration of a router that discovers nothing.
func Default() Config {
	return Config{Labels: Labels{Variant: "gearshift.dev/variant", Host: "gearshift.dev/host"}}
}

// usualEvery is the default time between two look-ups.
const usualEvery = 2 * time.Second

// Period returns the time between two look-ups.
func (d *DNS) Period() time.Duration { return cmp.Or(d.Every, usualEvery) }

// On reports whether a source is set.
func (c *Config) On() bool { return c.File != "" || c.Kubernetes != nil || c.DNS != nil }

// Validate returns the configuration's faults: an error for each key.
func (c *Config) Validate() error {
	var found faults.List
	sources := 0
	for _, on := range []bool{c.File != "", c.Kubernetes != nil, c.DNS != nil} {
		if on {
			sources++
		}
	}
	found.If(sources > 1, "file: want one of file, kubernetes and dns, found %d", sources)
	if k := c.Kubernetes; k != nil {
		found.If(k.Namespace != "" && len(content.IsDNS1123Label(k.Namespace)) > 0, "kubernetes.namespace: %q is not the name of a namespace: %s", k.Namespace, strings.Join(content.IsDNS1123Label(k.Namespace), "; "))
		found.If(k.Pool != "" && len(content.IsDNS1123Subdomain(k.Pool)) > 0, "kubernetes.pool: %q is not the name of a pool: %s", k.Pool, strings.Join(content.IsDNS1123Subdomain(k.Pool), "; "))
	}
	if d := c.DNS; d != nil {
		found.If(len(d.Names) == 0, "dns.names: want a name for each variant with slots, such as {small: small.default.svc.cluster.local}")
		for _, variant := range slices.Sorted(maps.Keys(d.Names)) {
			name := d.Names[variant]
			found.If(strings.Trim(name, ".") == "" || strings.ContainsAny(name, " :/@"), "dns.names.%s: %q is not a name; want one such as small.default.svc.cluster.local, without a port", variant, name)
		}
		found.If(d.Every != 0 && (d.Every < 100*time.Millisecond || d.Every > 10*time.Minute), "dns.every: want a time from 100ms to 10m, not %v", d.Every)
	}
	for _, l := range []struct{ key, label string }{{"labels.variant", c.Labels.Variant}, {"labels.host", c.Labels.Host}} {
		why := content.IsLabelKey(l.label)
		found.If(l.label != "" && len(why) > 0, "%s: %q is not the key of a label: %s", l.key, l.label, strings.Join(why, "; "))
	}
	return found.Err()
}

// CheckSelector returns why labels cannot select pods; nil if they can.
func CheckSelector(labels map[string]string) error {
	var found faults.List
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		why := append(content.IsLabelKey(key), content.IsLabelValue(value)...)
		found.If(len(why) > 0, "selector.%s: %q cannot be the value of a label, or %q its key: %s", key, value, key, strings.Join(why, "; "))
	}
	return found.Err()
}
