package e2e

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/chromedp/cdproto/input"
)

// fetched is an answer that was requested without a browser.
type fetched struct {
	status int
	header http.Header
	body   string
	where  *url.URL // of the page, or the target of a redirect that is not followed
}

// fetch requests a page with the cookies of a browser and follows redirects as long as they stay at the server.
func (s *server) fetch(cookies, address string, header ...string) fetched {
	s.t.Helper()
	a := fetched{}
	kept := map[string]string{}
	for pair := range strings.SplitSeq(cookies, "; ") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			kept[name] = value
		}
	}
	for range 12 {
		req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, address, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		req.Header.Set("Sec-Fetch-Site", "none")
		a = s.answerTo(req, kept, header)
		if a.status < 300 || a.status >= 400 {
			return a
		}
		address = a.where.String()
		if !strings.HasPrefix(address, s.Issuer) && !strings.HasPrefix(address, "http://127.0.0.1:") {
			return a
		}
	}
	s.t.Errorf("%s leads in circles", address)
	return a
}

// post sends a form with the cookies of the crawler's browser and follows no redirect.
func (c *crawler) post(address string, form url.Values, header ...string) fetched {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return c.answerTo(req, c.b.jar(), header)
}

func (s *server) answerTo(req *http.Request, cookies map[string]string, header []string) fetched {
	s.t.Helper()
	req.Header.Set("Accept", "text/html")
	for name, value := range cookies {
		req.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := s.client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, c := range resp.Cookies() {
		if cookies != nil {
			cookies[c.Name] = c.Value
		}
	}
	a := fetched{resp.StatusCode, resp.Header, string(raw), req.URL}
	if to, err := resp.Location(); err == nil {
		a.where = to
	}
	return a
}

// jar is the cookies of the browser by name.
func (b *tab) jar() map[string]string {
	b.t.Helper()
	out := map[string]string{}
	for _, c := range b.cookies() {
		if c.Domain == "localhost" {
			out[c.Name] = c.Value
		}
	}
	return out
}

// tabs presses Tab until every control has had the focus, and checks that the focus is visible.
func (c *crawler) tabs(name string) {
	c.t.Helper()
	b := c.b
	n := eval[int](b, `(() => {
		const all = [...document.querySelectorAll('a[href],button,input:not([type=hidden]),select,textarea,summary,[tabindex]')].filter(e =>
			e.tabIndex >= 0 && !e.disabled && e.getClientRects().length > 0 && e.checkVisibility({visibilityProperty: true}));
		const groups = new Set();
		window.tabStops = all.filter(e => e.type !== 'radio' || (!groups.has(e.name) && groups.add(e.name)));
		window.tabSeen = new Map();
		window.ring = e => {
			const s = getComputedStyle(e);
			return (s.outlineStyle !== 'none' && parseFloat(s.outlineWidth) >= 2) || s.boxShadow !== 'none';
		};
		document.activeElement?.blur();
		document.addEventListener('focusin', e => {
			const stop = e.target.type === 'radio' ? window.tabStops.find(x => x.name === e.target.name) : e.target;
			window.tabSeen.set(stop, window.ring(e.target));
		});
		return window.tabStops.length;
	})()`)
	missed := struct{ Unreached, Unseen []string }{}
	for range 3 { // a date has several stops, and after the last control come those of the browser
		for range n + 3 {
			for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeRawKeyDown, input.DispatchKeyEventTypeKeyUp} {
				call(b, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Tab", Code: "Tab", WindowsVirtualKeyCode: 9})
			}
		}
		// a page moves the focus itself when it is first drawn, so a control without a ring gets the focus again
		missed = eval[struct{ Unreached, Unseen []string }](b, `({
			Unreached: window.tabStops.filter(e => !window.tabSeen.has(e)).map(e => e.outerHTML),
			Unseen: [...window.tabSeen].filter(([e, ring]) => !ring && (e.blur(), e.focus(), !window.ring(e))).map(([e]) => e.outerHTML),
		})`)
		if len(missed.Unreached) == 0 {
			break
		}
	}
	if len(missed.Unreached) > 0 || len(missed.Unseen) > 0 {
		c.t.Errorf("%s: Tab does not reach %q, and the focus does not show on %q", name, missed.Unreached, missed.Unseen)
	}
}
