// Package doctor tests a running proxy that asks Gatehouse about its requests. It sends requests through the proxy,
// records which of them reach the application, and reports those that should have been stopped.
package doctor

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Options say what is probed.
type Options struct {
	Proxy  string // one of Proxies: the fixes are for it
	URL    string // of a protected page, as browsers see it
	Public string // path of a page that needs no credential, or would be taken for one
	Listen string // where the recording upstream listens, in place of the application
	// Token is a valid access token. Empty: what depends on one is skipped.
	Token string
	// Headers are the names of the identity headers. Empty: the default ones.
	Headers []string
	// Connect is the address of the proxy. Empty: that of the URL.
	Connect  string
	Insecure bool // whatever the certificate of the proxy is
	// Down says that Gatehouse has been stopped: nothing at all may arrive.
	Down bool
	// Live says that the application stays where it is. Nothing is recorded: requests that must be refused are sent, by
	// methods that change nothing, and the answers show what may have got past.
	Live bool
	Wait time.Duration // for one answer

	listening func(address string) // for tests: where the upstream listens
}

// Proxies are the proxies that there are fixes for.
var Proxies = []string{"nginx", "ingress-nginx", "traefik", "caddy", "haproxy", "envoy", Protect}

// Protect stands for a site of Gatehouse itself, which no other proxy serves.
const Protect = "protect"

// Verdicts of a probe.
const (
	OK      = "ok"
	Failed  = "failed"
	Warning = "warning"
	Skipped = "skipped"
)

// Result is the result of one probe.
type Result struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"`
	What    string `json:"what"`             // what happened
	Fix     string `json:"fix,omitempty"`    // what to do about it
	Status  int    `json:"status,omitempty"` // of the proxy's answer. 0: there was none
}

// Report are the results of all probes.
type Report struct {
	Proxy    string   `json:"proxy"`
	URL      string   `json:"url"`
	Probes   []Result `json:"probes"`
	Failed   int      `json:"failed"`
	Warnings int      `json:"warnings"`
	Skipped  int      `json:"skipped"`
}

// examination is one run.
type examination struct {
	Options

	address string // of the proxy
	tls     bool
	host    string // of the Host header
	path    string
	marker  string    // is in every made-up value
	up      *upstream // nil: the application stays

	seenWith *received // the request with the token alone
	usual    reply     // to the page, with nothing made up
}

// Run sends the probes, one after the other. An error means that they could not be sent.
func Run(ctx context.Context, o Options) (Report, error) {
	e := &examination{Options: o}
	if err := e.setUp(); err != nil {
		return Report{}, err
	}
	if !o.Live {
		var err error
		if e.up, err = record(ctx, o.Listen); err != nil {
			return Report{}, fmt.Errorf("the recording upstream: %w: stop the application, or choose another address that the proxy passes requests to", err)
		}
		defer e.up.close()
		if o.listening != nil {
			o.listening(e.up.address())
		}
	}
	out := Report{Proxy: o.Proxy, URL: o.URL}
	for _, p := range e.probes() {
		r, err := e.run(ctx, p)
		if err != nil {
			return Report{}, fmt.Errorf("%s: %w", p.name, err)
		}
		switch r.Verdict {
		case Failed:
			out.Failed++
		case Warning:
			out.Warnings++
		case Skipped:
			out.Skipped++
		}
		if r.Verdict == Failed || r.Verdict == Warning {
			r.Fix = fixOf(o.Proxy, p.kind)
		}
		out.Probes = append(out.Probes, r)
	}
	return out, nil
}

func (e *examination) setUp() error {
	u, err := url.Parse(e.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return fmt.Errorf("%q is not the address of a page, such as https://wiki.example.com/", e.URL)
	}
	if !slices.Contains(Proxies, e.Proxy) {
		return fmt.Errorf("unknown proxy %q: known are %s", e.Proxy, strings.Join(Proxies, ", "))
	}
	if !strings.HasPrefix(e.Public, "/") || strings.ContainsAny(e.Public, " ?#\r\n") {
		return fmt.Errorf("%q is not a path, such as /healthz", e.Public)
	}
	for _, text := range append([]string{e.Token}, e.Headers...) {
		if strings.ContainsAny(text, " \r\n\t:") {
			return errors.New("a token and names of headers have no spaces and no line ends")
		}
	}
	if e.Live && e.Down {
		return errors.New("choose one of live and down: what is down lets no one in, and is probed with a recording upstream")
	}
	e.tls, e.host, e.path = u.Scheme == "https", u.Host, u.EscapedPath()
	if e.path == "" {
		e.path = "/"
	}
	e.address = e.Connect
	if e.address == "" {
		port := u.Port()
		if port == "" {
			port = map[bool]string{false: "80", true: "443"}[e.tls]
		}
		e.address = net.JoinHostPort(u.Hostname(), port)
	}
	if len(e.Headers) == 0 {
		e.Headers = []string{"Remote-User", "Remote-Name", "Remote-Email", "Remote-Groups", "Remote-Assertion"}
	}
	var b [8]byte
	if _, err := rand.Read(b[:]); err != nil {
		return err
	}
	e.marker = "made-up-" + hex.EncodeToString(b[:])
	return nil
}

