package e2e

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

func (g *gateways) signsInAndOut(chromium *tab, origin string) {
	b := chromium.tab(chromedp.WithNewBrowserContext())
	t := b.t
	target := origin + "/deep/page?x=1&y=%2Fa%20b#/deep/link"
	b.open(target)
	if got := b.location(); !strings.HasPrefix(got, g.Issuer+"/") {
		t.Fatalf("a browser without a session landed at %s", got)
	}
	b.signIn(person, g.Password)
	b.until("location.href === " + quote(target))
	uri, _, _ := strings.Cut(strings.TrimPrefix(target, origin), "#")
	checkSeen(t, b.seen(), uri)
	b.open(origin + "/.gatehouse/logout")
	if b.has("main form button:not([type])") {
		b.click("main form button:not([type])")
	}
	b.open(target)
	if got := b.location(); !strings.HasPrefix(got, g.Issuer+"/") {
		t.Errorf("after the sign-out the page is still open at %s", got)
	}
}

// passes: a form, an upload of known and of unknown length and a WebSocket arrive with a session, and none of them does
// without. A WebSocket stays open after the sign-out, as the guide says.
func (g *gateways) passes(t *testing.T, name string) {
	v := g.enter(t, g.origin(name))
	const large = 8 << 20
	send := func(c *http.Client, body io.Reader) (*http.Response, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, g.origin(name)+"/form?x=1", body)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", g.origin(name))
		resp, err := c.Do(req)
		if err != nil {
			return nil, "", err
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		return resp, string(raw), err
	}
	refused := http.StatusUnauthorized
	if name == "ingress-nginx" {
		refused = http.StatusFound // auth-signin is for all requests
	}
	for what, body := range map[string]func() (io.Reader, int){
		"a form":                       func() (io.Reader, int) { return strings.NewReader("title=a&text=b"), 14 },
		"an upload of 8 MB":            func() (io.Reader, int) { return bytes.NewReader(make([]byte, large)), large },
		"an upload of unknown length":  func() (io.Reader, int) { return io.MultiReader(bytes.NewReader(make([]byte, large))), large },
		"a form without anything said": func() (io.Reader, int) { return http.NoBody, 0 },
	} {
		r, n := body()
		want := seen{Method: http.MethodPost, URI: "/form?x=1", User: person, Name: "Demo Person", Email: person, Groups: "staff"}
		var got seen
		resp, raw, err := send(v.client, r)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := json.Unmarshal([]byte(raw), &got); err != nil || resp.StatusCode != http.StatusOK || got != want ||
			resp.Header.Get("Received") != fmt.Sprint(n, " <nil>") {
			t.Errorf("%s: status = %d, upstream saw %+v and %q, want 200, %+v and %d: %.300s", what, resp.StatusCode, got,
				resp.Header.Get("Received"), want, n, raw)
		}
		r, _ = body()
		// An upload can be cut off before its refusal is read.
		if resp, raw, err := send(g.client(nil), r); err == nil && (resp.StatusCode != refused || resp.Header.Get("Received") != "") ||
			err != nil && n < large {
			t.Errorf("%s without a session: %+v, %v, want %d: %.300s", what, resp, err, refused, raw)
		}
	}
	if _, status, _ := g.socket(t, name, nil); !strings.HasPrefix(status, fmt.Sprintf("HTTP/1.1 %d ", refused)) {
		t.Errorf("a WebSocket without a session: %q, want %d", status, refused)
	}
	conn, status, header := g.socket(t, name, v.client.Jar.Cookies(&url.URL{Scheme: "https", Host: name + ".example.com", Path: "/"}))
	if !strings.HasPrefix(status, "HTTP/1.1 101 ") || header.Get("Seen-User") != person {
		t.Fatalf("a WebSocket = %q %v, want 101 for %s", status, header, person)
	}
	echoed := func(when string) {
		said := when + random(8)
		if _, err := io.WriteString(conn, said); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		got := make([]byte, len(said))
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != said {
			t.Errorf("%s: the WebSocket says %q, %v, want %q", when, got, err, said)
		}
	}
	echoed("while signed in")
	v.signOut(g.origin(name))
	if status, body := answered(t, v.client, v.page(g.origin(name)+"/page")); status == http.StatusOK {
		t.Errorf("after the sign-out a page is %d %s", status, body)
	}
	echoed("after the sign-out")
}

