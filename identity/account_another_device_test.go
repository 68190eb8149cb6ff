package identity_test

import (
	"html"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"rsc.io/qr"

	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const (
	anotherDevice = "/account/devices/sign-in"
	linkMade      = "person.SignInLinkCreatedEvent"
)

var carriedLink = regexp.MustCompile(`<p class="secret" id="link"><code>(https://[^<]+)</code>`)

// carrying is a dashboard whose users can make links for other devices.
func carrying(t *testing.T) (*harness, *browser, *config.Units) {
	t.Helper()
	h, b, u, _ := dashboard(t)
	u.Features.ActionToken.Login = config.ActionTokenLogin{Enabled: true, TTL: 600, AuthenticationLevel: 1, UIGenerationEnabled: true}
	return h, b, u
}

// carry makes a link and returns its path.
func (b *browser) carry() string {
	b.h.t.Helper()
	return shownPath(b.h.t, b.sendTo(anotherDevice))
}

// shownPath returns the path of the link that a page shows.
func shownPath(t testing.TB, a *answer) string {
	t.Helper()
	m := carriedLink.FindStringSubmatch(a.Body.String())
	if a.Code != http.StatusOK || m == nil {
		t.Fatalf("POST %s = %d, want a link:\n%s", anotherDevice, a.Code, a.Body)
	}
	code, err := qr.Encode(html.UnescapeString(m[1]), qr.M)
	if err != nil {
		t.Fatal(err)
	}
	if drawn := page.NewQR(code.Size, code.Black); !strings.Contains(a.Body.String(), `<path d="`+drawn.Path+`"`) {
		t.Errorf("the page does not draw the code of its link:\n%s", a.Body)
	}
	path, ok := strings.CutPrefix(html.UnescapeString(m[1]), issuer)
	if !ok {
		t.Fatalf("the link is %q, want one of ours", m[1])
	}
	return path
}

// TestAnotherDevice: a signed-in person makes a link that signs them in on another device, if both switches are on.
func TestAnotherDevice(t *testing.T) {
	t.Parallel()
	h, b, u := carrying(t)
	login := &u.Features.ActionToken.Login
	for name, off := range map[string]*bool{"login.enabled": &login.Enabled, "login.ui_generation_enabled": &login.UIGenerationEnabled} {
		*off = false
		if a := b.get("/account/devices"); strings.Contains(a.Body.String(), anotherDevice) {
			t.Errorf("without %s the devices lead to the page", name)
		}
		if a := b.get(anotherDevice); a.Code != http.StatusNotFound {
			t.Errorf("without %s the page = %d, want 404", name, a.Code)
		}
		*off = true
	}
	if a := b.get("/account/devices"); !strings.Contains(a.Body.String(), `href="`+anotherDevice+`"`) {
		t.Errorf("the devices do not lead to the page:\n%s", a.Body)
	}
	mine, err := h.session(b)
	if err != nil {
		t.Fatal(err)
	}
	h.clock.Advance(5 * time.Minute)
	if a := b.get(anotherDevice); a.Code != http.StatusOK || carriedLink.MatchString(a.Body.String()) || h.events()[linkMade] != 0 {
		t.Errorf("GET of the page = %d, and makes a link: %v", a.Code, h.events())
	}
	made := b.sendTo(anotherDevice)
	link := shownPath(t, made)
	if !strings.Contains(made.Body.String(), "within 10 minutes") || made.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the page does not say how long the link is good, or may be kept:\n%s", made.Body)
	}
	other := h.browser()
	page := other.get(link)
	if page.Code != http.StatusOK || page.url != "/sign-in/token" || !strings.Contains(page.Body.String(), demo) || !strings.Contains(page.Body.String(), "Sign in on this device?") || other.isSignedIn() {
		t.Fatalf("the link leads to %s, %d:\n%s", page.url, page.Code, page.Body)
	}
	if a := other.post(page); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account" {
		t.Errorf("POST = %d to %q, want 303 to the account", a.Code, a.Header().Get("Location"))
	}
	si, err := h.session(other)
	if err != nil || si.Subject != mine.Subject || si.SessionID == mine.SessionID || si.Level != 1 || !si.AuthTime.Equal(mine.AuthTime) || si.Provider != "identity" {
		t.Errorf("session %+v, %v, want one of the person at level 1 that is no newer than %v", si, err, mine.AuthTime)
	}
	if n := h.events(); n[linkMade] != 1 || n["person.ActionTokenProcessedEvent"] != 1 || n["login.LoginSucceededEvent"] != 2 {
		t.Errorf("events = %v", n)
	}
	if a := b.get("/account/activity"); !strings.Contains(a.Body.String(), "A link to sign in on another device was created") {
		t.Errorf("the activity does not tell:\n%s", a.Body)
	}
	h.checkInvariants()
}

