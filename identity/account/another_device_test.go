package account_test

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
	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

const (
	anotherDevice = "/account/devices/sign-in"
	linkMade      = "person.SignInLinkCreatedEvent"
)

var carriedLink = regexp.MustCompile(`<p class="secret" id="link"><code>(https://[^<]+)</code>`)

// carrying is a dashboard whose users can make links for other devices.
func carrying(t *testing.T) (*identitytest.Harness, *identitytest.Browser, *settings.Units) {
	t.Helper()
	h, b, u, _ := dashboard(t)
	u.Features.ActionToken.Login = settings.ActionTokenLogin{Enabled: true, TTL: 600, AuthenticationLevel: 1, UIGenerationEnabled: true}
	return h, b, u
}

// carry makes a link and returns its path.
func carry(b *identitytest.Browser) string {
	b.H.T.Helper()
	return shownPath(b.H.T, sendTo(b, anotherDevice))
}

// shownPath returns the path of the link that a page shows.
func shownPath(t testing.TB, a *identitytest.Answer) string {
	t.Helper()
	m := carriedLink.FindStringSubmatch(a.Body.String())
	if a.Code != http.StatusOK || m == nil {
		t.Fatalf("POST %s = %d, want a link:\n%s", anotherDevice, a.Code, a.Body)
	}
	code, err := qr.Encode(html.UnescapeString(m[1]), qr.M)
	if err != nil {
		t.Fatal(err)
	}
	if drawn := web.NewQR(code.Size, code.Black); !strings.Contains(a.Body.String(), `<path d="`+drawn.Path+`"`) {
		t.Errorf("the page does not draw the code of its link:\n%s", a.Body)
	}
	path, ok := strings.CutPrefix(html.UnescapeString(m[1]), identitytest.Issuer)
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
		if a := b.Get("/account/devices"); strings.Contains(a.Body.String(), anotherDevice) {
			t.Errorf("without %s the devices lead to the page", name)
		}
		if a := b.Get(anotherDevice); a.Code != http.StatusNotFound {
			t.Errorf("without %s the page = %d, want 404", name, a.Code)
		}
		*off = true
	}
	if a := b.Get("/account/devices"); !strings.Contains(a.Body.String(), `href="`+anotherDevice+`"`) {
		t.Errorf("the devices do not lead to the page:\n%s", a.Body)
	}
	mine, err := h.SessionOf(b)
	if err != nil {
		t.Fatal(err)
	}
	h.Clock.Advance(5 * time.Minute)
	if a := b.Get(anotherDevice); a.Code != http.StatusOK || carriedLink.MatchString(a.Body.String()) || h.Events()[linkMade] != 0 {
		t.Errorf("GET of the page = %d, and makes a link: %v", a.Code, h.Events())
	}
	made := sendTo(b, anotherDevice)
	link := shownPath(t, made)
	if !strings.Contains(made.Body.String(), "within 10 minutes") || made.Header().Get("Cache-Control") != "no-store" {
		t.Errorf("the page does not say how long the link is good, or may be kept:\n%s", made.Body)
	}
	other := h.Browser()
	page := other.Get(link)
	if page.Code != http.StatusOK || page.URL != "/sign-in/token" || !strings.Contains(page.Body.String(), identitytest.Demo) ||
		!strings.Contains(page.Body.String(), "Sign in on this device?") || other.IsSignedIn() {
		t.Fatalf("the link leads to %s, %d:\n%s", page.URL, page.Code, page.Body)
	}
	if a := other.Post(page); a.Code != http.StatusSeeOther || a.Header().Get("Location") != "/account" {
		t.Errorf("POST = %d to %q, want 303 to the account", a.Code, a.Header().Get("Location"))
	}
	si, err := h.SessionOf(other)
	if err != nil || si.Subject != mine.Subject || si.SessionID == mine.SessionID || si.Level != 1 || !si.AuthTime.Equal(mine.AuthTime) ||
		si.Provider != "identity" {
		t.Errorf("session %+v, %v, want one of the person at level 1 that is no newer than %v", si, err, mine.AuthTime)
	}
	if n := h.Events(); n[linkMade] != 1 || n["person.ActionTokenProcessedEvent"] != 1 || n["login.LoginSucceededEvent"] != 2 {
		t.Errorf("events = %v", n)
	}
	if a := b.Get("/account/activity"); !strings.Contains(a.Body.String(), "A link to sign in on another device was created") {
		t.Errorf("the activity does not tell:\n%s", a.Body)
	}
	h.CheckInvariants()
}

