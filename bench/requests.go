package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

func length() time.Duration { return time.Duration(*seconds * float64(time.Second)) }

func basic(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(url.QueryEscape(id)+":"+url.QueryEscape(secret)))
}

func (b *bench) site(port, conns int, method, path, form string, headers ...string) target {
	return target{
		addr: fmt.Sprintf("127.0.0.1:%d", port), conns: conns, want: http.StatusOK,
		pid:     b.server.PID(),
		request: lab.Request(method, fmt.Sprintf("localhost:%d", port), path, form, headers...),
	}
}

// namedTarget is a target with the name of its figures.
type namedTarget struct {
	name string
	t    target
}

// The requests to measure.

// open is the site of our server without protect.
func (b *bench) open() target {
	return b.site(b.server.Ports.Open, 16, "GET", "/orders", "", b.bearer("client")...)
}

// api is the site with protect, asked with one of the access tokens.
func (b *bench) api(token string) target {
	return b.site(b.server.Ports.API, 16, "GET", "/orders", "", b.bearer(token)...)
}

// wiki is the site that signs browsers in, asked with the session of one.
func (b *bench) wiki() target {
	return b.site(b.server.Ports.Wiki, 16, "GET", "/orders", "", "Cookie", b.tokens["session"])
}

// plain is a site of plain Caddy: 0 reverse_proxy, 1 forward_auth and reverse_proxy, 2 respond, 3 reverse_proxy with
// the headers that protect sets for a person.
func (b *bench) plain(site int) target {
	t := b.site(b.stock.ports[site], 16, "GET", "/orders", "", b.bearer("client")...)
	t.pid = b.stock.pid()
	return t
}

// floor is a server that does nothing: what the load generator reaches by itself.
func (b *bench) floor(conns int) target {
	t := b.site(b.nothing.port, conns, "GET", "/", "")
	t.pid = b.nothing.pid()
	return t
}

func (b *bench) introspect(token string, conns int) target {
	return b.site(b.server.Ports.Issuer, conns, "POST", "/oauth/api/v2/token/introspect", "token="+b.tokens[token],
		"Authorization", basic(lab.APIID, b.server.API), "Accept", "application/json")
}

// issue requests tokens by client credentials.
func (b *bench) issue(client string) target {
	return b.site(b.server.Ports.Issuer, 64, "POST", "/oauth/token", "grant_type=client_credentials&scope="+lab.Scope,
		"Authorization", basic(client, b.server.Machine))
}

func (b *bench) bearer(token string) []string {
	return []string{"Authorization", "Bearer " + b.tokens[token]}
}