// TestAnotherDeviceLevel: a link gives no higher level than the session that made it had, or than the configuration
// allows when it is used. A level is lost together with the method that gave it.
func TestAnotherDeviceLevel(t *testing.T) {
	t.Parallel()
	h, u := stepping(t, 3)
	u.Features.ActionToken.Login = config.ActionTokenLogin{Enabled: true, TTL: 600, AuthenticationLevel: 4, UIGenerationEnabled: true}
	b := h.browser()
	b.plain()
	enter := func(what, link string, want int) *browser {
		t.Helper()
		other := h.browser()
		other.post(other.get(link))
		if si, err := h.session(other); err != nil || si.Level != want {
			t.Errorf("%s: level %d, %v, want %d", what, si.Level, err, want)
		}
		return other
	}
	enter("of a password", b.carry(), 1)
	early := b.carry()
	b.app(authenticatorPage)
	enter("made before the step-up", early, 1)
	raised := enter("of an app", b.carry(), 3)
	u.Features.ActionToken.Login.AuthenticationLevel = 2
	enter("as configured", b.carry(), 2)
	link := b.carry()
	u.Features.ActionToken.Login.AuthenticationLevel = 1
	enter("as configured by now", link, 1)
	u.Features.ActionToken.Login.AuthenticationLevel = 4
	t.Run("attack 266: a link by a session that may set up nothing", func(t *testing.T) {
		low := h.browser()
		low.plain()
		if a := low.get(anotherDevice); !strings.HasPrefix(a.url, "/step-up") {
			t.Errorf("the page leads to %s, want the step-up", a.url)
		}
		before := h.events()[linkMade]
		if low.fill(low.get("/account/devices"), anotherDevice); h.events()[linkMade] != before {
			t.Error("it has made a link")
		}
	})
	late := b.carry()
	if a := b.post(b.get("/account/security/remove?method=authenticator")); a.Code != http.StatusSeeOther {
		t.Fatalf("removing the app = %d", a.Code)
	}
	if si, err := h.session(raised); err != nil || si.Level != 1 {
		t.Errorf("without the app the other device has level %d, %v, want 1", si.Level, err)
	}
	enter("made before the app was removed", late, 1)
	h.checkInvariants()
}

// TestAnotherDeviceLasts: a chain of links does not prolong the first sign-in.
func TestAnotherDeviceLasts(t *testing.T) {
	t.Parallel()
	h, b, _ := carrying(t)
	use := func(b *browser) {
		for range 22 { // 11 hours
			h.clock.Advance(30 * time.Minute)
			b.get("/account")
		}
	}
	use(b)
	next := h.browser()
	next.post(next.get(b.carry()))
	h.clock.Advance(50 * time.Minute)
	third := h.browser()
	third.post(third.get(next.carry()))
	if !third.isSignedIn() {
		t.Fatal("the third device is not signed in")
	}
	h.clock.Advance(11 * time.Minute)
	if b.isSignedIn() || next.isSignedIn() || third.isSignedIn() {
		t.Errorf("after 12 hours: first %t, second %t, third %t signed in", b.isSignedIn(), next.isSignedIn(), third.isSignedIn())
	}
}

// TestAnotherDeviceTime: the page says how long a link works. That is never longer than the sign-in behind it can last.
func TestAnotherDeviceTime(t *testing.T) {
	t.Parallel()
	h, b, u := carrying(t)
	login := &u.Features.ActionToken.Login
	says := func(want string) {
		t.Helper()
		if body := b.sendTo(anotherDevice).Body.String(); !strings.Contains(body, "within "+want+", while you’re signed in here.") {
			t.Errorf("a link of %d seconds: the page does not say %q:\n%s", login.TTL, want, body)
		}
	}
	login.TTL = 7200
	says("2 hours")
	login.TTL = 7 * 24 * 3600
	says("12 hours")
	h.clock.Advance(25 * time.Minute)
	says("11 hours")
	for range 25 { // to the last half hour
		b.get("/account")
		h.clock.Advance(27 * time.Minute)
	}
	b.get("/account")
	says("20 minutes")
	link := b.carry()
	h.clock.Advance(19*time.Minute + 59*time.Second)
	other := h.browser()
	if a := other.post(other.get(link)); a.Code != http.StatusSeeOther {
		t.Errorf("the link in its last second = %d, want 303", a.Code)
	}
}