// TestAnotherDeviceLevel: a link gives no higher level than the session that made it had, or than the configuration
// allows when it is used. A level is lost together with the method that gave it.
func TestAnotherDeviceLevel(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewStepping(t, 3)
	u.Features.ActionToken.Login = settings.ActionTokenLogin{Enabled: true, TTL: 600, AuthenticationLevel: 4, UIGenerationEnabled: true}
	b := h.Browser()
	b.Plain()
	enter := func(what, link string, want int) *identitytest.Browser {
		t.Helper()
		other := h.Browser()
		other.Post(other.Get(link))
		if si, err := h.SessionOf(other); err != nil || si.Level != want {
			t.Errorf("%s: level %d, %v, want %d", what, si.Level, err, want)
		}
		return other
	}
	enter("of a password", carry(b), 1)
	early := carry(b)
	b.AddApp(identitytest.AuthenticatorPage)
	enter("made before the step-up", early, 1)
	raised := enter("of an app", carry(b), 3)
	u.Features.ActionToken.Login.AuthenticationLevel = 2
	enter("as configured", carry(b), 2)
	link := carry(b)
	u.Features.ActionToken.Login.AuthenticationLevel = 1
	enter("as configured by now", link, 1)
	u.Features.ActionToken.Login.AuthenticationLevel = 4
	t.Run("attack 266: a link by a session that may set up nothing", func(t *testing.T) {
		low := h.Browser()
		low.Plain()
		if a := low.Get(anotherDevice); !strings.HasPrefix(a.URL, "/step-up") {
			t.Errorf("the page leads to %s, want the step-up", a.URL)
		}
		before := h.Events()[linkMade]
		if low.Fill(low.Get("/account/devices"), anotherDevice); h.Events()[linkMade] != before {
			t.Error("it has made a link")
		}
	})
	late := carry(b)
	if a := b.Post(b.Get("/account/security/remove?method=authenticator")); a.Code != http.StatusSeeOther {
		t.Fatalf("removing the app = %d", a.Code)
	}
	if si, err := h.SessionOf(raised); err != nil || si.Level != 1 {
		t.Errorf("without the app the other device has level %d, %v, want 1", si.Level, err)
	}
	enter("made before the app was removed", late, 1)
	h.CheckInvariants()
}

// TestAnotherDeviceLasts: a chain of links does not prolong the first sign-in.
func TestAnotherDeviceLasts(t *testing.T) {
	t.Parallel()
	h, b, _ := carrying(t)
	use := func(b *identitytest.Browser) {
		for range 22 { // 11 hours
			h.Clock.Advance(30 * time.Minute)
			b.Get("/account")
		}
	}
	use(b)
	next := h.Browser()
	next.Post(next.Get(carry(b)))
	h.Clock.Advance(50 * time.Minute)
	third := h.Browser()
	third.Post(third.Get(carry(next)))
	if !third.IsSignedIn() {
		t.Fatal("the third device is not signed in")
	}
	h.Clock.Advance(11 * time.Minute)
	if b.IsSignedIn() || next.IsSignedIn() || third.IsSignedIn() {
		t.Errorf("after 12 hours: first %t, second %t, third %t signed in", b.IsSignedIn(), next.IsSignedIn(), third.IsSignedIn())
	}
}

// TestAnotherDeviceTime: the page says how long a link works. That is never longer than the sign-in behind it can last.
func TestAnotherDeviceTime(t *testing.T) {
	t.Parallel()
	h, b, u := carrying(t)
	login := &u.Features.ActionToken.Login
	says := func(want string) {
		t.Helper()
		if body := sendTo(b, anotherDevice).Body.String(); !strings.Contains(body, "within "+want+", while you’re signed in here.") {
			t.Errorf("a link of %d seconds: the page does not say %q:\n%s", login.TTL, want, body)
		}
	}
	login.TTL = 7200
	says("2 hours")
	login.TTL = 7 * 24 * 3600
	says("12 hours")
	h.Clock.Advance(25 * time.Minute)
	says("11 hours")
	for range 25 { // to the last half hour
		b.Get("/account")
		h.Clock.Advance(27 * time.Minute)
	}
	b.Get("/account")
	says("20 minutes")
	link := carry(b)
	h.Clock.Advance(19*time.Minute + 59*time.Second)
	other := h.Browser()
	if a := other.Post(other.Get(link)); a.Code != http.StatusSeeOther {
		t.Errorf("the link in its last second = %d, want 303", a.Code)
	}
}

