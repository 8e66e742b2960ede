package discovery

import (
	"errors"
	"log/slog"
	"net"

	"gearshift/serving/discovery/settings"
)

// NewSource returns the configured source and its kind. Decode reads files.
func NewSource(c *settings.Config, groups []Group, decode Decode, log *slog.Logger) (kind string, s Source, err error) {
	switch {
	case c.File != "":
		return "file", NewFile(c.File, decode, log), nil
	case c.DNS != nil:
		return "dns", newDNS(c.DNS, groups, net.DefaultResolver, log), nil
	case c.Kubernetes != nil:
		k, err := newKubernetes(c, groups, log)
		return "kubernetes", k, err
	}
	return "", nil, errors.New("no source of engines is set; want file, kubernetes or dns")
}