// TestAnotherDeviceEnds: everything that invalidates a link.
func TestAnotherDeviceEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *harness, b *browser, u *config.Units){
		"its time":    func(h *harness, _ *browser, _ *config.Units) { h.clock.Advance(10 * time.Minute) },
		"a newer one": func(_ *harness, b *browser, _ *config.Units) { b.carry() },
		"signing out": func(_ *harness, b *browser, _ *config.Units) { b.post(b.get("/sign-out")) },
		"all others": func(h *harness, b *browser, _ *config.Units) {
			h.browser().signIn(demo, demoPassword)
			wantDone(t, "the end", b.fill(b.get("/account/devices"), "/account/devices", "session", "others"), "/account/devices?done=ended")
		},
		"the switch": func(_ *harness, _ *browser, u *config.Units) {
			u.Features.ActionToken.Login.UIGenerationEnabled = false
		},
		"both switches": func(_ *harness, _ *browser, u *config.Units) { u.Features.ActionToken.Login.Enabled = false },
		"another password": func(_ *harness, b *browser, _ *config.Units) {
			b.sendTo("/account/security/password", "current", demoPassword, "password", "Another horse 2")
		},
		"a block": func(h *harness, _ *browser, _ *config.Units) {
			if err := h.Person.SetState(t.Context(), demo, person.Blocked, event.Actor{}); err != nil {
				t.Error(err)
			}
		},
		"its withdrawal": func(h *harness, _ *browser, _ *config.Units) {
			if err := h.ActionToken.Revoke(t.Context(), h.details(demo).ID, "", event.Actor{}); err != nil {
				t.Error(err)
			}
		},
		"the end of all sessions": func(h *harness, _ *browser, _ *config.Units) {
			if err := h.store.Update(t.Context(), session.EndAllSessions); err != nil {
				t.Error(err)
			}
		},
		"the end of the session, from elsewhere": func(h *harness, b *browser, _ *config.Units) {
			s, err := h.session(b)
			if err != nil {
				t.Error(err)
			}
			other := h.browser()
			other.signIn(demo, demoPassword)
			other.fill(other.get("/account/devices"), "/account/devices", "session", s.SessionID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b, u := carrying(t)
			link := b.carry()
			open, late := h.browser(), h.browser()
			page := open.get(link)
			end(h, b, u)
			if a := open.post(page); a.Code != http.StatusBadRequest || open.isSignedIn() {
				t.Errorf("POST after %s = %d, want 400", name, a.Code)
			}
			if a := late.get(link); a.Code != http.StatusBadRequest {
				t.Errorf("GET after %s = %d, want 400", name, a.Code)
			}
			token := link[strings.Index(link, "=")+1:]
			if err := h.ActionToken.Check(t.Context(), token, ""); err == nil {
				t.Errorf("after %s the token is good for API clients", name)
			}
			h.checkInvariants()
		})
	}
}

