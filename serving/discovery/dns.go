package discovery

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"gearshift/serving/discovery/settings"
)

// resolver looks up names, as [net.Resolver] does.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	LookupSRV(ctx context.Context, service, proto, name string) (cname string, addrs []*net.SRV, err error)
}

// dns is a [Source] that looks up names, each of which has an address per engine.
type dns struct {
	config   *settings.DNS
	groups   []Group
	resolver resolver
	log      *slog.Logger
	last     map[string][]Endpoint // by variant
	missing  map[string]bool       // by variant: the name did not resolve at the last look-up
	reach                          // by variant
}

// newDNS returns a source that asks a name server.
func newDNS(c *settings.DNS, groups []Group, r resolver, log *slog.Logger) *dns {
	return &dns{config: c, groups: groups, resolver: r, log: log, last: map[string][]Endpoint{}, missing: map[string]bool{}}
}

// Watch implements [Source]. After a failed look-up a name keeps its last addresses; a name that does not exist has
// none.
func (d *dns) Watch(ctx context.Context, changed func([]Endpoint)) error {
	tick := time.NewTicker(d.config.Period())
	defer tick.Stop()
	for {
		var list []Endpoint
		for _, variant := range slices.Sorted(maps.Keys(d.config.Names)) {
			list = append(list, d.look(ctx, variant)...)
		}
		if ctx.Err() != nil {
			return nil
		}
		changed(list)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// look returns the endpoints of a variant.
func (d *dns) look(ctx context.Context, variant string) []Endpoint {
	name := d.config.Names[variant]
	ctx, cancel := context.WithTimeout(ctx, max(d.config.Period(), time.Second))
	defer cancel()
	list, err := d.addresses(ctx, variant, name)
	if errors.Is(err, context.Canceled) {
		return d.last[variant]
	}
	var answer *net.DNSError
	missing := errors.As(err, &answer) && answer.IsNotFound
	if missing {
		list, err = nil, nil
	}
	if err == nil && missing != d.missing[variant] {
		if d.missing[variant] = missing; missing {
			d.log.Warn("the name of a variant does not resolve: the variant has no engines", "variant", variant, "name", name, "error", answer)
		} else {
			d.log.Info("the name of a variant resolves", "variant", variant, "name", name)
		}
	}
	if failing := err != nil; d.note(variant, failing) {
		if failing {
			d.log.Warn("cannot look up the name of a variant: keeping its known engines", "variant", variant, "name", name, "error", err)
		} else {
			d.log.Info("the name of a variant can be looked up again", "variant", variant, "name", name)
		}
	}
	if err == nil {
		d.last[variant] = list
	}
	return d.last[variant]
}

func (d *dns) addresses(ctx context.Context, variant, name string) (list []Endpoint, err error) {
	add := func(host string, port int) {
		at := net.JoinHostPort(host, strconv.Itoa(port))
		list = append(list, Endpoint{ID: variant + "@" + at, Name: at, Address: at, Variant: variant, Ready: true})
	}
	if strings.HasPrefix(name, "_") {
		_, records, err := d.resolver.LookupSRV(ctx, "", "", name)
		for _, r := range records {
			add(strings.TrimSuffix(r.Target, "."), int(r.Port))
		}
		return list, err
	}
	addresses, err := d.resolver.LookupNetIP(ctx, "ip", name)
	for _, a := range addresses {
		for _, g := range d.groups {
			if g.Name == variant || g.Variant == variant && !d.named(g.Name) {
				add(a.Unmap().String(), g.Port)
				break
			}
		}
	}
	return list, err
}

// named reports whether the configuration names the entry.
func (d *dns) named(entry string) bool {
	_, ok := d.config.Names[entry]
	return ok
}
