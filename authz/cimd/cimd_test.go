package cimd_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/cimd"
	"github.com/gatehouse-id/gatehouse/authz/oauth"
	"github.com/gatehouse-id/gatehouse/internal/outbound"
	"github.com/gatehouse-id/gatehouse/internal/outbound/outboundtest"
)

const id = "https://app.example/client.json"

// host answers as every host of documents.
type host struct {
	mu     sync.Mutex // guards all below
	status int
	header http.Header
	body   string
	asked  int
	hold   chan struct{} // an answer waits for it. nil: none does
	began  chan struct{} // told of each request, if it is not nil
}

func (h *host) RoundTrip(r *http.Request) (*http.Response, error) {
	h.mu.Lock()
	h.asked++
	res := &http.Response{
		StatusCode: h.status, Header: h.header.Clone(), Body: io.NopCloser(strings.NewReader(h.body)),
		ContentLength: -1, Request: r,
	}
	hold, began := h.hold, h.began
	h.mu.Unlock()
	if began != nil {
		began <- struct{}{}
	}
	if hold != nil {
		<-hold
	}
	return res, nil
}

func (h *host) set(change func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change()
}

func (h *host) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

func doc(more string) string {
	return `{"client_id":"` + id +
		`","client_name":"An app","redirect_uris":["http://localhost/callback"],"token_endpoint_auth_method":"none"` + more + `}`
}

func newHost(body string) *host {
	return &host{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, body: body}
}

// clock stands still until a test moves it.
type clock struct{ at atomic.Int64 }

func (c *clock) now() time.Time { return time.Unix(2_000_000_000+c.at.Load(), 0) }