// run sends one probe and judges what arrived.
func (e *examination) run(ctx context.Context, p probe) (Result, error) {
	r := Result{Name: p.name}
	if p.token && e.Token == "" {
		r.Verdict, r.What = Skipped, "there is no token"
		return r, nil
	}
	if p.expects == strips && e.seenWith == nil {
		r.Verdict, r.What = Skipped, "a request with the token alone does not pass"
		return r, nil
	}
	answer, err := e.send(ctx, p)
	if err != nil {
		return r, err
	}
	if r.Status = answer.status; e.Live {
		if p.first {
			e.usual = answer
		}
		r.Verdict, r.What = e.judgeLive(p, answer)
		return r, nil
	}
	seen := e.up.take(e.id(p))
	r.Verdict, r.What = e.judge(p, answer.status, seen)
	if p.expects == passes && r.Verdict == OK {
		e.seenWith = seen
	}
	return r, nil
}

func (e *examination) id(p probe) string { return e.marker + "-" + hex.EncodeToString([]byte(p.name)) }

// judge tells what it means that a request has arrived, or not.
func (e *examination) judge(p probe, status int, seen *received) (verdict, what string) {
	refused := "refused with " + fmt.Sprint(status)
	if status == 0 {
		refused = "refused without an answer"
	}
	switch {
	case p.expects == passes && seen == nil:
		return Failed, fmt.Sprintf("it did not arrive at %s, and the proxy answered %d", e.up.address(), status)
	case p.expects == passes:
		return OK, "it arrived with " + seen.identity(e.Headers)
	case seen == nil && p.first && status < 300:
		return Failed, fmt.Sprintf("the proxy answered %d, and nothing arrived at %s: is it the address that the proxy passes requests to?",
			status, e.up.address())
	case seen == nil && p.first && status >= 500 && !e.Down:
		return Warning, fmt.Sprintf("refused with %d, which is no answer that a person can use", status)
	case seen == nil:
		return OK, refused
	case p.expects == refuses:
		return Failed, "it arrived at the application as " + seen.line
	}
	if name := seen.carries(e.marker, p.names); name != "" {
		verdict = Failed
		if p.mild {
			verdict = Warning
		}
		return verdict, name + " arrived at the application with the value that the client made up"
	}
	for _, name := range e.Headers {
		if e.seenWith.value(name) != "" && seen.value(name) == "" {
			return Failed, name + " did not arrive: a client can have the identity taken out"
		}
	}
	return OK, "stripped"
}

// reply is the response of the proxy. Status 0: it has closed the connection.
type reply struct {
	status   int
	location string
}

// send sends a probe byte for byte.
func (e *examination) send(ctx context.Context, p probe) (out reply, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.Wait)
	defer cancel()
	var conn net.Conn
	if e.tls {
		name, _, splitErr := net.SplitHostPort(e.host)
		if splitErr != nil {
			name = e.host
		}
		d := &tls.Dialer{Config: &tls.Config{ //nolint:gosec // the operator's choice
			MinVersion: tls.VersionTLS12, ServerName: name, InsecureSkipVerify: e.Insecure,
			NextProtos: []string{"http/1.1"},
		}}
		conn, err = d.DialContext(ctx, "tcp", e.address)
	} else {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", e.address)
	}
	if err != nil {
		return out, fmt.Errorf("the proxy: %w", err)
	}
	defer conn.Close()                                      //nolint:errcheck // only read from
	stop := context.AfterFunc(ctx, func() { conn.Close() }) //nolint:errcheck // to end the read below
	defer stop()

	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s HTTP/1.1\r\nHost: %s\r\n%s: %s\r\nAccept: application/json\r\n", p.method, p.target, e.host, markHeader, e.id(p))
	if p.token {
		fmt.Fprintf(&b, "Authorization: Bearer %s\r\n", e.Token)
	}
	if !slices.ContainsFunc(p.header, func(line string) bool { return strings.HasPrefix(line, "Connection:") }) {
		b.WriteString("Connection: close\r\n")
	}
	for _, line := range p.header {
		b.WriteString(line + "\r\n")
	}
	b.WriteString("\r\n")
	if _, err := conn.Write(b.Bytes()); err != nil && ctx.Err() != nil {
		return out, fmt.Errorf("no answer within %v", e.Wait)
	}
	from := &io.LimitedReader{R: conn, N: maxHead} // the application may be hostile, and the console's doctor runs in the server
	res, err := http.ReadResponse(bufio.NewReader(from), &http.Request{Method: p.method})
	if err != nil {
		switch {
		case ctx.Err() != nil:
			return out, fmt.Errorf("no answer within %v", e.Wait)
		case from.N <= 0:
			return out, fmt.Errorf("the head of the answer has more than %d KiB", maxHead>>10)
		}
		return out, nil // closed: a way to refuse
	}
	res.Body.Close() //nolint:errcheck // not read
	return reply{res.StatusCode, res.Header.Get("Location")}, nil
}
