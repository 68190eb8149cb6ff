package web_test

import (
	"crypto/rand"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/web"
)

func post(body string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "https://auth.example.com/form?csrf=query", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Origin", "https://auth.example.com")
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Del(headers[i])
		if headers[i+1] != "" {
			r.Header.Add(headers[i], headers[i+1])
		}
	}
	return r
}

func TestCheckPost(t *testing.T) {
	t.Parallel()
	p, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32), Random: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	other, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: []byte(strings.Repeat("k", 32))})
	if err != nil {
		t.Fatal(err)
	}
	good := "x=1&csrf=" + p.CSRF("browser", "flow")
	if one, two := p.CSRF("browser", "flow"), p.CSRF("browser", "flow"); one == two {
		t.Error("CSRF twice is the same token, want different ones")
	}
	if p.CSRF("", "flow") != "" {
		t.Error("CSRF without a browser is a token, want none")
	}
	for name, r := range map[string]*http.Request{
		"origin":      post(good),
		"origin case": post(good, "Origin", "https://AUTH.example.com"),
		"same-origin": post(good, "Origin", "", "Sec-Fetch-Site", "same-origin"),
		// Sec-Fetch-Site decides if present
		"none":          post(good, "Origin", "https://evil.example", "Sec-Fetch-Site", "none"),
		"charset":       post(good, "Content-Type", "application/x-www-form-urlencoded; charset=UTF-8"),
		"longest":       post(good + "&y=" + strings.Repeat("a", web.MaxForm-len(good)-3)),
		"percent bytes": post(good + "&y=%C3%A9+%00"),
	} {
		if err := p.CheckPost(r, "browser", "flow"); err != nil {
			t.Errorf("CheckPost(%s) = %v, want nil", name, err)
		}
		if got := r.PostFormValue("x"); got != "1" {
			t.Errorf("CheckPost(%s): field x = %q, want 1", name, got)
		}
		if len(r.PostForm["csrf"]) != 1 {
			t.Errorf("CheckPost(%s): csrf = %q, want that of the body alone", name, r.PostForm["csrf"])
		}
	}
	twice := post(good, "Sec-Fetch-Site", "same-origin")
	twice.Header.Add("Sec-Fetch-Site", "cross-site")
	emptySite := post(good)
	emptySite.Header["Sec-Fetch-Site"] = []string{""}
	get := post(good)
	get.Method = http.MethodGet
	t.Run("attack 282: no form without its own token from its own page", func(t *testing.T) {
		t.Parallel()
		for name, c := range map[string]struct {
			r      *http.Request
			status int
		}{
			"none":           {post("x=1"), 403},
			"empty":          {post("csrf="), 403},
			"garbage":        {post("csrf=AAAA"), 403},
			"another form":   {post("csrf=" + p.CSRF("browser", "other")), 403},
			"another person": {post("csrf=" + p.CSRF("foreign", "flow")), 403},
			"another key":    {post("csrf=" + other.CSRF("browser", "flow")), 403},
			"GET":            {get, 405},
			"evil origin":    {post(good, "Origin", "https://evil.example"), 403},
			"null origin":    {post(good, "Origin", "null"), 403},
			"no origin":      {post(good, "Origin", ""), 403},
			"http origin":    {post(good, "Origin", "http://auth.example.com"), 403},
			"cross-site":     {post(good, "Sec-Fetch-Site", "cross-site"), 403},
			"same-site":      {post(good, "Sec-Fetch-Site", "same-site"), 403},
			"two sites":      {twice, 403},
			"no site":        {emptySite, 403},
			"text":           {post(good, "Content-Type", "text/plain"), 403},
			"json":           {post(`{"csrf":"x"}`, "Content-Type", "application/json"), 403},
			"no type":        {post(good, "Content-Type", ""), 403},
			"charset":        {post(good, "Content-Type", "application/x-www-form-urlencoded; charset=utf-7"), 403},
			"multipart":      {post(good, "Content-Type", "multipart/form-data; boundary=x"), 403},
			"large":          {post(good + "&y=" + strings.Repeat("a", web.MaxForm)), 413},
			"repeated":       {post(good + "&x=2"), 400},
			"two tokens":     {post(good + "&" + good[4:]), 400},
			"escape":         {post(good + "&y=%zz"), 400},
			"semicolon":      {post(good + ";y=1"), 400},
			"utf-8":          {post(good + "&y=%ff"), 400},
		} {
			err := p.CheckPost(c.r, "browser", "flow")
			f := new(web.Forbidden)
			if !errors.As(err, &f) || f.Status != c.status {
				t.Errorf("CheckPost(%s) = %v, want a Forbidden with status %d", name, err, c.status)
				continue
			}
			w := httptest.NewRecorder()
			p.Refuse(w, c.r, err, "")
			if w.Code != c.status || (c.status == 405) != (w.Header().Get("Allow") != "") {
				t.Errorf("Refuse(%s): status %d, want %d", name, w.Code, c.status)
			}
		}
	})
}

func FuzzCheckPost(f *testing.F) {
	p, err := web.New(web.Config{Issuer: "https://auth.example.com", Key: make([]byte, 32)})
	if err != nil {
		f.Fatal(err)
	}
	f.Add("csrf=x&username=a&password=b", "application/x-www-form-urlencoded")
	f.Add("csrf="+p.CSRF("browser", "other"), "application/x-www-form-urlencoded;charset=utf-8")
	f.Add("%zz;&&==\xff", "text/plain; charset")
	f.Fuzz(func(t *testing.T, body, contentType string) {
		err := p.CheckPost(post(body, "Content-Type", contentType), "browser", "flow")
		if fb := new(web.Forbidden); !errors.As(err, &fb) {
			t.Errorf("CheckPost = %v, want Forbidden: no such body can have a token", err)
		}
	})
}

func FuzzLocalPath(f *testing.F) {
	for _, s := range []string{"/", "//x", "/\\x", "/a?b=c", "/%2f%2fx", "javascript:x", "/..//x"} {
		f.Add(s)
	}
	base := &url.URL{Scheme: "https", Host: "auth.example.com"}
	f.Fuzz(func(t *testing.T, s string) {
		got := web.LocalPath(s)
		if got == "" {
			return
		}
		u, err := base.Parse(got)
		if got != s || err != nil || u.Host != base.Host || u.Scheme != base.Scheme || strings.HasPrefix(u.Path, "//") {
			t.Errorf("LocalPath(%q) = %q, which leads to %v", s, got, u)
		}
	})
}
