// Package etcd connects to etcd: it reads the address of a store in etcd, opens clients with the credentials in the
// environment, and reports faults of a cluster in one line.
package etcd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Form shows the syntax of an address.
const Form = "etcd://HOST:PORT[,HOST:PORT...]/PREFIX, or etcds:// for TLS"

// The environment variables of credentials.
const (
	userVariable     = "GEARSHIFT_ETCD_USER"
	passwordVariable = "GEARSHIFT_ETCD_PASSWORD"
	caVariable       = "GEARSHIFT_ETCD_CACERT" // a file; default: the system's
	certVariable     = "GEARSHIFT_ETCD_CERT"   // a file, with the one of keyVariable
	keyVariable      = "GEARSHIFT_ETCD_KEY"
)

// Address locates a store: the endpoints of a cluster, and the prefix of its keys.
type Address struct {
	Endpoints []string // host:port
	Prefix    string   // begins and ends with a slash
	TLS       bool
}

// Is reports whether the name of a store is an address in etcd, not a file.
func Is(name string) bool {
	return strings.HasPrefix(name, "etcd://") || strings.HasPrefix(name, "etcds://")
}

// Check returns an error if the name of a store is neither a file nor an address in etcd, such as one with another
// scheme or a slash too few.
func Check(name string) error {
	if Is(name) {
		_, err := Parse(name)
		return err
	}
	if strings.Contains(name, "://") || strings.HasPrefix(name, "etcd:") || strings.HasPrefix(name, "etcds:") {
		return fmt.Errorf("%q is not an address in etcd; want a file, or %s", redacted(name), Form)
	}
	return nil
}

// Parse reads an address.
func Parse(text string) (Address, error) {
	scheme, rest, _ := strings.Cut(text, "://")
	hosts, prefix, _ := strings.Cut(rest, "/")
	bad := func(why string) (Address, error) {
		return Address{}, fmt.Errorf("cannot read etcd address %q: %s; want %s", redacted(text), why, Form)
	}
	switch prefix = strings.Trim(prefix, "/"); {
	case !Is(text):
		return bad("its scheme is not etcd or etcds")
	case strings.Contains(hosts, "@"):
		return bad("it has a user; " + userVariable + " and " + passwordVariable + " name one")
	case strings.ContainsAny(rest, "?#"):
		return bad("it has options")
	case prefix == "":
		return bad("it has no prefix, below which the store keeps its keys")
	}
	a := Address{Prefix: "/" + prefix + "/", TLS: scheme == "etcds"}
	for endpoint := range strings.SplitSeq(hosts, ",") {
		u, err := url.Parse("http://" + endpoint)
		if err != nil || u.Hostname() == "" || u.Port() == "" || u.Host != endpoint {
			return bad("an endpoint is not HOST:PORT")
		}
		a.Endpoints = append(a.Endpoints, endpoint)
	}
	return a, nil
}

// redacted removes a possible password from the text.
func redacted(text string) string {
	at := strings.LastIndex(text, "@")
	if at < 0 {
		return text
	}
	scheme := strings.Index(text[:at], ":") + 1
	slashes := len(text[scheme:]) - len(strings.TrimLeft(text[scheme:], "/"))
	return text[:scheme+slashes] + "..." + text[at:]
}

// String formats the address as Parse reads it.
func (a Address) String() string {
	scheme := "etcd"
	if a.TLS {
		scheme = "etcds"
	}
	return scheme + "://" + a.Hosts() + strings.TrimSuffix(a.Prefix, "/")
}

// Hosts returns the endpoints, for messages.
func (a Address) Hosts() string { return strings.Join(a.Endpoints, ",") }

// patience bounds the time between probes of a connection, and the wait before a new one after a failure, so that a
// cluster is found within it once it is back.
const patience = time.Second

// Dial makes a client. Only a login connects at once; otherwise the first call does.
func (a Address) Dial() (*clientv3.Client, error) {
	config := clientv3.Config{
		Username: strings.TrimSpace(os.Getenv(userVariable)), Password: os.Getenv(passwordVariable),
		DialTimeout: 3 * patience, DialKeepAliveTime: patience, DialKeepAliveTimeout: patience, PermitWithoutStream: true,
		Logger: zap.NewNop(), // callers report errors
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: patience / 10, Multiplier: 1.6, Jitter: 0.2, MaxDelay: patience},
			MinConnectTimeout: patience,
		})},
	}
	for _, endpoint := range a.Endpoints {
		scheme := "http://"
		if a.TLS {
			scheme = "https://"
		}
		config.Endpoints = append(config.Endpoints, scheme+endpoint)
	}
	if a.TLS {
		var err error
		if config.TLS, err = tlsConfig(); err != nil {
			return nil, fmt.Errorf("cannot connect to %s: %w", a, err)
		}
	}
	for _, name := range []string{caVariable, certVariable, keyVariable} {
		if !a.TLS && os.Getenv(name) != "" {
			return nil, fmt.Errorf("cannot connect to %s: %s is set, but etcd:// is not encrypted; want etcds://", a, name)
		}
	}
	c, err := clientv3.New(config)
	if err != nil {
		return nil, a.Away("connect", err)
	}
	return c, nil
}

// tlsConfig returns the TLS settings of the environment.
func tlsConfig() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if file := os.Getenv(caVariable); file != "" {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", caVariable, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM", caVariable, file)
		}
	}
	cert, key := os.Getenv(certVariable), os.Getenv(keyVariable)
	if (cert == "") != (key == "") {
		return nil, fmt.Errorf("%s and %s go together", certVariable, keyVariable)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", certVariable, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// ErrAway reports that a cluster does not answer, or not as expected.
var ErrAway = errors.New("etcd is away")

// away is an error with a complete message.
type away struct {
	address   Address
	what, why string
	cause     error
}

func (e *away) Error() string {
	return fmt.Sprintf("store %s is away: cannot %s at %s: %s", e.address, e.what, e.address.Hosts(), e.why)
}
func (e *away) Unwrap() []error { return []error{ErrAway, e.cause} }

// Away returns the error of an operation on the cluster, in one line with the endpoints, the operation and the cause.
func (a Address) Away(what string, cause error) error {
	return &away{a, what, reason(cause), cause}
}

// Wait returns the time to wait after an error before the next try: longer than usual after a login that was refused,
// since etcd hashes the password each time.
func Wait(err error, usual time.Duration) time.Duration {
	if errors.Is(err, rpctypes.ErrAuthFailed) {
		return max(usual, 10*time.Second)
	}
	return usual
}

// Explain adds the fault of a connection, such as a certificate that is not trusted, to an error that only reports a
// timeout. It connects again to find out.
func Explain(err error) error {
	var e *away
	if !errors.As(err, &e) || !late(e.cause) {
		return err
	}
	for _, endpoint := range e.address.Endpoints {
		if why := e.address.probe(endpoint); why != "" {
			return &away{e.address, e.what, oneLine(why), e.cause}
		}
	}
	return err
}

func late(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || status.Code(err) == codes.DeadlineExceeded
}

// reason describes the cause of a failed operation.
func reason(err error) string {
	s, ok := status.FromError(err)
	switch {
	case late(err):
		return "no answer in time; check that etcd runs and has a quorum"
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return "it refuses the user or the password; see " + userVariable + " and " + passwordVariable
	case errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty):
		return "permission denied; the user of " + userVariable + " needs to read and write below the prefix"
	case ok && s.Code() == codes.Unavailable:
		return "no connection: " + oneLine(s.Message())
	case ok && s.Code() != codes.Unknown:
		return oneLine(s.Message())
	}
	return oneLine(err.Error())
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
