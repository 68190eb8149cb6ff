package e2e

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// tab is a tab of a real browser that started without a profile.
type tab struct {
	t   *testing.T
	s   *server
	ctx context.Context
}

// step is the longest time for one step in a browser.
const step = 30 * time.Second

// browse opens a browser. Its cookies are recorded as secrets of the server.
func (s *server) browse(t *testing.T) *tab {
	t.Helper()
	return s.browseWith(t)
}

// browseWith is browse with further options of the browser.
func (s *server) browseWith(t *testing.T, more ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	dir, err := os.MkdirTemp("", "gatehouse-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(chromium(t)), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.WindowSize(1280, 800),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true),
	}
	alloc, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(opts, more...)...)
	ctx, cancel := chromedp.NewContext(alloc)
	t.Cleanup(func() {
		defer stop()
		defer cancel()
		if err := chromedp.Cancel(ctx); err != nil {
			t.Logf("close the browser: %v", err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Logf("the browser's directory stays behind: %v", err)
		}
	})
	b := &tab{t, s, ctx}
	b.watch()
	return b
}

func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			return p
		}
	}
	t.Fatal("no Chromium on this machine: make install")
	return ""
}

// tab opens another tab of the same browser.
func (b *tab) tab(how ...chromedp.ContextOption) *tab {
	b.t.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx, how...)
	b.t.Cleanup(cancel)
	other := &tab{b.t, b.s, ctx}
	other.watch()
	return other
}

// watch records the codes in the addresses that the tab requests. It also binds the tab to its context, so that later
// steps can have a deadline.
func (b *tab) watch() {
	b.t.Helper()
	err := chromedp.Do(b.ctx)
	if err == nil {
		err = chromedp.Listen(b.ctx, func(ev any) {
			if e, ok := ev.(*network.EventRequestWillBeSent); ok {
				if u, err := url.Parse(e.Request.URL); err == nil {
					b.s.secretsOf(u)
				}
			}
		})
	}
	if err != nil {
		b.t.Fatalf("start the browser: %v", err)
	}
}

// get runs an action that returns a value.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, step)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		where, _ := chromedp.Run(b.ctx, chromedp.Location()) // for the message, if known
		b.t.Fatalf("browser at %q: %v", where, err)
	}
	return v
}

func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	get(b, chromedp.Steps(steps...))
}

// open goes to an address, waits for the page at the end of all redirects, and returns its status.
func (b *tab) open(address string) int64 {
	b.t.Helper()
	return b.lands(chromedp.Navigate(address))
}

// click clicks and waits for the page that it leads to.
func (b *tab) click(selector string) int64 {
	b.t.Helper()
	return b.lands(chromedp.Click(chromedp.CSS(selector)))
}

func (b *tab) lands(steps ...chromedp.Action[chromedp.Void]) int64 {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, step)
	defer cancel()
	resp, err := chromedp.RunResponse(ctx, steps...)
	if err != nil {
		b.t.Fatalf("browser at %s: %v", b.location(), err)
	}
	b.remember()
	return resp.Status
}

// reaches waits until the tab shows a page below the address, past pages that forward automatically.
func (b *tab) reaches(address string) {
	b.t.Helper()
	b.until("location.href.startsWith(" + quote(address) + ")")
}

// until waits for a loaded page that meets the condition.
func (b *tab) until(condition string) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, step)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		// an error means a page that is being left, or that chromedp does not know yet
		if met, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("document.readyState === 'complete' && !!("+condition+")")); err == nil && met {
			if _, err := chromedp.Run(ctx, chromedp.Text(chromedp.CSS("body"))); err == nil {
				b.remember()
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.t.Fatalf("the browser is at %s, where this is not true: %s: %s", b.location(), condition, b.text("body"))
		}
	}
}

func (b *tab) location() string {
	b.t.Helper()
	return get(b, chromedp.Location())
}

func (b *tab) text(selector string) string {
	b.t.Helper()
	return strings.TrimSpace(get(b, chromedp.Text(chromedp.CSS(selector))))
}

func (b *tab) has(selector string) bool {
	b.t.Helper()
	return eval[int](b, "document.querySelectorAll("+quote(selector)+").length") > 0
}

func eval[T any](b *tab, script string) T {
	b.t.Helper()
	return get(b, chromedp.Evaluate[T](script))
}

// fill types into a field, replacing its content.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.do(chromedp.Clear(chromedp.CSS(selector)), chromedp.SendKeys(chromedp.CSS(selector), text))
}

// signIn fills the sign-in page and sends it.
func (b *tab) signIn(username, password string) int64 {
	b.t.Helper()
	b.fill("#username", username)
	b.fill("#password", password)
	return b.click("main form button:not([type])")
}

// seen reads the request that the upstream received.
func (b *tab) seen() seen {
	b.t.Helper()
	var out seen
	if err := json.Unmarshal([]byte(b.text("#seen")), &out); err != nil {
		b.t.Fatalf("upstream at %s: %v", b.location(), err)
	}
	return out
}

// shot saves a picture of the whole page.
func (b *tab) shot(name string) {
	b.t.Helper()
	png := get(b, chromedp.FullScreenshot(100))
	if err := os.WriteFile(artifact(b.t, name+".png"), png, 0o600); err != nil {
		b.t.Fatal(err)
	}
}

// call sends a command of the DevTools protocol.
func call[P, R any](b *tab, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	return get(b, func(ctx context.Context, t *chromedp.Target) (R, error) { return cdp.Call(ctx, t, cmd, params) })
}

// screen sets the size of the window and the colour scheme.
func (b *tab) screen(width, height int64, scheme string) {
	b.t.Helper()
	call(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
		Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
	})
	call(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
}

// remember records the cookies of the browser as secrets.
func (b *tab) remember() {
	b.t.Helper()
	for _, c := range call(b, storage.GetCookies, storage.GetCookiesParams{}).Cookies {
		b.s.secret("cookie "+c.Name, c.Value)
	}
}

func quote(s string) string {
	raw, _ := json.Marshal(s) // a string always marshals
	return string(raw)
}
