// Package explain evaluates a hypothetical request: which protect handlers it reaches, which rules match, and which one
// decides. The request passes through Caddy's routes and through protect like any other, without the handlers that
// would answer it.
package explain

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-id/gatehouse/caddymodule/protect"
)

// Request is a request that no one has made.
type Request struct {
	URL     string      `json:"url"`
	Method  string      `json:"method,omitempty"` // Default: GET
	IP      string      `json:"ip,omitempty"`     // Default: 192.0.2.1, which belongs to no machine
	Headers http.Header `json:"headers,omitempty"`
	Gate    string      `json:"gate,omitempty"` // a forward_auth or policy that another proxy names. Default: that of the URL
}

// DefaultIP is the address of a request that names none. (RFC 5737)
const DefaultIP = "192.0.2.1"

// Answer is the outcome of the request.
type Answer struct {
	Verdict protect.Verdict `json:"verdict"`
	// Steps are the protects on the way, of which the last one decides.
	Steps []protect.Rehearsal `json:"steps"`
	// Gate is the forward_auth or policy that decides, for a site that another proxy serves.
	Gate string `json:"gate,omitempty"`
	// Handler would serve the request after that. Empty: none, or it does not get there.
	Handler string `json:"handler,omitempty"`
	Caller  *Facts `json:"caller,omitempty"`
	// Status, Challenge, Error and Message are what the client would see of a request that is kept.
	Status    int      `json:"status,omitempty"`
	Challenge string   `json:"challenge,omitempty"`
	Error     string   `json:"error,omitempty"`
	Message   string   `json:"message,omitempty"`
	Notes     []string `json:"notes,omitempty"`
}

// Facts are the known facts about the caller.
type Facts struct {
	Username string   `json:"username,omitempty"`
	PersonID string   `json:"person_id,omitempty"`
	ClientID string   `json:"client_id,omitempty"`
	Groups   []string `json:"groups,omitempty"`
	Scopes   []string `json:"scopes,omitempty"`
	Level    int      `json:"level,omitempty"`
	// Assurance is the identity assurance level of the person.
	Assurance int    `json:"assurance,omitempty"`
	SignedIn  string `json:"signed_in,omitempty"` // how long ago
	Provider  string `json:"provider,omitempty"`
	By        string `json:"by"` // session or token
}

// factsOf returns the known facts about a caller. nil: a stranger.
func factsOf(c protect.Caller) *Facts {
	who := c.Who
	if who == nil || !who.Active {
		return nil
	}
	f := &Facts{ClientID: who.ClientID, Scopes: who.Scope, Level: who.Level, Provider: who.Provider, By: "token"}
	if c.Browser {
		f.By = "session"
	}
	if !who.AuthTime.IsZero() {
		f.SignedIn = c.Now.Sub(who.AuthTime).Round(time.Second).String()
	}
	if who.Person != nil {
		f.Username, f.PersonID, f.Groups, f.Assurance = who.Person.Username, who.Person.ID, who.Person.Groups, who.Assurance(c.Now)
	}
	return f
}

type journeyKey struct{}

// journey is a request on its way through the routes.
type journey struct {
	caller protect.Caller
	steps  []protect.Rehearsal
	end    string // the handler that it reached
}

// BadRequest is an error of what is asked, whose text is for the one who asks.
type BadRequest struct{ Err error }

func (e BadRequest) Error() string { return e.Err.Error() }

// Unwrap returns the error itself.
func (e BadRequest) Unwrap() error { return e.Err }

func badf(format string, args ...any) error { return BadRequest{fmt.Errorf(format, args...)} }

// ErrNoSite is the error of a request that no site serves.
var ErrNoSite = errors.New("no site of the configuration answers")

// Ask tells what a request gets.
func (s *Routes) Ask(ctx context.Context, q Request, c protect.Caller) (*Answer, error) {
	r, port, err := q.build(ctx, c)
	if err != nil {
		return nil, err
	}
	var first *Answer
	for _, srv := range s.servers {
		if port != "" && !slices.Contains(srv.ports, port) {
			continue
		}
		a, err := srv.ask(r, c)
		if err != nil {
			return nil, err
		}
		if len(a.Steps) > 0 || a.Handler != "" {
			return a, nil
		}
		first = a
	}
	if first == nil && port != "" && len(s.servers) > 0 { // a port that is mapped to ours outside
		for _, srv := range s.servers {
			if a, err := srv.ask(r, c); err != nil || len(a.Steps) > 0 || a.Handler != "" {
				return a, err
			}
		}
	}
	return nil, BadRequest{fmt.Errorf("%w %s", ErrNoSite, q.URL)}
}

