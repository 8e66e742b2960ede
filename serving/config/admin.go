package config

import (
	"net"
	"strconv"
	"strings"

	"gearshift/internal/faults"
)

// AdminOff as the address of [Admin] opens no admin listener.
const AdminOff = "off"

// Admin is where operators see and steer the router: a listener apart
// from that of the clients.
type Admin struct {
	// Addr is where to listen, host:port, or [AdminOff].
	Addr string `yaml:"addr"`
	// TokenEnv names the environment variable that holds the admin token.
	TokenEnv string `yaml:"token_env"`
	// FleetTokenEnv names the one that holds the token of the fleet, which routers share with the
	// agents of engines.
	FleetTokenEnv string `yaml:"fleet_token_env"`
	// TLS encrypts the connections.
	TLS TLS `yaml:"tls,omitempty"`
}

// DefaultAdmin listens to this machine alone.
func DefaultAdmin() Admin {
	return Admin{Addr: "127.0.0.1:8081", TokenEnv: "GEARSHIFT_ADMIN_TOKEN", FleetTokenEnv: "GEARSHIFT_FLEET_TOKEN"}
}

// Validate names every fault of the configuration, by its YAML key.
func (a Admin) Validate() error {
	var found faults.List
	if a.Addr != AdminOff {
		_, port, err := net.SplitHostPort(a.Addr)
		if err == nil {
			_, err = strconv.ParseUint(port, 10, 16)
		}
		found.If(err != nil, "admin.addr: %q is not an address; want host:port, such as %s, or %s", a.Addr, DefaultAdmin().Addr, AdminOff)
	}
	for _, x := range [][2]string{{"token_env", a.TokenEnv}, {"fleet_token_env", a.FleetTokenEnv}} {
		found.If(x[1] == "" || strings.ContainsAny(x[1], "= "), "admin.%s: %q is not the name of an environment variable", x[0], x[1])
	}
	found.Add(a.TLS.validate("admin.tls"))
	return found.Err()
}
