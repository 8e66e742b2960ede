package address

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"syscall"
)

// A Unix socket stands in URLs as a host of its own: the path of the socket in hexadecimal digits under
// a name that no server has. So it passes wherever a URL does, until a connection is made: see [Dialer].
const socketSuffix = ".unix-socket"

// longestSocket is the longest path that all systems take, in bytes.
const longestSocket = 103

// socketExample is a URL as the faults recommend it.
const socketExample = "unix:/run/vllm.sock"

// IsSocket reports whether the text is meant as the URL of a server on a Unix socket.
func IsSocket(text string) bool {
	scheme, _, _ := strings.Cut(text, ":")
	return strings.EqualFold(scheme, "unix") || strings.EqualFold(scheme, "http+unix")
}

// parseSocket reads unix:/path.sock, unix:///path.sock, either with a path of the server after a colon
// (unix:/path.sock:/v3), and http+unix://%2Fpath.sock/v3, as several clients write it.
func parseSocket(text string) (*url.URL, error) {
	_, rest, _ := strings.Cut(text, ":")
	rest, query, _ := strings.Cut(strings.TrimPrefix(rest, "//"), "?")
	socket, path, _ := strings.Cut(rest, "/")
	if socket == "" {
		socket, path, _ = strings.Cut(rest, ":/")
	}
	socket, err := url.PathUnescape(socket)
	switch {
	case err != nil || !strings.HasPrefix(socket, "/") || strings.HasSuffix(socket, "/") || strings.Contains(socket, "\x00"):
		return nil, fmt.Errorf("%q is not the URL of a socket; want unix: and its absolute path, such as %s", text, socketExample)
	case len(socket) > longestSocket:
		return nil, fmt.Errorf("%q has a path of %d bytes; want at most %d, the longest that a socket can have", text, len(socket), longestSocket)
	}
	u, err := url.Parse("/" + path)
	if err != nil {
		return nil, fmt.Errorf("%q is not a URL; want %s, or with a path of the server %s:/v1", text, socketExample, socketExample)
	}
	u.Scheme, u.Host, u.RawQuery = "http", hex.EncodeToString([]byte(socket))+socketSuffix, query
	return u, nil
}

// Socket returns the path of the Unix socket that a host stands for; empty if it is another host.
func Socket(host string) string {
	digits, ok := strings.CutSuffix(host, socketSuffix)
	path, err := hex.DecodeString(digits)
	if !ok || err != nil {
		return ""
	}
	return string(path)
}

// Host is the name of the server that a request for the URL has in its header.
func Host(u *url.URL) string {
	if strings.HasSuffix(u.Host, socketSuffix) {
		return "localhost"
	}
	return u.Host
}

var sockets = regexp.MustCompile(`http://([0-9a-f]+)` + regexp.QuoteMeta(socketSuffix))

// Readable returns the text with its URLs of sockets as people write them.
func Readable(text string) string {
	return sockets.ReplaceAllStringFunc(text, func(base string) string {
		return "unix:" + Socket(strings.TrimPrefix(base, "http://"))
	})
}

// Proxy is [http.ProxyFromEnvironment], except that no proxy leads to a socket.
func Proxy(r *http.Request) (*url.URL, error) {
	if strings.HasSuffix(r.URL.Host, socketSuffix) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// Dial connects to an address, host:port.
type Dial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer returns a Dial that connects to the socket where the host stands for one. A socket without a
// file is a refused connection.
func Dialer(dial Dial) Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		host, _, _ := strings.Cut(address, ":")
		path := ""
		if strings.HasSuffix(host, socketSuffix) {
			path = Socket(host)
		}
		if path == "" {
			return dial(ctx, network, address)
		}
		conn, err := dial(ctx, "unix", path)
		if errors.Is(err, fs.ErrNotExist) {
			err = &net.OpError{Op: "dial", Net: "unix", Addr: &net.UnixAddr{Name: path, Net: "unix"}, Err: absent{}}
		}
		return conn, err
	}
}

// absent reports that there is no connection, since the socket has no file.
type absent struct{}

// Error implements error.
func (absent) Error() string { return "there is no such socket" }

// Is reports whether it may be taken for the other error.
func (absent) Is(target error) bool { return target == syscall.ECONNREFUSED }
