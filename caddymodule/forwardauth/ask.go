package forwardauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"math"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/authz/dpop"
	"github.com/gatehouse-id/gatehouse/caddymodule/clientcert"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
	"github.com/gatehouse-id/gatehouse/caddymodule/protect/ratelimits"
	"github.com/gatehouse-id/gatehouse/internal/dbsc"
)

// Question is a request that another proxy asks about, as the client sent it to that proxy.
type Question struct {
	Method string
	Scheme string // http or https
	Host   string // of the URL, with its port if that is not the default one
	Target string // path and query, byte for byte
	// Header are the headers of the client. Ask does not change them.
	Header http.Header
	// Client is the address of the client. The zero value: it is unknown, and rules that want an address do not fit.
	Client netip.Addr
	// Certificate is that of the client, if the proxy says so outside of the headers of the client. Empty: it has none, or
	// the header that the gate names has it.
	Certificate string
	// Certified says that the proxy would have told Certificate, so a header that names another is the client's own.
	Certified bool
	// Gate is the name of a forward_auth or a policy. Empty: the forward_auth that has the origin of the request.
	Gate string
	// Narrow asks for more than the gate does: scope, group, level, audience.
	Narrow url.Values
	// Callback is set when the proxy hands on no cookies of an answer that refuses: the browser then comes back to
	// /.gatehouse/callback, which the proxy must pass to Gatehouse.
	Callback bool

	own   bool // only what a site serves itself is asked for
	login bool // the proxy expects that browsers are sent to sign in
}

// Answer is the decision about a question.
type Answer struct {
	// Passed reports whether the request may pass. Nothing else says so.
	Passed bool

	// Status, Header and Body are what the client gets if the request may not pass. Status is never below 300.
	Status int
	Header http.Header
	Body   []byte

	// Identity are headers to set in the request in place of those of the client. A value is empty where the person has
	// none, so a proxy that only overwrites removes what the client has sent.
	Identity http.Header
	// Remove are the headers to take out of the request before that, in every spelling that the client has sent.
	Remove []string
	// Aliases are those of Remove that the client has sent in another spelling than the gate's. A proxy that cannot remove
	// them must refuse the request.
	Aliases []string
	// Cookie is the header Cookie to hand on. Empty: none.
	Cookie string
	// Limits are headers for the answer to the client that say how often it can still come. They are in Header too if the
	// request may not pass.
	Limits http.Header
}

// Malformed is the error of a question that no request can have led to, or that asks for what is not configured.
type Malformed struct{ Reason string }

func (m *Malformed) Error() string { return m.Reason }

func malformed(reason string) error { return &Malformed{reason} }

// maxTarget bounds the target of a request.
const maxTarget = 32 << 10