// TestAnotherDeviceEnds: everything that invalidates a link.
func TestAnotherDeviceEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(h *identitytest.Harness, b *identitytest.Browser, u *settings.Units){
		"its time": func(h *identitytest.Harness, _ *identitytest.Browser, _ *settings.Units) {
			h.Clock.Advance(10 * time.Minute)
		},
		"a newer one": func(_ *identitytest.Harness, b *identitytest.Browser, _ *settings.Units) { carry(b) },
		"signing out": func(_ *identitytest.Harness, b *identitytest.Browser, _ *settings.Units) { b.Post(b.Get("/sign-out")) },
		"all others": func(h *identitytest.Harness, b *identitytest.Browser, _ *settings.Units) {
			h.Browser().SignIn(identitytest.Demo, identitytest.DemoPassword)
			wantDone(t, "the end", b.Fill(b.Get("/account/devices"), "/account/devices", "session", "others"), "/account/devices?done=ended")
		},
		"the switch": func(_ *identitytest.Harness, _ *identitytest.Browser, u *settings.Units) {
			u.Features.ActionToken.Login.UIGenerationEnabled = false
		},
		"both switches": func(_ *identitytest.Harness, _ *identitytest.Browser, u *settings.Units) {
			u.Features.ActionToken.Login.Enabled = false
		},
		"another password": func(_ *identitytest.Harness, b *identitytest.Browser, _ *settings.Units) {
			sendTo(b, "/account/security/password", "current", identitytest.DemoPassword, "password", "Another horse 2")
		},
		"a block": func(h *identitytest.Harness, _ *identitytest.Browser, _ *settings.Units) {
			if err := h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, audit.Actor{}); err != nil {
				t.Error(err)
			}
		},
		"its withdrawal": func(h *identitytest.Harness, _ *identitytest.Browser, _ *settings.Units) {
			if err := h.ActionToken.Revoke(t.Context(), h.Details(identitytest.Demo).ID, "", audit.Actor{}); err != nil {
				t.Error(err)
			}
		},
		"the end of all sessions": func(h *identitytest.Harness, _ *identitytest.Browser, _ *settings.Units) {
			if err := h.Store.Update(t.Context(), session.EndAllSessions); err != nil {
				t.Error(err)
			}
		},
		"the end of the session, from elsewhere": func(h *identitytest.Harness, b *identitytest.Browser, _ *settings.Units) {
			s, err := h.SessionOf(b)
			if err != nil {
				t.Error(err)
			}
			other := h.Browser()
			other.SignIn(identitytest.Demo, identitytest.DemoPassword)
			other.Fill(other.Get("/account/devices"), "/account/devices", "session", s.SessionID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, b, u := carrying(t)
			link := carry(b)
			open, late := h.Browser(), h.Browser()
			page := open.Get(link)
			end(h, b, u)
			if a := open.Post(page); a.Code != http.StatusBadRequest || open.IsSignedIn() {
				t.Errorf("POST after %s = %d, want 400", name, a.Code)
			}
			if a := late.Get(link); a.Code != http.StatusBadRequest {
				t.Errorf("GET after %s = %d, want 400", name, a.Code)
			}
			token := link[strings.Index(link, "=")+1:]
			if err := h.ActionToken.Check(t.Context(), token, ""); err == nil {
				t.Errorf("after %s the token is good for API clients", name)
			}
			h.CheckInvariants()
		})
	}
}