// TestAnotherDeviceByAPI: a backend that processes the token gains no more from it than a browser would.
func TestAnotherDeviceByAPI(t *testing.T) {
	t.Parallel()
	h, b, _ := carrying(t)
	link := b.carry()
	d, err := h.ActionToken.Process(t.Context(), link[strings.Index(link, "=")+1:], "", event.Actor{ID: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	if a := h.browser().get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link of a token that was processed = %d, want 400", a.Code)
	}
	other := h.browser()
	page := other.get(strings.TrimPrefix(d.RedirectURI, issuer))
	b.post(b.get("/sign-out"))
	if a := other.post(page); a.Code != http.StatusBadRequest || other.isSignedIn() {
		t.Errorf("after the end of the session that made it = %d, want 400", a.Code)
	}
}

// TestAnotherDeviceOfProvider: a sign-in at a provider cannot be passed on to another device.
func TestAnotherDeviceOfProvider(t *testing.T) {
	t.Parallel()
	h := newActionTokens(t)
	h.set(func(u *config.Units) { u.Features.ActionToken.Login.UIGenerationEnabled = true })
	h.at("partner")
	b := h.browser()
	h.mustEnter(b, ann())
	if a := b.get("/account/devices"); a.Code != http.StatusOK || strings.Contains(a.Body.String(), anotherDevice) {
		t.Errorf("the devices = %d, and lead to the page", a.Code)
	}
	if a := b.get(anotherDevice); a.Code != http.StatusNotFound {
		t.Errorf("the page = %d, want 404", a.Code)
	}
}

func TestAnotherDeviceAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 237: a scanner follows the link first; address, Referer and log", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		link := b.carry()
		token := link[strings.Index(link, "=")+1:]
		for range 3 {
			h.browser().get(link)
			h.browser().do(http.MethodHead, link, "")
		}
		other := h.browser()
		first := other.do(http.MethodGet, link, "")
		if to := first.Header().Get("Location"); first.Code != http.StatusSeeOther || to != "/sign-in/token" || first.Header().Get("Referrer-Policy") != "no-referrer" || first.Header().Get("Cache-Control") != "no-store" || first.Body.Len() != 0 {
			t.Errorf("GET of the link = %d to %q, want a redirect without the token and without a page", first.Code, to)
		}
		page := other.get("/sign-in/token")
		if strings.Contains(page.Body.String(), token) {
			t.Error("the page holds the token")
		}
		if a := other.post(page); a.Code != http.StatusSeeOther || !other.isSignedIn() {
			t.Errorf("POST = %d, want a session", a.Code)
		}
		for key, value := range h.dump() {
			if strings.Contains(key+value, token) {
				t.Errorf("the record %q holds the token", key)
			}
		}
		for _, e := range h.logs.All() {
			for _, v := range e.ContextMap() {
				if strings.Contains(toString(v), token) {
					t.Errorf("log line tells the token: %s", e.Message)
				}
			}
		}
		h.checkInvariants()
	})
	t.Run("attack 231: a link twice, and sixty-four times at once", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		link := b.carry()
		var mu sync.Mutex
		codes := map[int]int{}
		var all sync.WaitGroup
		browsers, pages := make([]*browser, 64), make([]*answer, 64)
		for i := range browsers {
			browsers[i] = h.browser()
			pages[i] = browsers[i].get(link)
		}
		for i, b := range browsers {
			all.Go(func() {
				a := b.post(pages[i])
				mu.Lock()
				defer mu.Unlock()
				codes[a.Code]++
			})
		}
		all.Wait()
		if codes[303] != 1 || codes[400] != 63 {
			t.Errorf("statuses %v, want one 303", codes)
		}
	})
	t.Run("attack 231: sixty-four links made at once leave one", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		page := b.get(anotherDevice)
		var mu sync.Mutex
		codes, links := map[int]int{}, []string{}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				a := b.fill(page, anotherDevice)
				mu.Lock()
				defer mu.Unlock()
				codes[a.Code]++
				if a.Code == http.StatusOK {
					links = append(links, shownPath(t, a))
				}
			})
		}
		all.Wait()
		good := 0
		for _, link := range links {
			if h.browser().get(link).Code == http.StatusOK {
				good++
			}
		}
		if codes[200] != 10 || codes[429] != 54 || good != 1 {
			t.Errorf("statuses %v and %d links that work, want ten made of which the last works", codes, good)
		}
	})
	t.Run("attack 28: a stranger's link in the browser of somebody else", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		h.add(person.NewPerson{Username: "victim@example.com", Password: secret.New("Victim horse 3")})
		victim := h.browser()
		victim.signIn("victim@example.com", "Victim horse 3")
		page := victim.get(b.carry())
		for _, want := range []string{demo, "You’re signed in here as victim@example.com", `href="/account"`} {
			if !strings.Contains(page.Body.String(), want) {
				t.Errorf("the page does not say %q:\n%s", want, page.Body)
			}
		}
		if si, err := h.session(victim); err != nil || si.Subject == h.details(demo).ID {
			t.Errorf("opening the link has changed who is signed in: %v", err)
		}
		victim.header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := victim.post(page); a.Code != http.StatusForbidden {
			t.Errorf("the form of another site = %d, want 403", a.Code)
		}
		victim.header = nil
		stranger := h.browser()
		if a := stranger.do(http.MethodPost, "/sign-in/token", "csrf="+page.csrf()); a.Code != http.StatusBadRequest || stranger.isSignedIn() {
			t.Errorf("the form in a browser without the link = %d, want 400", a.Code)
		}
	})
	t.Run("the own link where the person is signed in", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		link, before := b.carry(), b.session()
		if a := b.get(link); a.url != "/account" || b.session() != before {
			t.Errorf("it leads to %s, want the account, signed in as before", a.url)
		}
		other := h.browser()
		if a := other.post(other.get(link)); a.Code != http.StatusSeeOther {
			t.Errorf("it was used up: %d", a.Code)
		}
	})
	t.Run("attack 266: links by GET, without the form's token, by the dozen", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		if a := b.do(http.MethodPost, anotherDevice, ""); a.Code != http.StatusForbidden || h.events()[linkMade] != 0 {
			t.Errorf("a form without its token = %d, want 403", a.Code)
		}
		for range 10 {
			b.carry()
		}
		if a := b.sendTo(anotherDevice); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") == "" || h.events()[linkMade] != 10 {
			t.Errorf("the eleventh = %d, want 429", a.Code)
		}
		if a := h.browser().get(anotherDevice); !strings.HasPrefix(a.url, "/sign-in") {
			t.Errorf("nobody's page is %s, want the sign-in", a.url)
		}
		for _, bad := range []string{"x", "ghat_" + strings.Repeat("A", 49), "ghlt_" + strings.Repeat("A", 49)} {
			if a := h.browser().get("/sign-in/token?token=" + bad); a.Code != http.StatusBadRequest {
				t.Errorf("token %q = %d, want 400", bad, a.Code)
			}
		}
		made, err := h.ActionToken.Make(t.Context(), h.details(demo).ID, actiontoken.NewActionToken{Actions: []actiontoken.Action{{Type: actiontoken.ActionLogin}}}, event.Actor{})
		if err != nil {
			t.Fatal(err)
		}
		if a := h.browser().get("/sign-in/token?token=" + made.Token); a.Code != http.StatusBadRequest {
			t.Errorf("a token of an API client = %d, want 400", a.Code)
		}
	})
}

