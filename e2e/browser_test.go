package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/network"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/storage"
	"github.com/chromedp/chromedp"
)

// tab is a tab of a real browser.
type tab struct {
	t   *testing.T
	s   *server
	ctx context.Context
}

var shots = flag.Bool("shots", false, "leave pictures of the pages in artifacts, for people to look at")

// step is the longest time for one step in a browser.
const step = 60 * time.Second

// chrome is the Chromium that tests share. Each test has a browser context in it, with cookies and storage of its own.
var chrome struct {
	mu   sync.Mutex         // guards ctx and stop
	ctx  context.Context    // of the browser; nil: none was needed yet
	stop func() (err error) // ends the browser and removes its directory
}

// shared returns the context of the shared browser. A test starts the browser if it does not run yet, or has crashed in
// an earlier test.
func shared(t *testing.T) context.Context {
	t.Helper()
	chrome.mu.Lock()
	defer chrome.mu.Unlock()
	if chrome.ctx != nil && isLost(chrome.ctx) {
		t.Logf("Chromium crashed in another test; this one starts it again: %v", chrome.stop())
		chrome.ctx = nil
	}
	if chrome.ctx == nil {
		chrome.ctx, chrome.stop = launch(t)
	}
	return chrome.ctx
}

// stopShared ends the shared browser.
func stopShared() error {
	chrome.mu.Lock()
	defer chrome.mu.Unlock()
	if chrome.ctx == nil {
		return nil
	}
	return chrome.stop()
}

// isLost reports whether the browser of a context has ended.
func isLost(ctx context.Context) bool {
	select {
	case <-chromedp.FromContext(ctx).Browser.LostConnection:
		return true
	default:
		return false
	}
}

// launch starts a Chromium without a profile.
func launch(t *testing.T, more ...chromedp.ExecAllocatorOption) (ctx context.Context, stop func() error) {
	t.Helper()
	dir, err := os.MkdirTemp("", "gatehouse-chromium-")
	if err != nil {
		t.Fatal(err)
	}
	opts := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(program(t, headless)), chromedp.UserDataDir(dir), chromedp.Headless, chromedp.NoSandbox, chromedp.DisableGPU,
		chromedp.NoFirstRun, chromedp.NoDefaultBrowserCheck, chromedp.WindowSize(1280, 800), chromedp.WSURLReadTimeout(step),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true),
		chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-renderer-backgrounding", true),
		chromedp.Flag("disable-background-timer-throttling", true), chromedp.Flag("disable-backgrounding-occluded-windows", true),
		// Each window would start pages and extensions of Chromium's own.
		chromedp.Flag("disable-extensions", true), chromedp.Flag("disable-component-extensions-with-background-pages", true),
		chromedp.Flag("disable-default-apps", true), chromedp.Flag("disable-breakpad", true),
		chromedp.Flag("disable-features", "PreloadTopChromeWebUI,Translate,MediaRouter,OptimizationHints"),
	}
	alloc, stopAll := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), append(opts, more...)...)
	ctx, cancel := chromedp.NewContext(alloc)
	stop = func() error {
		defer stopAll()
		defer cancel()
		var err error
		if !isLost(ctx) {
			limit, done := context.WithTimeout(ctx, step)
			defer done()
			err = chromedp.Cancel(limit)
		}
		return errors.Join(err, os.RemoveAll(dir))
	}
	if err := chromedp.Do(ctx); err != nil {
		stopAll()
		_ = os.RemoveAll(dir) // the test has failed already
		t.Fatalf("start Chromium: %v", err)
	}
	return ctx, stop
}

// browse opens a browser without cookies or storage. Its cookies are recorded as secrets of the server.
func (s *server) browse(t *testing.T) *tab {
	t.Helper()
	return (&tab{t, s, shared(t)}).tab(chromedp.WithNewBrowserContext())
}

// browseWith is browse with a Chromium of its own, for a test that needs options of the command line.
func (s *server) browseWith(t *testing.T, more ...chromedp.ExecAllocatorOption) *tab {
	t.Helper()
	ctx, stop := launch(t, more...)
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Logf("stop Chromium: %v", err)
		}
	})
	b := &tab{t, s, ctx}
	b.watch()
	b.begins(asksFirst)
	return b
}

// windowed is a Chromium as people have it: the headless shell shows tickets to every server.
var windowed = []string{"chromium", "chromium-browser", "google-chrome"}

// headless is the browser of the other tests. The headless shell takes a third of the processor time, and not every
// system has it.
var headless = append([]string{"chromium-headless-shell"}, windowed...)

