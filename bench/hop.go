package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// hopper follows the redirects of code flows over kept connections, as a browser does, with little work of its own.
type hopper struct {
	headers []string // of each request, as name, value
	conns   map[string]*wire
	cookies map[string]map[string]string // by host
}

type wire struct {
	c net.Conn
	r *bufio.Reader
}

func newHopper(headers ...string) *hopper {
	return &hopper{headers: headers, conns: map[string]*wire{}, cookies: map[string]map[string]string{}}
}

// forget makes it another browser on the same connections.
func (h *hopper) forget() { clear(h.cookies) }

func (h *hopper) close() {
	for _, w := range h.conns {
		_ = w.c.Close()
	}
}

// page is an answer, read whole.
type page struct {
	status int
	header http.Header
	body   []byte
	at     *url.URL
}

// do sends one request. A connection that the server has closed meanwhile is opened again.
func (h *hopper) do(method string, at *url.URL, form string, headers ...string) (page, error) {
	all := slices.Concat(h.headers, headers)
	if c := h.cookie(at.Host); c != "" {
		all = append(all, "Cookie", c)
	}
	request := lab.Request(method, at.Host, at.RequestURI(), form, all...)
	p, err := h.try(at, request)
	if err != nil && h.conns[at.Host] == nil {
		p, err = h.try(at, request)
	}
	return p, err
}

// cookie is the header for a host.
func (h *hopper) cookie(host string) string {
	var parts []string
	for name, value := range h.cookies[host] {
		parts = append(parts, name+"="+value)
	}
	slices.Sort(parts)
	return strings.Join(parts, "; ")
}

func (h *hopper) try(at *url.URL, request []byte) (p page, err error) {
	w := h.conns[at.Host]
	if w == nil {
		c, err := net.Dial("tcp", at.Host)
		if err != nil {
			return p, err
		}
		w = &wire{c, bufio.NewReader(c)}
		h.conns[at.Host] = w
	}
	defer func() {
		if err != nil {
			_ = w.c.Close()
			delete(h.conns, at.Host)
		}
	}()
	if err = w.c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return p, err
	}
	if _, err = w.c.Write(request); err != nil {
		return p, err
	}
	res, err := http.ReadResponse(w.r, nil)
	if err != nil {
		return p, err
	}
	defer res.Body.Close()
	p = page{status: res.StatusCode, header: res.Header, at: at}
	if p.body, err = io.ReadAll(res.Body); err != nil {
		return p, err
	}
	if res.Close {
		_ = w.c.Close()
		delete(h.conns, at.Host)
	}
	if h.cookies[at.Host] == nil {
		h.cookies[at.Host] = map[string]string{}
	}
	for _, c := range res.Cookies() {
		if c.MaxAge < 0 || c.Value == "" {
			delete(h.cookies[at.Host], c.Name)
			continue
		}
		h.cookies[at.Host][c.Name] = c.Value
	}
	return p, nil
}

// visit follows redirects to a page, or to the first address that begins with callback.
func (h *hopper) visit(target, callback string) (page, error) {
	at, err := url.Parse(target)
	if err != nil {
		return page{}, err
	}
	for range 12 {
		if callback != "" && strings.HasPrefix(at.String(), callback) {
			return page{status: http.StatusFound, at: at}, nil
		}
		p, err := h.do(http.MethodGet, at, "", "Accept", "text/html", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document")
		if err != nil {
			return p, fmt.Errorf("%s: %w", at.Path, err)
		}
		if p.status < 300 || p.status > 399 {
			return p, nil
		}
		if at, err = at.Parse(p.header.Get("Location")); err != nil {
			return p, err
		}
	}
	return page{}, errors.New("too many redirects")
}

// party is a provider as a client of the code flow sees it.
type party struct {
	authorize, token string // addresses
	client, secret   string
	callback         string
	scope            string
}

// flow signs in and exchanges the code, and returns the ID token.
func (h *hopper) flow(p party) (string, error) {
	verifier, challenge := lab.Challenge()
	q := url.Values{
		"response_type": {"code"}, "client_id": {p.client}, "redirect_uri": {p.callback}, "scope": {p.scope}, "state": {"bench"},
		"nonce": {"n"}, "code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}
	a, err := h.visit(p.authorize+"?"+q.Encode(), p.callback)
	if err != nil {
		return "", err
	}
	code := a.at.Query().Get("code")
	if code == "" {
		return "", fmt.Errorf("no code: status %d at %s: %.200s", a.status, a.at.Redacted(), a.body)
	}
	at, err := url.Parse(p.token)
	if err != nil {
		return "", err
	}
	form := url.Values{"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {p.callback}, "code_verifier": {verifier}}
	a, err = h.do(http.MethodPost, at, form.Encode(), "Authorization", basic(p.client, p.secret), "Accept", "application/json")
	if err != nil {
		return "", err
	}
	return idToken(a)
}

// idToken reads a token answer.
func idToken(a page) (string, error) {
	answer := lab.Answer{Body: a.body}
	if t := answer.Text("id_token"); a.status == http.StatusOK && strings.Count(t, ".") == 2 {
		return t, nil
	}
	return "", fmt.Errorf("the token endpoint answered %s, without an ID token: %.200s", strconv.Itoa(a.status), a.body)
}
