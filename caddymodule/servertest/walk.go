package servertest

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
)

// SignInPage returns the sign-in page, with its headers.
func (s *Server) SignInPage() string {
	s.T.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		s.T.Fatal(err)
	}
	resp, err := (&http.Client{Jar: jar, Transport: Patient{s.Transport}}).Get(s.Issuer() + "/sign-in") //nolint:bodyclose // Write closes it
	if err != nil {
		s.T.Fatal(err)
	}
	rec := httptest.NewRecorder()
	if err := resp.Write(rec); err != nil {
		s.T.Fatal(err)
	}
	return rec.Body.String()
}

// Walk is a whole Gatehouse: issuer, a wiki and a shop behind sign-in, an API, and an upstream that shows what it
// received.
type Walk struct {
	*Server
	Wiki, Shop string // origins
	Log        string
	Config     func() string
}

// NewWalk starts one.
func NewWalk(t *testing.T) *Walk {
	t.Helper()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		json.NewEncoder(w).Encode(map[string]any{"header": r.Header, "target": r.RequestURI}) //nolint:errcheck // to a test
	}))
	t.Cleanup(upstream.Close)
	s := NewServer(t)
	w := &Walk{Server: s, Wiki: "http://" + FreeAddr(t), Shop: "http://" + FreeAddr(t), Log: filepath.Join(s.Dir, "log")}
	s.Options = "log {\n\t\toutput file " + w.Log + "\n\t\tlevel DEBUG\n\t}"
	w.Config = func() string {
		up := strings.TrimPrefix(upstream.URL, "http://")
		return s.Caddyfile() + fmt.Sprintf(`
%s {
	log
	protect {
		login
		groups staff
	}
	reverse_proxy %s
}
%s {
	log
	handle_path /app/* {
		reverse_proxy %s
	}
	protect {
		login
		headers X-Auth-User sub
	}
}
`, w.Wiki, up, w.Shop, up)
	}
	w.Reload()
	return w
}

// Reload loads the configuration as it is now.
func (w *Walk) Reload() {
	w.T.Helper()
	raw, _, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(w.Config()), map[string]any{"filename": "Caddyfile"})
	if err != nil {
		w.T.Fatalf("adapt: %v", err)
	}
	w.plant()
	if err := caddy.Load(KeepSockets(w.T, raw), true); err != nil {
		w.T.Fatalf("load: %v", err)
	}
}

// Browser is a browser without script: it keeps cookies and follows redirects.
type Browser struct {
	T *testing.T
	*http.Client
	Hops []string
}

// NewBrowser returns a browser without cookies.
func NewBrowser(t *testing.T) *Browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	b := &Browser{T: t}
	b.Client = &http.Client{Jar: jar, Transport: Patient{&http.Transport{MaxIdleConnsPerHost: 4}}}
	b.CheckRedirect = func(r *http.Request, via []*http.Request) error {
		b.Hops = append(b.Hops, r.URL.String())
		r.Header.Del("Referer") // net/http names the redirecting URL, which no browser does
		if len(via) > 12 {
			return fmt.Errorf("round and round: %q", b.Hops)
		}
		return nil
	}
	t.Cleanup(b.CloseIdleConnections)
	return b
}

// Send sends a request and follows redirects, which Hops then has.
func (b *Browser) Send(r *http.Request, err error) (*http.Response, string) {
	b.T.Helper()
	if err != nil {
		b.T.Fatal(err)
	}
	b.Hops = nil
	r.Header.Set("Accept", "text/html")
	res, err := b.Do(r.WithContext(b.T.Context()))
	if err != nil {
		b.T.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		b.T.Fatal(err)
	}
	return res, string(body)
}

// Open opens a page.
func (b *Browser) Open(target string) (*http.Response, string) {
	b.T.Helper()
	return b.Send(http.NewRequest(http.MethodGet, target, nil)) //nolint:noctx // set in send
}

var (
	formAction = regexp.MustCompile(`<form method="post" action="([^"]+)"`)
	hidden     = regexp.MustCompile(`<input type="hidden" name="([^"]+)" value="([^"]*)"`)
)

// Submit sends the form of a page, as the page's own origin would.
func (b *Browser) Submit(page *http.Response, body string, fields url.Values) (*http.Response, string) {
	b.T.Helper()
	m := formAction.FindStringSubmatch(body)
	if m == nil {
		b.T.Fatalf("%s: status %d, no form in %s", page.Request.URL, page.StatusCode, body)
	}
	to, err := page.Request.URL.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
	if err != nil {
		b.T.Fatal(err)
	}
	_, form, _ := strings.Cut(body, m[0])
	form, _, _ = strings.Cut(form, "</form>") // others have fields of the same names
	for _, h := range hidden.FindAllStringSubmatch(form, -1) {
		fields.Set(h[1], html.UnescapeString(h[2]))
	}
	r, err := http.NewRequest(http.MethodPost, to.String(), strings.NewReader(fields.Encode())) //nolint:noctx // set in send
	if err == nil {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Origin", page.Request.URL.Scheme+"://"+page.Request.URL.Host)
	}
	return b.Send(r, err)
}

// SignIn opens a page and signs the demo person in.
func (b *Browser) SignIn(target string) (*http.Response, string) {
	b.T.Helper()
	res, body := b.Open(target)
	return b.Submit(res, body, url.Values{"username": {"demo@example.com"}, "password": {TestPassword}})
}

// Reference finds the reference of a refusal.
var Reference = regexp.MustCompile(`\b[A-Z2-7]{4}-[A-Z2-7]{4}\b`)