func documents(h http.RoundTripper, c *clock, change ...func(*cimd.Config)) *cimd.Documents {
	cfg := cimd.Config{On: true}
	for _, f := range change {
		f(&cfg)
	}
	return cimd.New(cfg, &http.Client{
		Transport:     h,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, c.now)
}

func asking(t *testing.T, from string) context.Context {
	return cimd.Asking(t.Context(), from, false)
}

// The rules for addresses.
func TestAddressesOfDocuments(t *testing.T) {
	t.Parallel()
	d := documents(newHost(""), new(clock))
	for text, want := range map[string]bool{
		id: true, "https://claude.ai/oauth/claude-code-client-metadata": true, "https://app.example:8443/c": true,
		"https://app.example/c?v=2": true, "https://app.example/": false,
		"https://app.example/c/": true, "http://app.example/c": false, "https://app.example": false, "https://app.example/a/../c": false,
		"https://app.example/./c":      false,
		"https://app.example/%2e%2e/c": false, "https://app.example/.%2E/c": false, "https://app.example/c#x": false,
		"https://app.example/c#":     false,
		"https://user@app.example/c": false, "https://user:pw@app.example/c": false, "https://@app.example/c": false, "https:///c": false,
		"https:app.example/c":   false,
		"HTTPS://app.example/c": false, "https://APP.example/c": false, "https://app.example./c": false, "https://app.example:/c": false,
		"https://app.example\\@other.example/c": false,
		"https://app.example/c d":               false, "https://app.example/\x7fc": false, "https://äpp.example/c": false,
		"https://app.example/ä":   false,
		"https://app%2eexample/c": false,
		"ftp://app.example/c":     false, "javascript:alert(1)": false, "https://app.example/" + strings.Repeat("c", 128): false,
		"": false, "shop": false,
	} {
		if got := d.Takes(text); got != want {
			t.Errorf("Takes(%q) = %t, want %t", text, got, want)
		}
	}
}

// The rules for documents. What breaks one is refused, and what real clients publish is not.
func TestDocumentRules(t *testing.T) {
	t.Parallel()
	key := `{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","kid":"1"}`
	private := strings.Replace(key, `"kid"`, `"d":"jpsQnnGQmL-YBIffH1136cspYG6-0iY7X1fCE9-E9LI","kid"`, 1)
	with := func(change func(*host)) func(*host) { return change }
	body := func(text string) func(*host) { return func(h *host) { h.body = text } }
	keys := func(more string) string {
		return strings.Replace(doc(more), `"none"`, `"private_key_jwt"`, 1)
	}
	for name, tt := range map[string]struct {
		change func(*host)
		want   string // of the error; empty: it is good
	}{
		"good":                    {body(doc("")), ""},
		"unknown members":         {body(doc(`,"application_type":"native","x":{"y":[1]}`)), ""},
		"20 KB":                   {body(doc(`,"x":"` + strings.Repeat("x", 20<<10) + `"`)), ""},
		"without a method":        {body(strings.Replace(doc(""), `,"token_endpoint_auth_method":"none"`, "", 1)), ""},
		"application/…+json":      {with(func(h *host) { h.header.Set("Content-Type", "application/cimd+json; charset=utf-8") }), ""},
		"keys":                    {body(keys(`,"jwks":{"keys":[` + key + `]}`)), ""},
		"keys at the same host":   {body(keys(`,"jwks_uri":"https://app.example/keys.json"`)), ""},
		"one redirect URI of two": {body(strings.Replace(doc(""), `["`, `["http://app.example/","`, 1)), ""},
		"Cursor":                  {body(strings.Replace(doc(""), `["`, `["cursor://anysphere.cursor-mcp/oauth/callback","`, 1)), ""},
		"another client_id":       {body(strings.Replace(doc(""), "client.json", "client.jsoN", 1)), "its client_id is not its address"},
		"no client_id":            {body(`{"redirect_uris":["https://app.example/cb"]}`), "its client_id is not its address"},
		"a secret":                {body(doc(`,"client_secret":"x"`)), "it has a secret"},
		"an empty secret":         {body(doc(`,"client_secret":""`)), "it has a secret"},
		"the end of a secret":     {body(doc(`,"client_secret_expires_at":0`)), "it has a secret"},
		"client_secret_basic":     {body(strings.Replace(doc(""), `"none"`, `"client_secret_basic"`, 1)), "token_endpoint_auth_method"},
		"client_secret_post":      {body(strings.Replace(doc(""), `"none"`, `"client_secret_post"`, 1)), "token_endpoint_auth_method"},
		"client_secret_jwt":       {body(strings.Replace(doc(""), `"none"`, `"client_secret_jwt"`, 1)), "token_endpoint_auth_method"},
		"a private key":           {body(keys(`,"jwks":{"keys":[` + private + `]}`)), "private or symmetric"},
		"a symmetric key": {
			body(keys(`,"jwks":{"keys":[{"kty":"oct","k":"AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ"}]}`)),
			"private or symmetric",
		},
		"keys at another host": {body(keys(`,"jwks_uri":"https://other.example/keys.json"`)), "not at the same host"},
		"keys by http":         {body(keys(`,"jwks_uri":"http://app.example/keys.json"`)), "not at the same host"},
		"no keys":              {body(keys("")), "jwks"},
		"no redirect URI":      {body(strings.Replace(doc(""), "http://localhost/callback", "", 1)), "no redirect URI"},
		"a redirect URI that runs": {
			body(strings.Replace(doc(""), "http://localhost/callback", "javascript:alert(1)", 1)),
			"no redirect URI",
		},
		"a redirect URI of another scheme": {
			body(strings.Replace(doc(""), "http://localhost/callback", "other://callback", 1)),
			"no redirect URI",
		},
		"another grant":                 {body(doc(`,"grant_types":["client_credentials"]`)), "grant_types"},
		"another response type":         {body(doc(`,"response_types":["token"]`)), "response_types"},
		"a name that turns writing":     {body(strings.Replace(doc(""), "An app", "Mail \u202eknaB", 1)), "turns the direction"},
		"a name that turns it, escaped": {body(strings.Replace(doc(""), "An app", `\u2067knaB\u2069`, 1)), "turns the direction"},
		"an array":                      {body(`[` + doc("") + `]`), "not a JSON object"},
		"no JSON":                       {body("active"), "not a JSON object"},
		"null":                          {body("null"), "not a JSON object"},
		"HTML": {
			with(func(h *host) { h.header.Set("Content-Type", "text/html") }),
			"an HTML page, not a client metadata document",
		},
		"HTML as JSON": {body("<!DOCTYPE html><title>Sign in</title>"), "an HTML page, not a client metadata document"},
		"text":         {with(func(h *host) { h.header.Set("Content-Type", "text/plain") }), "Content-Type"},
		"no type":      {with(func(h *host) { h.header.Del("Content-Type") }), "Content-Type"},
		"too large":    {body(doc(`,"x":"` + strings.Repeat("x", 64<<10) + `"`)), "larger than"},
		"301": {
			with(func(h *host) { h.status = 301; h.header.Set("Location", "https://other.example/") }),
			"301 in place of 200",
		},
		"302": {
			with(func(h *host) { h.status = 302; h.header.Set("Location", "https://127.0.0.1/") }),
			"302 in place of 200",
		},
		"201": {with(func(h *host) { h.status = 201 }), "201 in place of 200"},
		"204": {with(func(h *host) { h.status = 204; h.body = "" }), "204 in place of 200"},
		"404": {with(func(h *host) { h.status = 404 }), "404 in place of 200"},
		"500": {with(func(h *host) { h.status = 500 }), "its host answers 500"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(doc(""))
			tt.change(h)
			d := documents(h, new(clock))
			found, err := d.Find(asking(t, "192.0.2.1"), id)
			switch {
			case tt.want == "" && (err != nil || found.Client.ID != id || found.Client.Name != "An app" || len(found.Client.RedirectURIs) == 0):
				t.Errorf("Find = %+v, %v, want the client", found, err)
			case tt.want != "" && (err == nil || !strings.Contains(errors.Unwrap(err).Error(), tt.want)):
				t.Errorf("Find = %v, %v, want an error with %q", found, err, tt.want)
			}
			if _, again := d.Find(asking(t, "192.0.2.1"), id); (again == nil) != (err == nil) || h.count() != 1 {
				t.Errorf("asked again: %v, %d fetches, want what was remembered", again, h.count())
			}
		})
	}
}

