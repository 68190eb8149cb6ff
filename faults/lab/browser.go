package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"maps"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Browser keeps cookies and follows as many redirects as it is told to.
type Browser struct {
	Server *Server
	HTTP   *http.Client
	Person string      // the person who signs in. Default: Username
	Header http.Header // of all its requests, in addition
}

// NewBrowser returns a browser without cookies that keeps its connections.
func (s *Server) NewBrowser() *Browser {
	jar, _ := cookiejar.New(nil) // never fails
	c := NewHTTP(s.Address)
	c.Jar = jar
	return &Browser{Server: s, HTTP: c}
}

// NewBrowserFrom is NewBrowser at another address of this machine.
func (s *Server) NewBrowserFrom(address net.IP) *Browser {
	b := s.NewBrowser()
	jar := b.HTTP.Jar
	b.HTTP = newHTTP(s.Address, &net.TCPAddr{IP: address})
	b.HTTP.Jar = jar
	return b
}

// At returns the same browser, with the same cookies, as it talks to another server.
func (b *Browser) At(s *Server) *Browser {
	o := s.NewBrowser()
	o.HTTP.Jar, o.Person = b.HTTP.Jar, b.Person
	return o
}

// Forget closes the kept connections. The cookies stay.
func (b *Browser) Forget() { b.HTTP.CloseIdleConnections() }

func (b *Browser) navigate(ctx context.Context, method, target, from string, form url.Values) (Answer, string) {
	var body strings.Reader
	if form != nil {
		body = *strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, target, &body)
	if err != nil {
		return Answer{Err: err}, ""
	}
	site := "none"
	if from != "" {
		site = "same-origin"
		if u, err := url.Parse(from); err == nil && u.Host != req.URL.Host {
			site = "same-site"
		}
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Sec-Fetch-Site", site)
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", req.URL.Scheme+"://"+req.URL.Host)
	}
	maps.Copy(req.Header, b.Header)
	a := b.Server.do(b.HTTP, req)
	next := ""
	if a.Status >= 300 && a.Status < 400 {
		if u, err := req.URL.Parse(a.Header.Get("Location")); err == nil {
			next = u.String()
		}
	}
	return a, next
}

// Visit opens an address and follows redirects until it gets a page or a redirect outside, such as to the callback of a
// client; without further hops, any redirect. It returns the last answer and its address, or that of the redirect that
// it did not follow.
func (b *Browser) Visit(ctx context.Context, target string) (Answer, string) {
	from := ""
	for range 12 {
		if strings.HasPrefix(target, Callback) {
			return Answer{Status: http.StatusFound}, target
		}
		a, next := b.navigate(ctx, http.MethodGet, target, from, nil)
		if next == "" {
			return a, target
		}
		from, target = target, next
	}
	return Answer{Err: errors.New("too many redirects")}, target
}

// Submit posts a form and then follows redirects as Visit does.
func (b *Browser) Submit(ctx context.Context, page string, f Form) (Answer, string) {
	base, err := url.Parse(page)
	if err != nil {
		return Answer{Err: err}, page
	}
	to, err := base.Parse(f.Action)
	if err != nil {
		return Answer{Err: err}, page
	}
	a, next := b.navigate(ctx, http.MethodPost, to.String(), page, f.Values)
	if next == "" {
		return a, to.String()
	}
	return b.Visit(ctx, next)
}

// Page requests a page as a navigation does, and follows no redirects.
func (b *Browser) Page(ctx context.Context, target string) Answer {
	a, _ := b.navigate(ctx, http.MethodGet, target, "", nil)
	return a
}

// Form is a form of a page.
type Form struct {
	Action             string
	Values             url.Values
	Username, Password string // names of the fields
}

var (
	formTag  = regexp.MustCompile(`(?is)<form\b([^>]*)>(.*?)</form>`)
	inputTag = regexp.MustCompile(`(?is)<(?:input|button)\b([^>]*)>`)
	attrPair = regexp.MustCompile(`(?is)([a-z-]+)\s*=\s*"([^"]*)"`)
)

