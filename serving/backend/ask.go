package backend

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/url"

	"gearshift/serving/engines/address"
)

// Get asks the server for a path of its own, such as /health or /v1/models, with its key. It
// makes a connection for that, so that it also shows whether one can be made. The
// caller closes the body.
func (u *Upstream) Get(ctx context.Context, path string) (*http.Response, error) {
	return u.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Read is Get on a kept connection, at a third of the cost of a new one.
func (u *Upstream) Read(ctx context.Context, path string) (*http.Response, error) {
	asked, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	r := &http.Request{Method: http.MethodGet, URL: asked, Header: http.Header{}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	return u.RoundTrip(r.WithContext(ctx))
}

// Ask is Get with another method, with further header fields, and with a body of JSON unless that
// is nil.
func (u *Upstream) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	asked, err := url.Parse(path)
	if err != nil {
		return nil, err
	}
	to := u.to(asked)
	r := (&http.Request{Method: method, URL: &to, Host: address.Host(&to), Header: u.header(nil), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	maps.Copy(r.Header, header)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	var response *http.Response
	if p, ok := u.via.(*plain); ok && method == http.MethodGet && header == nil && body == nil {
		r.URL = asked
		response, err = p.once(r)
	} else {
		response, err = once(u.transport.Load(), r)
	}
	if err == nil {
		decompress(response)
	}
	return response, err
}

// once sends the request on a connection of its own, which is made as the transport does.
func once(transport *http.Transport, r *http.Request) (*http.Response, error) {
	own := transport.Clone()
	own.DisableKeepAlives = true
	response, err := own.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	response.Body = &onceBody{response.Body, own}
	return response, nil
}

// onceBody lets go of what its connection came from.
type onceBody struct {
	io.ReadCloser
	transport *http.Transport
}

func (b *onceBody) Close() error {
	err := b.ReadCloser.Close()
	b.transport.CloseIdleConnections()
	return err
}

// Base is the server's root.
func (u *Upstream) Base() *url.URL {
	base := u.server.Root
	return &base
}

// API is where its OpenAI endpoints lie.
func (u *Upstream) API() *url.URL {
	api := u.server.API
	return &api
}