// A document is fetched again when its own headers say so, within bounds. A failure is remembered for half a minute,
// and the last good document refreshes tokens for a day.
func TestDocumentsAreRemembered(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		header, value string
		good, over    time.Duration
	}{
		{"Cache-Control", "max-age=7200", 7199 * time.Second, 7201 * time.Second},
		{"Cache-Control", "no-store", 59 * time.Minute, 61 * time.Minute},
		{"Cache-Control", "max-age=5", 59 * time.Minute, 61 * time.Minute},
		{"Cache-Control", "public, max-age=31536000", 23 * time.Hour, 25 * time.Hour},
		{"Expires", time.Unix(2_000_000_000+3*3600, 0).UTC().Format(http.TimeFormat), 179 * time.Minute, 181 * time.Minute},
		{"X-Nothing", "", 59 * time.Minute, 61 * time.Minute},
	} {
		h, c := newHost(doc("")), new(clock)
		h.header.Set(tt.header, tt.value)
		d := documents(h, c)
		for i, at := range []time.Duration{0, tt.good, tt.over} {
			c.at.Store(int64(at / time.Second))
			if _, err := d.Find(asking(t, "192.0.2.1"), id); err != nil || h.count() != 1+i/2 {
				t.Errorf("%s: %s after %v: %v, %d fetches", tt.header, tt.value, at, err, h.count())
			}
		}
	}

	h, c := newHost(doc("")), new(clock)
	d := documents(h, c)
	if _, err := d.Find(t.Context(), id); !errors.Is(err, cimd.ErrUnknown) || h.count() != 0 {
		t.Errorf("without anybody who asks: %v, %d fetches, want none", err, h.count())
	}
	if _, err := d.Find(asking(t, "192.0.2.1"), id); err != nil {
		t.Fatal(err)
	}
	h.set(func() { h.status = http.StatusBadGateway })
	c.at.Store(2 * 3600)
	if _, err := d.Find(asking(t, "192.0.2.1"), id); oauth.AsError(err).Status != http.StatusServiceUnavailable {
		t.Errorf("past its time, the host away: %v, want 503", err)
	}
	refresh := cimd.Asking(t.Context(), "192.0.2.1", true)
	if _, err := d.Find(refresh, id); err != nil || h.count() != 2 {
		t.Errorf("to refresh tokens: %v, %d fetches, want the last good document without a fetch", err, h.count())
	}
	c.at.Store(2*3600 + 31)
	if _, err := d.Find(refresh, id); err != nil || h.count() != 3 {
		t.Errorf("half a minute later: %v, %d fetches, want one more", err, h.count())
	}
	c.at.Store(26 * 3600)
	if _, err := d.Find(refresh, id); err == nil {
		t.Error("a document of more than a day past its time refreshes tokens")
	}
}