// TestAnotherDeviceByAPI: a backend that processes the token gains no more from it than a browser would.
func TestAnotherDeviceByAPI(t *testing.T) {
	t.Parallel()
	h, b, _ := carrying(t)
	link := carry(b)
	d, err := h.ActionToken.Process(t.Context(), link[strings.Index(link, "=")+1:], "", audit.Actor{ID: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	if a := h.Browser().Get(link); a.Code != http.StatusBadRequest {
		t.Errorf("the link of a token that was processed = %d, want 400", a.Code)
	}
	other := h.Browser()
	page := other.Get(strings.TrimPrefix(d.RedirectURI, identitytest.Issuer))
	b.Post(b.Get("/sign-out"))
	if a := other.Post(page); a.Code != http.StatusBadRequest || other.IsSignedIn() {
		t.Errorf("after the end of the session that made it = %d, want 400", a.Code)
	}
}

// TestAnotherDeviceOfProvider: a sign-in at a provider cannot be passed on to another device.
func TestAnotherDeviceOfProvider(t *testing.T) {
	t.Parallel()
	h := identitytest.NewActionTokens(t)
	h.Set(func(u *settings.Units) { u.Features.ActionToken.Login.UIGenerationEnabled = true })
	h.At("partner")
	b := h.Browser()
	h.MustEnter(b, identitytest.Ann())
	if a := b.Get("/account/devices"); a.Code != http.StatusOK || strings.Contains(a.Body.String(), anotherDevice) {
		t.Errorf("the devices = %d, and lead to the page", a.Code)
	}
	if a := b.Get(anotherDevice); a.Code != http.StatusNotFound {
		t.Errorf("the page = %d, want 404", a.Code)
	}
}

func TestAnotherDeviceAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 237: a scanner follows the link first; address, Referer and log", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		link := carry(b)
		token := link[strings.Index(link, "=")+1:]
		for range 3 {
			h.Browser().Get(link)
			h.Browser().Do(http.MethodHead, link, "")
		}
		other := h.Browser()
		first := other.Do(http.MethodGet, link, "")
		if to := first.Header().Get("Location"); first.Code != http.StatusSeeOther || to != "/sign-in/token" ||
			first.Header().Get("Referrer-Policy") != "no-referrer" || first.Header().Get("Cache-Control") != "no-store" || first.Body.Len() != 0 {
			t.Errorf("GET of the link = %d to %q, want a redirect without the token and without a page", first.Code, to)
		}
		page := other.Get("/sign-in/token")
		if strings.Contains(page.Body.String(), token) {
			t.Error("the page holds the token")
		}
		if a := other.Post(page); a.Code != http.StatusSeeOther || !other.IsSignedIn() {
			t.Errorf("POST = %d, want a session", a.Code)
		}
		for key, value := range h.Dump() {
			if strings.Contains(key+value, token) {
				t.Errorf("the record %q holds the token", key)
			}
		}
		for _, e := range h.Logs.All() {
			for _, v := range e.ContextMap() {
				if strings.Contains(identitytest.ToString(v), token) {
					t.Errorf("log line tells the token: %s", e.Message)
				}
			}
		}
		h.CheckInvariants()
	})
	t.Run("attack 231: a link twice, and sixty-four times at once", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		if codes := h.AtOnce(carry(b), 64); codes[303] != 1 || codes[400] != 63 {
			t.Errorf("statuses %v, want one 303", codes)
		}
	})
	t.Run("attack 231: sixty-four links made at once leave one", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		page := b.Get(anotherDevice)
		var mu sync.Mutex
		codes, links := map[int]int{}, []string{}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				a := b.Fill(page, anotherDevice)
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
			if h.Browser().Get(link).Code == http.StatusOK {
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
		h.Add(person.NewPerson{Username: "victim@example.com", Password: secret.New("Victim horse 3")})
		victim := h.Browser()
		victim.SignIn("victim@example.com", "Victim horse 3")
		page := victim.Get(carry(b))
		for _, want := range []string{identitytest.Demo, "You’re signed in here as victim@example.com", `href="/account"`} {
			if !strings.Contains(page.Body.String(), want) {
				t.Errorf("the page does not say %q:\n%s", want, page.Body)
			}
		}
		if si, err := h.SessionOf(victim); err != nil || si.Subject == h.Details(identitytest.Demo).ID {
			t.Errorf("opening the link has changed who is signed in: %v", err)
		}
		victim.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}}
		if a := victim.Post(page); a.Code != http.StatusForbidden {
			t.Errorf("the form of another site = %d, want 403", a.Code)
		}
		victim.Header = nil
		stranger := h.Browser()
		if a := stranger.Do(http.MethodPost, "/sign-in/token", "csrf="+page.CSRF()); a.Code != http.StatusBadRequest || stranger.IsSignedIn() {
			t.Errorf("the form in a browser without the link = %d, want 400", a.Code)
		}
	})
	t.Run("the own link where the person is signed in", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		link, before := carry(b), b.Session()
		if a := b.Get(link); a.URL != "/account" || b.Session() != before {
			t.Errorf("it leads to %s, want the account, signed in as before", a.URL)
		}
		other := h.Browser()
		if a := other.Post(other.Get(link)); a.Code != http.StatusSeeOther {
			t.Errorf("it was used up: %d", a.Code)
		}
	})
	t.Run("attack 266: links by GET, without the form's token, by the dozen", func(t *testing.T) {
		t.Parallel()
		h, b, _ := carrying(t)
		if a := b.Do(http.MethodPost, anotherDevice, ""); a.Code != http.StatusForbidden || h.Events()[linkMade] != 0 {
			t.Errorf("a form without its token = %d, want 403", a.Code)
		}
		for range 10 {
			carry(b)
		}
		if a := sendTo(b, anotherDevice); a.Code != http.StatusTooManyRequests || a.Header().Get("Retry-After") == "" ||
			h.Events()[linkMade] != 10 {
			t.Errorf("the eleventh = %d, want 429", a.Code)
		}
		if a := h.Browser().Get(anotherDevice); !strings.HasPrefix(a.URL, "/sign-in") {
			t.Errorf("nobody's page is %s, want the sign-in", a.URL)
		}
		for _, bad := range []string{"x", "ghat_" + strings.Repeat("A", 49), "ghlt_" + strings.Repeat("A", 49)} {
			if a := h.Browser().Get("/sign-in/token?token=" + bad); a.Code != http.StatusBadRequest {
				t.Errorf("token %q = %d, want 400", bad, a.Code)
			}
		}
		made, err := h.ActionToken.Make(t.Context(), h.Details(identitytest.Demo).ID,
			actiontoken.NewActionToken{Actions: []actiontoken.Action{{Type: actiontoken.ActionLogin}}}, audit.Actor{})
		if err != nil {
			t.Fatal(err)
		}
		if a := h.Browser().Get("/sign-in/token?token=" + made.Token); a.Code != http.StatusBadRequest {
			t.Errorf("a token of an API client = %d, want 400", a.Code)
		}
	})
}