var hostForm = regexp.MustCompile(`^([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

// Ask decides about a question. An error is a *Malformed, or means that nothing could be decided. Either refuses.
func (g *Gates) Ask(ctx context.Context, q Question) (Answer, error) {
	if err := q.check(); err != nil {
		return Answer{}, err
	}
	gate, err := g.find(q.Gate, q.Scheme, q.Host)
	if err != nil {
		return Answer{}, err
	}
	if sent := q.Header[gate.CertificateHeader]; len(sent) > 0 && !q.Certified { // several: the proxy has added to what the client sent
		q.Certificate = strings.Join(sent, ",")
	}
	r, err := q.request(ctx)
	if err != nil {
		return Answer{}, err
	}
	if !q.own && dbsc.Handles(r.URL.Path) {
		// The answer would not reach the browser, so the device must not be noted: the site's proxy does not pass these
		// paths on, and the session stays unbound.
		return Answer{Status: http.StatusForbidden, Header: http.Header{}}, nil
	}
	if q.login && !gate.Login {
		return Answer{}, malformed("login is not switched on for this site: add login and origins to its forward_auth")
	}
	decides, err := gate.narrow(q.Narrow)
	if err != nil {
		return Answer{}, err
	}
	if q.Callback {
		protect.ByCallback(r.Context())
	}
	authorized, proved := len(r.Header["Authorization"]) > 0, len(r.Header[dpop.Header]) > 0
	rec := &recorder{header: http.Header{}}
	var out Answer
	pass := caddyhttp.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) error {
		if !q.own {
			out = gate.positive(r, q.Header)
			if authorized && len(r.Header["Authorization"]) == 0 { // strip_token
				out.Identity["Authorization"] = []string{""}
				out.Remove = append(out.Remove, "Authorization")
				if proved {
					out.Identity[dpop.Header] = []string{""}
					out.Remove = append(out.Remove, dpop.Header)
				}
			}
		}
		return nil
	})
	if further := decides.further; further != nil {
		// A second protect on the way can only refuse more.
		last := pass
		pass = func(w http.ResponseWriter, r *http.Request) error { return further.ServeHTTP(w, r, last) }
	}
	if err := decides.gate.ServeHTTP(rec, r, pass); err != nil {
		return Answer{}, fmt.Errorf("decide: %w", err)
	}
	if out.Passed {
		for _, name := range ratelimits.Fields {
			if value := rec.header[name]; value != nil {
				if out.Limits == nil {
					out.Limits = http.Header{}
				}
				out.Limits[name] = value
			}
		}
		return out, nil
	}
	return rec.refused(q.own), nil
}

// positive is the one place that says that a request may pass. r is what its upstream would get.
func (g *Gate) positive(r *http.Request, sent http.Header) Answer {
	a := Answer{
		Passed: true, Status: http.StatusOK, Identity: make(http.Header, len(g.identity)+1),
		Cookie: strings.Join(r.Header["Cookie"], "; "),
	}
	for _, name := range g.remove {
		value := ""
		if slices.Contains(g.identity, name) {
			value = r.Header.Get(name)
			a.Identity[name] = []string{value}
		}
		if value == "" {
			a.Remove = append(a.Remove, name)
		}
	}
	for name := range sent {
		if g.Guards(name) && !slices.Contains(g.remove, http.CanonicalHeaderKey(name)) {
			a.Remove, a.Aliases = append(a.Remove, name), append(a.Aliases, name)
		}
	}
	if a.Cookie == "" {
		a.Remove = append(a.Remove, "Cookie")
	}
	return a
}

// notAsked are headers of the connection between the client and the proxy, and of a body that was not sent along.
var notAsked = []string{
	"Connection", "Content-Length", "Expect", "Http2-Settings", "Keep-Alive", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
	secretHeader,
}

// check refuses what no request can have led to.
func (q *Question) check() error {
	_, port, hasPort := strings.Cut(q.Host[strings.LastIndexByte(q.Host, ']')+1:], ":")
	n, err := strconv.Atoi(port)
	switch {
	case q.Method == "" || len(q.Method) > 32 || !httpguts.ValidHeaderFieldName(q.Method): // RFC 9110 9.1: a token
		return malformed("the method is missing or malformed")
	case q.Scheme != "http" && q.Scheme != "https":
		return malformed("the scheme is missing, or neither http nor https")
	case len(q.Host) > 255 || !hostForm.MatchString(q.Host) || hasPort && (err != nil || n == 0 || n > math.MaxUint16):
		return malformed("the host is missing or malformed")
	case q.Target == "" || q.Target[0] != '/' || len(q.Target) > maxTarget ||
		strings.ContainsFunc(q.Target, func(c rune) bool { return c <= ' ' || c == 0x7f }):
		return malformed("the path is missing or malformed")
	}
	return nil
}

// request makes the request that a question is about.
func (q *Question) request(ctx context.Context) (*http.Request, error) {
	u, err := url.ParseRequestURI(q.Target)
	if err != nil {
		return nil, malformed("the path is missing or malformed")
	}
	r := &http.Request{
		Method: q.Method, URL: u, Host: q.Host, RequestURI: q.Target, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, len(q.Header)), Body: http.NoBody,
	}
	for name, values := range q.Header {
		switch key := http.CanonicalHeaderKey(name); {
		case slices.Contains(notAsked, key):
		case r.Header[key] == nil:
			r.Header[key] = slices.Clip(values) // shared: values are replaced, never changed
		default:
			r.Header[key] = append(r.Header[key], values...)
		}
	}
	client := q.Client.Unmap().WithZone("")
	if !client.IsValid() {
		client = netip.IPv4Unspecified()
	}
	r.RemoteAddr = netip.AddrPortFrom(client, 0).String()
	if q.Scheme == "https" {
		r.TLS = &tls.ConnectionState{Version: tls.VersionTLS13, HandshakeComplete: true}
		switch leaf, err := clientcert.Parse(q.Certificate); {
		case err != nil:
			return nil, malformed("the certificate of the client is malformed, or there are several")
		case leaf != nil:
			r.TLS.PeerCertificates = []*x509.Certificate{leaf}
		}
	}
	r = caddyhttp.PrepareRequest(r.WithContext(ctx), caddy.NewReplacer(), nil, noServer)
	if !q.Client.IsValid() {
		protect.UnknownClient(r.Context())
	}
	return r, nil
}

// noServer is the server of a request that has come by way of another proxy. It trusts no one: what that proxy says of
// the client is in the question.
var noServer = new(caddyhttp.Server)

// recorder keeps the answer that protect writes for a client.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header { return r.header }

func (r *recorder) WriteHeader(status int) {
	if r.status == 0 && status >= http.StatusOK {
		r.status = status
	}
}

func (r *recorder) Write(b []byte) (int, error) {
	r.WriteHeader(http.StatusOK)
	return r.body.Write(b)
}

// refused is the answer to a client whose request may not pass. A page of the site itself, such as the one after a
// sign-out, has the status 200, which would let the request pass: own tells that it is known to be such a page.
func (r *recorder) refused(own bool) Answer {
	a := Answer{Status: r.status, Header: r.header, Body: r.body.Bytes()}
	delete(a.Header, "Connection")
	delete(a.Header, "Content-Length")
	switch {
	case own && a.Status == 0:
		a.Status = http.StatusNotFound
	case !own && a.Status < http.StatusMultipleChoices:
		a.Status = http.StatusForbidden
	}
	return a
}
