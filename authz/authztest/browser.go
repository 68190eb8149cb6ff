package authztest

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
)

// Response is an answer, read whole.
type Response struct {
	Status int
	Header http.Header
	Body   string
}

// Location returns the Location header.
func (r *Response) Location() string { return r.Header.Get("Location") }

// Redirect returns the parameters of the Location header, in its query or its fragment, and the URL before them.
func (r *Response) Redirect() (target string, params url.Values) {
	u, err := url.Parse(r.Location())
	if err != nil {
		return r.Location(), url.Values{}
	}
	params = u.Query()
	if u.Fragment != "" {
		if params, err = url.ParseQuery(u.EscapedFragment()); err != nil {
			params = url.Values{}
		}
	}
	u.RawQuery, u.Fragment, u.RawFragment = "", "", ""
	return u.String(), params
}

// JSON reads the body as a JSON object; nil when it is something else.
func (r *Response) JSON() map[string]any {
	var v map[string]any
	if json.Unmarshal([]byte(r.Body), &v) != nil {
		return nil
	}
	return v
}

// Text returns a string member of the JSON body.
func (r *Response) Text(member string) string {
	s, _ := r.JSON()[member].(string)
	return s
}

// Do sends a request. target is a path on the issuer or a URL. headers are name, value, name, value.
func (h *Harness) Do(method, target, body string, headers ...string) *Response {
	h.T.Helper()
	return h.do(h.Client, method, target, body, headers...)
}

func (h *Harness) do(c *http.Client, method, target, body string, headers ...string) *Response {
	h.T.Helper()
	if strings.HasPrefix(target, "/") {
		target = h.Issuer + target
	}
	req, err := http.NewRequestWithContext(h.T.Context(), method, target, strings.NewReader(body))
	h.must(err)
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	res, err := c.Do(req)
	h.must(err)
	defer res.Body.Close() //nolint:errcheck // read whole
	raw, err := io.ReadAll(res.Body)
	h.must(err)
	return &Response{res.StatusCode, res.Header, string(raw)}
}

// Get sends a GET without cookies.
func (h *Harness) Get(target string, headers ...string) *Response {
	h.T.Helper()
	return h.Do(http.MethodGet, target, "", headers...)
}

// Post sends a form without cookies.
func (h *Harness) Post(target string, f url.Values, headers ...string) *Response {
	h.T.Helper()
	return h.Do(http.MethodPost, target, f.Encode(), append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
}

// Browser keeps cookies and presses buttons. It is not safe for concurrent use.
type Browser struct {
	h      *Harness
	client *http.Client
	// Person signs in when a page asks. Empty: no one does.
	Person string
	// Decision is the button of the consent page: allow (default) or deny. "-": no button is pressed.
	Decision string
	// Pages are the pages that were seen by Follow, in their order.
	Pages []*Response
}

// Browser returns a browser without cookies in which a person signs in when asked.
func (h *Harness) Browser(person string) *Browser {
	jar, err := cookiejar.New(nil)
	h.must(err)
	c := *h.Client
	c.Jar = jar
	return &Browser{h: h, client: &c, Person: person, Decision: "allow"}
}

// Cookies returns the cookies for the issuer.
func (b *Browser) Cookies() []*http.Cookie {
	u, err := url.Parse(b.h.Issuer + "/")
	b.h.must(err)
	return b.client.Jar.Cookies(u)
}

// Session returns the id of the session that the browser is signed in with, or "".
func (b *Browser) Session() string {
	for _, c := range b.Cookies() {
		if c.Name == sessionCookie {
			return c.Value
		}
	}
	return ""
}

// Get sends a GET and follows no redirect.
func (b *Browser) Get(target string, headers ...string) *Response {
	b.h.T.Helper()
	return b.h.do(b.client, http.MethodGet, target, "", headers...)
}

// Head asks for the headers of a page, as a preview of a link does.
func (b *Browser) Head(target string) *Response {
	b.h.T.Helper()
	return b.h.do(b.client, http.MethodHead, target, "")
}

// Post sends a form as a page of the issuer would, and follows no redirect. headers replace those of a browser.
func (b *Browser) Post(target string, f url.Values, headers ...string) *Response {
	b.h.T.Helper()
	if len(headers) == 0 {
		headers = []string{"Sec-Fetch-Site", "same-origin", "Origin", b.h.Issuer}
	}
	return b.h.do(b.client, http.MethodPost, target, f.Encode(),
		append([]string{"Content-Type", "application/x-www-form-urlencoded"}, headers...)...)
}

// SignIn signs the person in without any flow.
func (b *Browser) SignIn(person string) *Browser {
	b.h.T.Helper()
	b.Post(buttonPath+"?return=/", url.Values{"as": {person}})
	return b
}

// Confirm presses "continue as" on the sign-in page at target, which a Location named.
func (b *Browser) Confirm(target string) *Response {
	b.h.T.Helper()
	return b.Post(target, url.Values{"confirm": {"true"}})
}

// Follow opens a URL and goes on until it leaves the issuer or meets a page with nothing to press: it follows
// redirects, signs in and decides about consent. It returns the last answer: a redirect that leaves, or that page.
func (b *Browser) Follow(target string) *Response {
	b.h.T.Helper()
	return b.follow(b.Get(target))
}

func (b *Browser) follow(res *Response) *Response {
	b.h.T.Helper()
	for range 20 {
		location := res.Location()
		if location != "" && !b.isIssuer(location) {
			return res
		}
		switch {
		case strings.HasPrefix(location, buttonPath):
			if b.Person == "" {
				return res
			}
			res = b.Post(location, url.Values{"as": {b.Person}})
		case location != "":
			res = b.Get(location)
		default:
			b.Pages = append(b.Pages, res)
			action, fields := Form(res.Body)
			if b.Decision == "-" || fields.Get("request") == "" {
				return res
			}
			fields.Set("decision", b.Decision)
			res = b.Post(action, fields)
		}
	}
	b.h.T.Fatal("a flow of 20 steps does not end")
	return nil
}

func (b *Browser) isIssuer(location string) bool {
	return strings.HasPrefix(location, "/") || strings.HasPrefix(location, b.h.Issuer+"/")
}

var (
	formTag  = regexp.MustCompile(`<form[^>]* action="([^"]*)"`)
	inputTag = regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)"`)
)

// Form returns the action and the hidden fields of the form of a page; "" without a form.
func Form(body string) (action string, fields url.Values) {
	fields = url.Values{}
	m := formTag.FindStringSubmatch(body)
	if m == nil {
		return "", fields
	}
	for _, in := range inputTag.FindAllStringSubmatch(body, -1) {
		fields.Set(html.UnescapeString(in[1]), html.UnescapeString(in[2]))
	}
	return html.UnescapeString(m[1]), fields
}