// TestAnotherDeviceByPasskey: removing a passkey lowers every session whose level comes from it, even through a chain
// of links. Sessions of another passkey keep their level.
func TestAnotherDeviceByPasskey(t *testing.T) {
	t.Parallel()
	h, u := identitytest.NewConfigured(t, identitytest.PasskeysOn)
	u.Features.ActionToken.Login = settings.ActionTokenLogin{Enabled: true, TTL: 600, AuthenticationLevel: 4, UIGenerationEnabled: true}
	lost, second := identitytest.NewAuthenticator(t), identitytest.NewAuthenticator(t)
	first := h.Browser()
	first.SignIn(identitytest.Demo, identitytest.DemoPassword)
	first.AddPasskey(lost)
	by := func(k *identitytest.Authenticator) *identitytest.Browser {
		t.Helper()
		b := h.Browser()
		if a := b.TryPasskey(k); a.Code != http.StatusSeeOther {
			t.Fatalf("the passkey = %d", a.Code)
		}
		return b
	}
	carried := func(link string) *identitytest.Browser {
		t.Helper()
		b := h.Browser()
		if a := b.Post(b.Get(link)); a.Code != http.StatusSeeOther {
			t.Fatalf("the link = %d", a.Code)
		}
		return b
	}
	owner := by(lost)
	owner.AddPasskey(second)
	thief, phone := by(lost), by(second)
	next := carried(carry(thief))
	third := carried(carry(next))
	tablet := carried(carry(phone))
	raised := carried(carry(owner))
	late := carry(thief)
	levels := func(when string, want map[*identitytest.Browser]int) {
		t.Helper()
		for b, level := range want {
			if got := b.Level(); got != level {
				t.Errorf("%s: level %d, want %d", when, got, level)
			}
		}
	}
	levels("before", map[*identitytest.Browser]int{thief: 3, phone: 3, next: 3, third: 3, tablet: 3, raised: 3})
	page := owner.Get("/account/security")
	if a := owner.Post(owner.Get(identitytest.PasskeyRemoval.FindString(page.Body.String()))); a.Code != http.StatusSeeOther {
		t.Fatalf("removing the first passkey = %d", a.Code)
	}
	levels("after the removal", map[*identitytest.Browser]int{
		thief: 1, phone: 3, next: 1, third: 1, tablet: 3,
		carried(late): 1, owner: 3, raised: 3,
	})
	h.CheckInvariants()
}