func attributes(s string) map[string]string {
	m := map[string]string{}
	for _, p := range attrPair.FindAllStringSubmatch(s, -1) {
		m[strings.ToLower(p[1])] = html.UnescapeString(p[2])
	}
	return m
}

// SignInForm finds the form with a password field.
func SignInForm(page []byte) (Form, error) {
	for _, m := range formTag.FindAllSubmatch(page, -1) {
		f := Form{Action: attributes(string(m[1]))["action"], Values: url.Values{}}
		for _, in := range inputTag.FindAllSubmatch(m[2], -1) {
			a := attributes(string(in[1]))
			switch name := a["name"]; {
			case name == "":
			case a["type"] == "hidden":
				f.Values.Set(name, a["value"])
			case a["type"] == "password":
				f.Password = name
			case a["type"] == "text" || a["type"] == "email" || a["type"] == "":
				f.Username = name
			}
		}
		if f.Password != "" && f.Username != "" {
			return f, nil
		}
	}
	return Form{}, errors.New("the page has no sign-in form")
}

// Challenge returns a PKCE verifier and its S256 challenge.
func Challenge() (verifier, challenge string) {
	verifier = text(32)
	sum := sha256.Sum256([]byte(verifier))
	return verifier, base64.RawURLEncoding.EncodeToString(sum[:])
}

// AuthorizeURL returns the address of an authorization request, with further parameters as name, value.
func (s *Server) AuthorizeURL(client, challenge string, params ...string) string {
	q := url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {Callback}, "scope": {"openid profile " + Scope},
		"state": {"s"}, "code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	for i := 0; i+1 < len(params); i += 2 {
		q.Set(params[i], params[i+1])
	}
	return s.Issuer() + "/oauth/authorize?" + q.Encode()
}

// SignIn signs the lab's person in at the issuer and returns the first code with its verifier.
func (b *Browser) SignIn(ctx context.Context, client string) (code, verifier string, err error) {
	verifier, challenge := Challenge()
	a, at := b.Visit(ctx, b.Server.AuthorizeURL(client, challenge))
	code, err = codeOf(a, at)
	if err == nil {
		return code, verifier, nil
	}
	a, at, err = b.FillIn(ctx, a, at)
	if err != nil {
		return "", "", err
	}
	code, err = codeOf(a, at)
	return code, verifier, err
}

// FillIn answers a sign-in page with the lab's person.
func (b *Browser) FillIn(ctx context.Context, a Answer, at string) (Answer, string, error) {
	f, err := SignInForm(a.Body)
	if err != nil {
		return a, at, fmt.Errorf("%s answered %d: %w: %.300s", at, a.Status, errors.Join(err, a.Err), a.Body)
	}
	f.Values.Set(f.Username, cmp.Or(b.Person, Username))
	f.Values.Set(f.Password, b.Server.Password)
	a, at = b.Submit(ctx, at, f)
	return a, at, nil
}

// Code requests a code for a person who is signed in, without any page.
func (b *Browser) Code(ctx context.Context, client string) (code, verifier string, a Answer) {
	verifier, challenge := Challenge()
	begin := time.Now()
	a, at := b.Visit(ctx, b.Server.AuthorizeURL(client, challenge))
	a.Took = time.Since(begin)
	code, err := codeOf(a, at)
	if err != nil && a.Err == nil {
		a.Err = err
	}
	return code, verifier, a
}

func codeOf(a Answer, at string) (string, error) {
	u, err := url.Parse(at)
	if err != nil {
		return "", err
	}
	if code := u.Query().Get("code"); code != "" && strings.HasPrefix(at, Callback) {
		return code, nil
	}
	return "", fmt.Errorf("no code: %s answered %d: %w", u.Path, a.Status, errors.Join(a.Err, errors.New(u.Query().Get("error"))))
}