// program returns the path of the first of some programs that is there.
func program(t *testing.T, names []string) string {
	t.Helper()
	for _, name := range names {
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
	other := &tab{b.t, b.s, ctx}
	b.t.Cleanup(func() {
		other.keep()
		cancel()
	})
	other.watch()
	other.begins(asksFirst)
	return other
}

// asksFirst keeps a browser from making passkeys without a question, so a sign-in leads where it is to lead at once.
const asksFirst = `if (window.PublicKeyCredential) PublicKeyCredential.getClientCapabilities = undefined`

// begins runs a script at the beginning of each page.
func (b *tab) begins(script string) {
	b.t.Helper()
	call(b, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{Source: script})
}

// keep saves a picture of the tab if its test has failed.
func (b *tab) keep() {
	if !b.t.Failed() || isLost(b.ctx) {
		return
	}
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return // it shows nothing any more
	}
	file := artifact(b.t, "failed-"+random(6)+".png")
	if err := os.WriteFile(file, picture, 0o600); err == nil {
		b.t.Logf("the tab at the end is %s", file)
	}
}

// watch records the codes in the addresses that the tab requests. It also binds the tab to its context, so later steps
// can have a deadline.
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
	if err == nil { // all tabs have the focus, as a tab that is alone in its browser has
		_, err = cdp.Call(b.ctx, chromedp.FromContext(b.ctx).Target, emulation.SetFocusEmulationEnabled,
			emulation.SetFocusEmulationEnabledParams{Enabled: true})
	}
	if err != nil {
		b.fatalf("open a tab: %v", err)
	}
}

// fatalf ends the test. The message says so if the browser, not the page, is the cause.
func (b *tab) fatalf(format string, args ...any) {
	b.t.Helper()
	if isLost(b.ctx) {
		format += ": Chromium has crashed, or was killed, and all tests that used it at that time fail"
	}
	b.t.Fatalf(format, args...)
}

// get runs an action that returns a value.
func get[T any](b *tab, a chromedp.Action[T]) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, step)
	defer cancel()
	v, err := chromedp.Run(ctx, a)
	if err != nil {
		b.fatalf("browser at %q: %v", b.where(), err)
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
		b.fatalf("browser at %q: %v", b.where(), err)
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
		case <-chromedp.FromContext(b.ctx).Browser.LostConnection:
			b.fatalf("waiting for %s", condition)
		case <-ctx.Done():
			b.t.Fatalf("the browser is at %s, where this is not true: %s: %s", b.location(), condition, b.text("body"))
		}
	}
}

// where returns the address of the tab for a message, if known.
func (b *tab) where() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	at, _ := chromedp.Run(ctx, chromedp.Location())
	return at
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
	b.do(chromedp.Clear(chromedp.CSS(selector)))
	b.types(selector, text)
}

// types writes into a field, at the end of its content. A key for each letter costs Chromium a hundred times as much as
// the text at once, so they are for what needs them: Enter, and fields with parts, such as dates.
func (b *tab) types(selector, text string) {
	b.t.Helper()
	if strings.ContainsAny(text, "\r\t") || eval[bool](b, "/date|time|month|week/.test(document.querySelector("+quote(selector)+").type)") {
		b.do(chromedp.SendKeys(chromedp.CSS(selector), text))
		return
	}
	b.do(chromedp.Focus(chromedp.CSS(selector)))
	call(b, input.InsertText, input.InsertTextParams{Text: text})
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

// shot saves a picture of the whole page, with -shots.
func (b *tab) shot(name string) {
	b.t.Helper()
	if !*shots {
		return
	}
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

// cookies returns the cookies of the browser, of all sites.
func (b *tab) cookies() []*network.Cookie {
	b.t.Helper()
	return stored(b, storage.GetCookies, storage.GetCookiesParams{BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID}).Cookies
}

// forget turns the browser into that of a new visitor.
func (b *tab) forget() {
	b.t.Helper()
	stored(b, storage.ClearCookies, storage.ClearCookiesParams{BrowserContextID: chromedp.FromContext(b.ctx).BrowserContextID})
}

// stored sends a command about storage. Sent to a tab, such a command is about the storage of the whole Chromium.
func stored[P, R any](b *tab, cmd cdp.Command[P, R], params P) R {
	b.t.Helper()
	return get(b, func(ctx context.Context, _ *chromedp.Target) (R, error) {
		return cdp.Call(ctx, chromedp.FromContext(ctx).Browser, cmd, params)
	})
}

// remember records the cookies of the browser as secrets.
func (b *tab) remember() {
	b.t.Helper()
	for _, c := range b.cookies() {
		b.s.secret("cookie "+c.Name, c.Value)
	}
}

func quote(s string) string {
	raw, _ := json.Marshal(s) // a string always marshals
	return string(raw)
}