// ask sends a request through the routes of one server.
func (s *server) ask(r *http.Request, c protect.Caller) (*Answer, error) {
	j := &journey{caller: c, steps: []protect.Rehearsal{}}
	r = r.Clone(context.WithValue(r.Context(), journeyKey{}, j))
	w := &paper{header: http.Header{}}
	r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), w, s.Server)
	err := s.chain.ServeHTTP(w, r)
	a := &Answer{Steps: j.steps, Handler: j.end, Caller: factsOf(c), Verdict: protect.Open}
	if err != nil {
		status := caddyhttp.HandlerError{}
		if !errors.As(err, &status) {
			return nil, err
		}
		a.Notes = append(a.Notes, fmt.Sprintf("Caddy would answer %d: %v", status.StatusCode, err))
	}
	for _, step := range j.steps {
		if a.Verdict = step.Verdict; step.Verdict != protect.Open && step.Verdict != protect.Allow {
			break
		}
	}
	if n := len(j.steps); n == 0 {
		a.Notes = append(a.Notes, "no protect stands on the way of this request")
	} else if w.status != 0 && j.end == "" {
		a.Status, a.Challenge, a.Message = w.status, w.header.Get("WWW-Authenticate"), j.steps[n-1].Message
		var body struct {
			Error       string `json:"error"`
			Description string `json:"error_description"`
		}
		if json.Unmarshal(w.body.Bytes(), &body) == nil {
			a.Error = body.Error
		}
	}
	return a, nil
}

// build makes the request as a server would have read it. port is that of its URL if it names one.
func (q Request) build(ctx context.Context, c protect.Caller) (r *http.Request, port string, err error) {
	u, err := url.Parse(q.URL)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.User != nil {
		return nil, "", badf("url: want the whole address, such as https://wiki.example.com/admin, not %q", q.URL)
	}
	method := strings.ToUpper(q.Method)
	if method == "" {
		method = http.MethodGet
	}
	if !httpguts.ValidHeaderFieldName(method) {
		return nil, "", badf("method: %q is not an HTTP method", q.Method)
	}
	ip := q.IP
	if ip == "" {
		ip = DefaultIP
	}
	if _, err := netip.ParseAddr(ip); err != nil {
		return nil, "", badf("ip: want an address such as 203.0.113.7, not %q", q.IP)
	}
	target := q.URL[len(u.Scheme)+len("://"):] // byte for byte, as a client sends it
	if i := strings.IndexAny(target, "/?#"); i < 0 {
		target = "/"
	} else if target = target[i:]; target[0] != '/' {
		target = "/" + target
	}
	target, _, _ = strings.Cut(target, "#") // no browser sends that
	r, err = http.NewRequestWithContext(ctx, method, target, http.NoBody)
	if err != nil {
		return nil, "", badf("url: %w", err)
	}
	if r.URL, err = url.ParseRequestURI(target); err != nil {
		return nil, "", badf("url: %w", err)
	}
	r.Host, r.RequestURI, r.RemoteAddr = u.Host, target, net.JoinHostPort(ip, "1")
	if u.Scheme == "https" {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true, ServerName: u.Hostname()}
	}
	for name, values := range q.Headers {
		if !httpguts.ValidHeaderFieldName(name) ||
			slices.ContainsFunc(values, func(v string) bool { return !httpguts.ValidHeaderFieldValue(v) }) {
			return nil, "", badf("header: %q cannot be sent", name)
		}
		if http.CanonicalHeaderKey(name) == "Host" {
			return nil, "", badf("header: the host is that of the url")
		}
		r.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	if len(r.Header["Accept"]) == 0 && len(r.Header["Sec-Fetch-Mode"]) == 0 && (c.Browser || c.Who == nil) {
		r.Header.Set("Accept", "text/html") // a person who opens a page
	}
	if port = u.Port(); port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return r, port, nil
}

// paper is an answer that no one reads but this package.
type paper struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (p *paper) Header() http.Header { return p.header }

func (p *paper) WriteHeader(status int) {
	if p.status == 0 {
		p.status = status
	}
}

func (p *paper) Write(b []byte) (int, error) {
	p.WriteHeader(http.StatusOK)
	if p.body.Len() > 64<<10 {
		return len(b), nil
	}
	return p.body.Write(b)
}

// Gate is the decision maker for a site that another proxy serves.
type Gate struct {
	Name string // of its forward_auth or policy
	*protect.Protect
}

// AskGate tells what a gate says of a request that another proxy asks about.
func AskGate(ctx context.Context, g Gate, q Request, c protect.Caller) (*Answer, error) {
	r, _, err := q.build(ctx, c)
	if err != nil {
		return nil, err
	}
	end := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return wall{"the other proxy"}.ServeHTTP(w, r, nil)
	})
	s := server{Server: new(caddyhttp.Server), chain: caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		return gate{g.Protect}.ServeHTTP(w, r, end)
	})}
	a, err := s.ask(r, c)
	if err != nil {
		return nil, err
	}
	a.Gate = g.Name
	a.Notes = append(a.Notes, fmt.Sprintf("no site here serves %s: another proxy does, and asks %s about each request", r.Host, g.Name))
	if a.Status >= http.StatusMultipleChoices && a.Status < http.StatusBadRequest {
		a.Notes = append(a.Notes, fmt.Sprintf("a proxy with the profile nginx gets 401 in place of %d, and makes the redirect itself", a.Status))
	}
	return a, nil
}
