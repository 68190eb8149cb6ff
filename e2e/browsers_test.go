package e2e

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/inspector"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// TestBrowsersAreSeparate opens two browsers in the Chromium that tests share: neither sees the cookies or the storage
// of the other, and when a page of one crashes, the other goes on.
func TestBrowsersAreSeparate(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		for _, c := range r.Cookies() {
			_, _ = w.Write([]byte("<p>" + c.Name + "=" + c.Value))
		}
	}))
	t.Cleanup(web.Close)
	s := &server{t: t, secrets: map[string]string{}}
	one, other := s.browse(t), s.browse(t)
	for _, b := range []*tab{one, other} {
		b.open(web.URL)
		if width, height := eval[int](b, "innerWidth"), eval[int](b, "screen.height"); width != 1280 || height < 600 {
			t.Errorf("a new window is %d pixels wide on a screen of %d, want 1280", width, height)
		}
		if !eval[bool](b, "document.hasFocus() && !document.hidden") {
			t.Error("a new window does not have the focus, or is hidden")
		}
	}
	eval[string](one, `document.cookie = "who=the-first-browser"; localStorage.who = sessionStorage.who = "the first browser"`)
	one.open(web.URL)
	if got := one.cookies(); len(got) != 1 {
		t.Errorf("the first browser has the cookies %v, want one", got)
	}
	if s.secrets["the-first-browser"] == "" {
		t.Errorf("the cookie is not among the secrets %v", s.secrets)
	}
	other.open(web.URL)
	if got := other.text("body") + eval[string](other, "document.cookie + (localStorage.who ?? '') + (sessionStorage.who ?? '')"); got != "" ||
		len(other.cookies()) != 0 {
		t.Errorf("the second browser has %q and the cookies %v of the first", got, other.cookies())
	}
	second := one.tab()
	second.open(web.URL)
	if got := second.text("body"); !strings.Contains(got, "who=the-first-browser") {
		t.Errorf("another tab of the first browser sends the cookies %q", got)
	}
	other.forget()
	if len(one.cookies()) != 1 {
		t.Error("the second browser has removed the cookies of the first")
	}
	one.forget()
	if got := one.cookies(); len(got) != 0 {
		t.Errorf("the first browser has the cookies %v, want none", got)
	}

	ctx, cancel := context.WithTimeout(one.ctx, step)
	defer cancel()
	if err := chromedp.Listen(ctx, func(ev any) {
		if _, ok := ev.(*inspector.EventTargetCrashed); ok {
			cancel() // a page that has crashed answers nothing
		}
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (cdp.Empty, error) {
		return cdp.Call(ctx, t, cdppage.Crash, cdp.Empty{})
	}); !errors.Is(err, context.Canceled) {
		t.Errorf("a command to crash the page: %v, want a crash", err)
	}
	if status := other.open(web.URL); status != http.StatusOK || isLost(other.ctx) {
		t.Errorf("after a crash of a page of the first browser, the second one gets %d", status)
	}
	if status := s.browse(t).open(web.URL); status != http.StatusOK {
		t.Errorf("after a crash of a page, a new browser gets %d", status)
	}
}
