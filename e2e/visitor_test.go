package e2e

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// visitor is a browser without scripts: it follows redirects and fills the forms of the issuer's pages.
type visitor struct {
	t        *testing.T
	client   *http.Client
	issuer   string
	username string
	password string
}

// visit returns a new browser of a person.
func (s *server) visit(t *testing.T, username, password string) *visitor {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := s.client()
	c.Jar = jar
	return &visitor{t, c, s.Issuer, username, password}
}

// returned is the return of a browser to an application.
type returned struct {
	address string     // without query and fragment
	mode    string     // response_mode: query, fragment or form_post
	values  url.Values // the answer
}

var (
	formTag   = regexp.MustCompile(`(?s)<form method="post" action="([^"]*)"[^>]*>(.*?)</form>`)
	hiddenTag = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

// hiddenFields are those of a form, with their values.
func hiddenFields(form string) url.Values {
	out := url.Values{}
	for _, h := range hiddenTag.FindAllStringSubmatch(form, -1) {
		out.Add(html.UnescapeString(h[1]), html.UnescapeString(h[2]))
	}
	return out
}

// authorize opens an authorization request, signs in and allows what is asked for, until the browser leaves the issuer.
func (v *visitor) authorize(address string) returned {
	v.t.Helper()
	resp := v.get(address)
	for range 15 {
		if resp.StatusCode/100 == 3 {
			to, err := resp.Location()
			if err != nil {
				v.t.Fatal(err)
			}
			if !strings.HasPrefix(to.String(), v.issuer+"/") {
				return leaves(to)
			}
			resp = v.get(to.String())
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			v.t.Fatal(err)
		}
		m := formTag.FindStringSubmatch(string(raw))
		if m == nil {
			v.t.Fatalf("%s: %s, a page without a form: %s", resp.Request.URL, resp.Status, raw)
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(m[1]))
		if err != nil {
			v.t.Fatal(err)
		}
		form := hiddenFields(m[2])
		if !strings.HasPrefix(to.String(), v.issuer+"/") {
			return returned{to.String(), "form_post", form}
		}
		switch {
		case strings.Contains(m[2], `name="password"`):
			form.Set("username", v.username)
			form.Set("password", v.password)
		case strings.Contains(m[2], `value="allow"`):
			button := regexp.MustCompile(`<button[^>]*name="([^"]*)"[^>]*value="allow"`).FindStringSubmatch(m[2])
			form.Set(button[1], "allow")
		}
		resp = v.post(to.String(), form)
	}
	v.t.Fatal("the browser does not leave the issuer after 15 pages")
	return returned{}
}

func leaves(to *url.URL) returned {
	r := returned{mode: "query", values: to.Query()}
	if to.Fragment != "" {
		r.mode = "fragment"
		r.values, _ = url.ParseQuery(to.Fragment) // a broken one has missing values
	}
	bare := *to
	bare.RawQuery, bare.Fragment, bare.RawFragment = "", "", ""
	r.address = bare.String()
	return r
}

func (v *visitor) get(address string) *http.Response {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	return v.do(req)
}

func (v *visitor) post(address string, form url.Values) *http.Response {
	v.t.Helper()
	return v.postFrom(v.issuer, address, form)
}

// postFrom sends a form from a page of an origin.
func (v *visitor) postFrom(origin, address string, form url.Values) *http.Response {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Origin", origin)
	return v.do(req)
}

func (v *visitor) do(req *http.Request) *http.Response {
	v.t.Helper()
	resp, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp
}
