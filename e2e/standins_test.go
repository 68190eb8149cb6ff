package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	yaml "go.yaml.in/yaml/v3"
)

// The stand-ins of Traefik, Envoy and a gateway of the Gateway API read the configurations of the guides. An option
// that they do not know is an error, so a guide with another configuration needs another stand-in.

// patience multiplies the timeouts of the guides, which are for machines with less to do.
const patience = 30

// readYAML reads YAML of a guide.
func readYAML(t *testing.T, text string, into any) {
	t.Helper()
	d := yaml.NewDecoder(strings.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
}

// foreign is a configuration of a guide for a proxy that this machine lacks.
func (g *gateways) foreign(text, name, at string) string {
	return strings.NewReplacer(
		"http://10.0.0.2:9192", "http://"+at, "127.0.0.1:9001", g.Echo, "wiki.example.com", name+".example.com", "policy=wiki", "policy="+name,
		"policy: wiki", "policy: "+name,
	).Replace(text)
}

// stands serves a stand-in over https until the end of the test.
func (g *gateways) stands(t *testing.T, port int, h http.HandlerFunc) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{
		Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	go s.ServeTLS(l, g.dir+"/cert.pem", g.dir+"/key.pem") //nolint:errcheck // until it is closed
	t.Cleanup(func() { s.Close() })                       //nolint:errcheck // of a test
}

// pass hands a request on as proxies do, to a server whose name is the Host, too, unless the client's is kept.
func pass(server string, keepHost bool) http.Handler {
	return passBy(http.DefaultTransport, &url.URL{Scheme: "http", Host: server}, keepHost)
}

// passBy is pass over a transport.
func passBy(transport http.RoundTripper, server *url.URL, keepHost bool) http.Handler {
	return &httputil.ReverseProxy{Transport: transport, ErrorLog: log.New(io.Discard, "", 0), Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(server)
		r.Out.URL.Path, r.Out.URL.RawPath = r.In.URL.Path, r.In.URL.RawPath
		r.SetXForwarded()
		if keepHost {
			r.Out.Host = r.In.Host
		}
	}}
}

// copies writes the whole answer of a server to the client.
func copies(w http.ResponseWriter, res *http.Response) {
	for name, values := range res.Header {
		if name != "Connection" && name != "Content-Length" {
			w.Header()[name] = values
		}
	}
	w.WriteHeader(res.StatusCode)
	io.Copy(w, res.Body) //nolint:errcheck // the client went away
}

// asks sends the request of a proxy. It follows no redirect.
func asks(transport http.RoundTripper, timeout time.Duration, req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(req.Context(), timeout*patience)
	defer cancel()
	res, err := transport.RoundTrip(req.WithContext(ctx))
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	res.Body = io.NopCloser(bytes.NewReader(raw))
	return res, err
}

func clientOf(r *http.Request) string {
	return netip.MustParseAddrPort(r.RemoteAddr).Addr().String()
}