// No one can make us fetch at will: ten times a minute for one address, once at a time for one client, sixteen at a
// time for all, and what is remembered is bounded.
func TestFetchesAreBounded(t *testing.T) {
	t.Parallel()
	h, c := newHost(doc("")), new(clock)
	d := documents(h, c, func(cfg *cimd.Config) { cfg.Clients = 3 })
	other := func(n int) string { return fmt.Sprintf("https://app.example/%d.json", n) }
	for n := range 15 {
		d.Find(asking(t, "192.0.2.1"), other(n)) //nolint:errcheck // counted below
	}
	if h.count() != 10 {
		t.Errorf("15 requests of one address caused %d fetches, want 10", h.count())
	}
	if _, err := d.Find(asking(t, "192.0.2.2"), id); err != nil || h.count() != 11 {
		t.Errorf("another address: %v, %d fetches", err, h.count())
	}

	hold := make(chan struct{})
	h = newHost(doc(""))
	h.hold, h.began = hold, make(chan struct{}, 100)
	d = documents(h, c)
	answers := make(chan error, 100)
	ask := func(n int, which string) {
		go func() {
			_, err := d.Find(asking(t, fmt.Sprintf("192.0.2.%d", n)), which)
			answers <- err
		}()
	}
	ask(0, id)
	<-h.began
	for n := range 29 {
		ask(1+n, id)
		ask(100+n, other(n))
	}
	for range 29 - 15 { // one of sixteen is for id
		if err := <-answers; oauth.AsError(err).Status != http.StatusServiceUnavailable {
			t.Errorf("a seventeenth fetch at a time: %v, want 503", err)
		}
	}
	close(hold)
	good := 0
	for range 30 + 15 {
		if err := <-answers; err == nil {
			good++
		}
	}
	if good != 30 || h.count() != 16 {
		t.Errorf("%d of 30 requests for one client were answered, by %d fetches for all", good, h.count())
	}
}

// attack: a client id that leads into the network behind the server. None makes a connection that is not allowed.
func TestHostileAddresses(t *testing.T) {
	t.Parallel()
	port, met := outboundtest.Inside(t)
	d := cimd.New(cimd.Config{On: true}, outbound.New(false), time.Now)
	n := 0
	for _, address := range outboundtest.Hosts {
		which := "https://" + address + ":" + port + "/client.json"
		if n++; !d.Takes(which) {
			continue
		}
		if _, err := d.Find(asking(t, fmt.Sprint(n)), which); err == nil {
			t.Errorf("%s was fetched", which)
		}
	}
	if n < 40 || met() != 0 {
		t.Errorf("%d addresses made %d connections, want none", n, met())
	}
}

// attack: a host that is allowed and answers with a redirect, without end, or never. Nothing else is connected to, and
// the request ends.
func TestHostileHosts(t *testing.T) {
	t.Parallel()
	var met atomic.Int64
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { met.Add(1) }))
	t.Cleanup(inside.Close)
	var body atomic.Int64
	answer := map[string]http.HandlerFunc{
		"/redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, inside.URL, http.StatusFound) },
		"/308": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, inside.URL, http.StatusPermanentRedirect)
		},
		"/refresh": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Refresh", "0; url="+inside.URL) },
		"/endless": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for {
				n, err := w.Write([]byte(strings.Repeat(" ", 4096)))
				if body.Add(int64(n)); err != nil {
					return
				}
			}
		},
		"/packed": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Encoding", "gzip")
			w.Write([]byte("\x1f\x8b")) //nolint:errcheck // to a test
		},
		"/never":  func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"/header": func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X", strings.Repeat("x", 1<<20)) },
		"/half": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte("{"))                  //nolint:errcheck // to a test
			http.NewResponseController(w).Flush() //nolint:errcheck // the same
			<-r.Context().Done()
		},
	}
	hostile := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answer[r.URL.Path](w, r) }))
	t.Cleanup(hostile.Close)
	c := outbound.New(false, netip.MustParsePrefix("127.0.0.0/8"))
	transport, ok := c.Transport.(*http.Transport)
	if !ok {
		t.Fatal("the outgoing client has another transport")
	}
	transport.TLSClientConfig = &tls.Config{RootCAs: hostile.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	d := cimd.New(cimd.Config{On: true, Timeout: 200 * time.Millisecond}, c, time.Now)
	for path := range answer {
		if _, err := d.Find(asking(t, path), hostile.URL+path); err == nil {
			t.Errorf("%s was accepted", path)
		}
	}
	if met.Load() != 0 || body.Load() > 32<<20 {
		t.Errorf("%d requests followed a redirect, %d bytes were read of an endless answer", met.Load(), body.Load())
	}
}