// signOut leaves by the path of the site, and confirms where a page asks.
func (v *visitor) signOut(origin string) {
	v.t.Helper()
	resp := v.navigate(origin + "/.gatehouse/logout")
	for range 10 {
		if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
			resp = v.navigate(to.String())
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			v.t.Fatal(err)
		}
		m := formTag.FindStringSubmatch(string(raw))
		if m == nil || !strings.HasPrefix(resp.Request.URL.String(), v.issuer) || strings.Contains(m[2], "password") {
			return
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(m[1]))
		if err != nil {
			v.t.Fatal(err)
		}
		form := hiddenFields(m[2])
		resp = v.post(to.String(), form)
		v.t.Cleanup(func() { resp.Body.Close() })
	}
	v.t.Fatalf("no way out of %s", origin)
}

// socket asks a gateway for a WebSocket with cookies, and returns the connection after the answer's head.
func (g *gateways) socket(t *testing.T, name string, cookies []*http.Cookie) (conn io.ReadWriter, status string,
	header textproto.MIMEHeader,
) {
	t.Helper()
	host := name + ".example.com"
	raw, err := g.dial(t.Context(), host+":443", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	c := tls.Client(raw, &tls.Config{RootCAs: g.pool, ServerName: host, MinVersion: tls.VersionTLS12})
	if err := c.SetDeadline(time.Now().Add(step)); err != nil {
		t.Fatal(err)
	}
	req := fmt.Sprintf("GET /socket HTTP/1.1\r\nHost: %[1]s\r\nOrigin: https://%[1]s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"+
		"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-Fetch-Mode: websocket\r\n", host)
	for _, k := range cookies {
		req += "Cookie: " + k.Name + "=" + k.Value + "\r\n"
	}
	if _, err := io.WriteString(c, req+"\r\n"); err != nil {
		t.Fatal(err)
	}
	r := textproto.NewReader(bufio.NewReader(c))
	if status, err = r.ReadLine(); err == nil {
		header, err = r.ReadMIMEHeader()
	}
	if err != nil {
		t.Fatalf("%s for a WebSocket: %q, %v", name, status, err)
	}
	return struct {
		io.Reader
		io.Writer
	}{r.R, c}, status, header
}

// enter signs a person in through a gateway by plain requests.
func (g *gateways) enter(t *testing.T, origin string) *visitor {
	t.Helper()
	v := g.visit(t, person, g.Password)
	v.client.Transport = g.client(nil).Transport
	resp := v.navigate(origin + "/page")
	for range 15 {
		if to, err := resp.Location(); err == nil && resp.StatusCode/100 == 3 {
			resp = v.navigate(to.String())
			continue
		}
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		m := formTag.FindStringSubmatch(string(raw))
		if m == nil {
			if resp.StatusCode != http.StatusOK || !strings.Contains(string(raw), person) {
				t.Fatalf("signed in through %s: %s %s", origin, resp.Status, raw)
			}
			return v
		}
		to, err := resp.Request.URL.Parse(html.UnescapeString(m[1]))
		if err != nil {
			t.Fatal(err)
		}
		form := hiddenFields(m[2])
		form.Set("username", v.username)
		form.Set("password", v.password)
		resp = v.post(to.String(), form)
	}
	t.Fatalf("no way in through %s", origin)
	return nil
}

// navigate opens a page as a browser does.
func (v *visitor) navigate(address string) *http.Response {
	v.t.Helper()
	resp := v.do(v.page(address))
	v.t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// page is the request of a browser for a page.
func (v *visitor) page(address string) *http.Request {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, address, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Mode", "navigate")
	req.Header.Set("Sec-Fetch-Dest", "document")
	req.Header.Set("Accept", "text/html")
	return req
}