// TestAnotherDeviceByPasskey: removing a passkey lowers every session whose level comes from it, even through a chain
// of links. Sessions of another passkey keep their level.
func TestAnotherDeviceByPasskey(t *testing.T) {
	t.Parallel()
	h, u := configured(t, passkeysOn)
	u.Features.ActionToken.Login = config.ActionTokenLogin{Enabled: true, TTL: 600, AuthenticationLevel: 4, UIGenerationEnabled: true}
	lost, second := newToken(t), newToken(t)
	first := h.browser()
	first.signIn(demo, demoPassword)
	first.addPasskey(lost)
	by := func(k *token) *browser {
		t.Helper()
		b := h.browser()
		if a := b.tryPasskey(k); a.Code != http.StatusSeeOther {
			t.Fatalf("the passkey = %d", a.Code)
		}
		return b
	}
	carried := func(link string) *browser {
		t.Helper()
		b := h.browser()
		if a := b.post(b.get(link)); a.Code != http.StatusSeeOther {
			t.Fatalf("the link = %d", a.Code)
		}
		return b
	}
	owner := by(lost)
	owner.addPasskey(second)
	thief, phone := by(lost), by(second)
	next := carried(thief.carry())
	third := carried(next.carry())
	tablet := carried(phone.carry())
	raised := carried(owner.carry())
	late := thief.carry()
	levels := func(when string, want map[*browser]int) {
		t.Helper()
		for b, level := range want {
			if got := b.level(); got != level {
				t.Errorf("%s: level %d, want %d", when, got, level)
			}
		}
	}
	levels("before", map[*browser]int{thief: 3, phone: 3, next: 3, third: 3, tablet: 3, raised: 3})
	page := owner.get("/account/security")
	if a := owner.post(owner.get(passkeyRemoval.FindString(page.Body.String()))); a.Code != http.StatusSeeOther {
		t.Fatalf("removing the first passkey = %d", a.Code)
	}
	levels("after the removal", map[*browser]int{thief: 1, phone: 3, next: 1, third: 1, tablet: 3, carried(late): 1, owner: 3, raised: 3})
	h.checkInvariants()
}
