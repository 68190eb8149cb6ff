package qrlogin_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/identitytest"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestPhoneSignInAttacks(t *testing.T) {
	t.Parallel()
	in := func(a *identitytest.Answer) bool { return strings.HasPrefix(a.Body.String(), "signed in as ") }
	t.Run("attack 271: a stranger's code that is sent to somebody shows where it is, and is worth nothing without its number",
		func(t *testing.T) {
			t.Parallel()
			h, _ := phoning(t)
			thief, victim := h.Browser(), newPhone(h)
			thief.Address = "192.0.2.66:1"
			code := byPhone(thief, "/next")
			link, number := scan(code, t)
			form := victim.Get(link)
			if !strings.Contains(form.Body.String(), "192.0.2.66") || !strings.Contains(form.Body.String(), "The shop") ||
				regexp.MustCompile(`[^0-9.:]`+number+"<").Match(form.Body.Bytes()) {
				t.Errorf("the victim sees:\n%s", form.Body)
			}
			for _, guess := range []string{
				"", identitytest.WrongFor(number), identitytest.WrongFor(number) + " ", "00",
				number + "0", "0" + number,
			} {
				victim.Post(form, "number", guess)
			}
			if victim.Post(form, "number", number); in(thief.Get(code.URL)) {
				t.Error("guessed, after the attempts that are allowed")
			}
			// In a message it is a link: a preview of it changes nothing.
			link, _ = scan(thief.Get(thief.Post(thief.Get(code.URL)).Header().Get("Location")), t)
			if a := victim.Do(http.MethodHead, link, ""); a.Code != http.StatusSeeOther {
				t.Errorf("HEAD = %d", a.Code)
			}
			if in(thief.Get(code.URL)) {
				t.Error("a preview approves")
			}
		})
	t.Run("attack 271: sessions swapped: the browser that shows the code is signed in, and no other", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b, thief := newPhone(h), h.Browser(), h.Browser()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		approve(phone, link, number)
		if a := thief.Get(code.URL); in(a) || thief.IsSignedIn() || a.Code != http.StatusForbidden {
			t.Errorf("another browser at the address of the code = %d", a.Code)
		}
		if a := phone.Get(code.URL); in(a) {
			t.Error("the address of the code on the phone")
		}
		// A thief who has fixed the cookie that binds sign-ins to a browser has not the one of the code.
		twin := b.Clone()
		for name := range twin.Cookies {
			if strings.HasSuffix(name, "-waiting") {
				delete(twin.Cookies, name)
			}
		}
		if a := twin.Get(code.URL); in(a) || twin.IsSignedIn() || identitytest.ShownNumber.MatchString(a.Body.String()) {
			t.Errorf("a browser with the cookie of the sign-in alone = %d:\n%s", a.Code, a.Body)
		}
		if a := b.Get(code.URL); !in(a) {
			t.Errorf("the browser that waited = %d %s", a.Code, a.URL)
		}
	})
	t.Run("attack 271: a session cookie that was planted in the browser that waits is replaced", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		h.Add(person.NewPerson{Username: "eve", Password: secret.New("Another horse 2")})
		eve, phone, b := h.Browser(), newPhone(h), h.Browser()
		eve.Get(eve.Post(eve.Get("/next"), "username", "eve", "password", "Another horse 2").Header().Get("Location"))
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		for name, v := range eve.Cookies {
			if strings.HasSuffix(name, "-session") {
				b.Cookies[name] = v
			}
		}
		b.Cookies["gh-planted-waiting"] = "x"
		planted := b.Session()
		approve(phone, link, number)
		b.Get(code.URL + "&other=1")
		if b.IsSignedIn() && b.Session() == planted && !eve.IsSignedIn() {
			t.Error("the planted cookie opens the session of the person")
		}
		if s, err := h.SessionOf(eve); err == nil && s.Subject != mustPerson(t, h, "eve").ID {
			t.Error("the stranger has the session of the person")
		}
	})
	t.Run("attack 271: replayed: a code signs in once", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := newPhone(h), h.Browser()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		form := phone.Get(link)
		phone.Post(form, "number", number)
		before := maps.Clone(b.Cookies)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { b.Clone().Do(http.MethodGet, code.URL, "") })
		}
		wg.Wait()
		if n := h.Events()["login.LoginSucceededEvent"]; n != 2 { // the phone, and the browser
			t.Errorf("%d sign-ins", n-1)
		}
		again := h.Browser()
		again.Cookies = before
		if a := again.Do(http.MethodGet, code.URL, ""); again.Session() != "" {
			t.Errorf("the cookies of before = %d", a.Code)
		}
		if a := phone.Post(form, "number", number); a.Code != http.StatusBadRequest && a.Code != http.StatusSeeOther {
			t.Errorf("approving again = %d", a.Code)
		}
		if a := phone.Get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link again = %d", a.Code)
		}
	})
	t.Run("attack 271: two phones at once: one approves", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		h.Add(person.NewPerson{Username: "eve", Password: secret.New("Another horse 2")})
		phone, b, eve := newPhone(h), h.Browser(), h.Browser()
		eve.Get(eve.Post(eve.Get("/next"), "username", "eve", "password", "Another horse 2").Header().Get("Location"))
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		mine, hers := phone.Get(link), eve.Get(link)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { phone.Clone().Post(mine, "number", number) })
			wg.Go(func() { eve.Clone().Post(hers, "number", number) })
		}
		wg.Wait()
		if n := h.Events()["login.PhoneApprovedEvent"]; n != 1 {
			t.Errorf("%d approvals", n)
		}
		approved, over := phone.Get(mine.URL).Body.String(), eve.Get(hers.URL).Body.String()
		if strings.Contains(approved, "Approved") == strings.Contains(over, "Approved") {
			t.Error("both phones say, or neither says, that they have approved")
		}
		if a := b.Get(code.URL); !in(a) {
			t.Errorf("the browser that waited = %d", a.Code)
		}
	})
	t.Run("attack 271: a code after its time, and an approval that nobody came for", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := newPhone(h), h.Browser()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		form := phone.Get(link)
		h.Clock.Advance(2 * time.Minute)
		if phone.Post(form, "number", number); in(b.Get(code.URL)) {
			t.Error("approved after two minutes")
		}
		a := b.Get(code.URL)
		if !strings.Contains(a.Body.String(), "has expired") || a.Header().Get("Refresh") != "" {
			t.Errorf("the page with the code = %d, Refresh %q", a.Code, a.Header().Get("Refresh"))
		}
		b.Post(a)
		link, number = scan(b.Get(code.URL), t)
		approve(phone, link, number)
		h.Clock.Advance(4 * time.Minute)
		if in(b.Get(code.URL)) {
			t.Error("an approval of four minutes ago signs in")
		}
	})
	t.Run("attack 271: the browser that waited was closed: what the phone approves opens no other one", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := newPhone(h), h.Browser()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		b.Cookies = map[string]string{} // none of them outlives the browser
		if a := approve(phone, link, number); !strings.Contains(a.Body.String(), "Approved") {
			t.Errorf("the phone = %d", a.Code)
		}
		if a := b.Get(code.URL); in(a) || b.IsSignedIn() {
			t.Errorf("a new browser at the address of before = %d", a.Code)
		}
		if n := h.Events()["login.LoginSucceededEvent"]; n != 1 {
			t.Errorf("%d sign-ins, want the phone's", n)
		}
	})
	t.Run("attack 271: a person who was blocked, or a phone that was signed out, since the approval", func(t *testing.T) {
		t.Parallel()
		for name, happens := range map[string]func(h *identitytest.Harness, phone *identitytest.Browser){
			"blocked": func(h *identitytest.Harness, _ *identitytest.Browser) {
				must(t, h.Person.SetState(t.Context(), identitytest.Demo, person.Blocked, identitytest.Ops))
			},
			"signed out": func(_ *identitytest.Harness, phone *identitytest.Browser) { phone.Post(phone.Get("/sign-out")) },
		} {
			h, _ := phoning(t)
			phone, b := newPhone(h), h.Browser()
			code := byPhone(b, "/next")
			link, number := scan(code, t)
			form := phone.Get(link)
			phone.Post(form, "number", number)
			happens(h, phone)
			if a := b.Get(code.URL); in(a) || b.IsSignedIn() {
				t.Errorf("%s after the approval: the browser that waited = %d", name, a.Code)
			}
			b = h.Browser()
			link, number = scan(byPhone(b, "/next"), t)
			if a := phone.Get(link); strings.Contains(a.Body.String(), `name="number"`) {
				t.Errorf("%s: the phone = %d", name, a.Code)
			}
			if a := phone.Do(http.MethodPost, form.URL, "number="+number); a.Code < 300 {
				t.Errorf("%s: approving = %d", name, a.Code)
			}
		}
	})
	t.Run("attack 271: a session below the level, and one by a provider, approve nothing", func(t *testing.T) {
		t.Parallel()
		h, u := phoning(t)
		u.Features.PINEnabled = true
		u.LoginMethods.MobileLogin.Enabled = false
		qrMethod(u, settings.LoginMethod{ID: "qr", Name: "Acme phone", AuthenticationLevel: 2})
		set := newPhone(h)
		set.SetPIN("827164")
		phone, b := newPhone(h), h.Browser()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		form := phone.Get(link)
		if a := phone.Post(form, "number", number); strings.HasPrefix(a.Header().Get("Location"), "/phone") || in(b.Get(code.URL)) {
			t.Errorf("a phone of level 1 = %d to %q", a.Code, a.Header().Get("Location"))
		}
		// A session that a phone has made by a login method does not belong to the service: it makes no others.
		approve(set, link, number)
		if a := b.Get(code.URL); !in(a) {
			t.Fatalf("the browser that waited = %d", a.Code)
		}
		next := h.Browser()
		link, _ = scan(byPhone(next, "/next"), t)
		if a := b.Get(link); strings.Contains(a.Body.String(), `name="number"`) {
			t.Errorf("a sign-in by a phone approves another one:\n%s", a.Body)
		}
	})
	t.Run("attack 271: approved for a prompt=login: the phone's sign-in is as fresh as the one that is wanted", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone := newPhone(h)
		h.Clock.Advance(30 * time.Minute)
		before := h.Demand
		from := h.Clock.Now()
		h.Demand = func(r *http.Request) authn.Demand {
			d := before(r)
			d.NotBefore = from
			return d
		}
		b := h.Browser()
		code := byPhone(b, "/next?strict=1")
		link, number := scan(code, t)
		form := phone.Get(link)
		if !strings.HasPrefix(form.URL, "/sign-in?flow=") {
			t.Fatalf("a phone that signed in long ago = %s:\n%s", form.URL, form.Body)
		}
		form = phone.Get(phone.Post(form, "username", identitytest.Demo, "password", identitytest.DemoPassword).Header().Get("Location"))
		phone.Post(form, "number", number)
		if a := b.Get(code.URL); !in(a) {
			t.Errorf("the browser that waited = %d %s", a.Code, a.URL)
		}
	})
	t.Run("attack 271: another site approves: without the token of the form, and from elsewhere", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := newPhone(h), h.Browser()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		form := phone.Get(link)
		if a := phone.Do(http.MethodPost, form.URL, "number="+number); a.Code != http.StatusForbidden {
			t.Errorf("without the token = %d", a.Code)
		}
		phone.Header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
		if a := phone.Post(form, "number", number); a.Code != http.StatusForbidden {
			t.Errorf("from another site = %d", a.Code)
		}
		phone.Header = nil
		other, _ := scan(byPhone(h.Browser(), "/next?x=1"), t)
		foreign := phone.Get(other)
		phone.Get(link)
		if a := phone.Do(http.MethodPost, form.URL,
			url.Values{"csrf": {foreign.CSRF()}, "number": {number}}.Encode()); a.Code != http.StatusForbidden {
			t.Errorf("with the token of another code = %d", a.Code)
		}
		if a := b.Do(http.MethodPost, code.URL, ""); a.Code != http.StatusForbidden {
			t.Errorf("another code without the token of the form = %d", a.Code)
		}
		if in(b.Get(code.URL)) {
			t.Error("approved")
		}
	})
	t.Run("attack 271: codes are guessed", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		spy := h.Browser()
		last := 0
		for range 40 {
			token, err := secret.NewToken(zeros{}, secret.PhoneCode)
			must(t, err)
			last = spy.Get("/phone?token=" + token).Code
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("the fortieth guess = %d", last)
		}
		// People behind the same address are not kept from codes that there are.
		phone, b := h.Browser(), h.Browser()
		phone.Plain()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		if token := link[strings.Index(link, "=")+1:]; len(token) < 43 {
			t.Errorf("a token of %d characters", len(token))
		}
		approve(phone, link, number)
		if !in(b.Get(code.URL)) {
			t.Error("a person behind the address of the guesses cannot sign in")
		}
		for _, bad := range []string{"", "x", "ghml_x", strings.Repeat("a", 9000), "%00"} {
			if a := h.Browser().Get("/phone?token=" + bad); a.Code != http.StatusBadRequest && a.Code != http.StatusTooManyRequests {
				t.Errorf("the token %.10q = %d", bad, a.Code)
			}
		}
	})
	t.Run("attack 271: ten thousand codes: a network gets few at a time, a sign-in one, and all are collected", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		b := h.Browser()
		code := byPhone(b, "/next")
		made, refused := 0, 0
		for range 60 {
			switch a := b.Post(pageOf(t, b, code.URL)); a.Code {
			case http.StatusSeeOther:
				made++
			case http.StatusTooManyRequests:
				refused++
			default:
				t.Fatalf("another code = %d", a.Code)
			}
		}
		if made > 30 || refused == 0 {
			t.Errorf("%d codes at once, %d refused", made, refused)
		}
		count := func() (n int) {
			for key := range h.Dump() {
				if strings.Contains(key, "identity_phone_code") {
					n++
				}
			}
			return n
		}
		if n := count(); n > 2 {
			t.Errorf("%d records of one sign-in", n)
		}
		other := h.Browser()
		other.Address = "192.0.2.77:5"
		if a := byPhone(other, "/next"); a.Code != http.StatusOK {
			t.Errorf("a browser of another network = %d", a.Code)
		}
		h.Clock.Advance(2 * time.Hour)
		_, err := h.Sweep(t.Context())
		must(t, err)
		if n := count(); n != 0 {
			t.Errorf("%d records two hours later", n)
		}
	})
	t.Run("attack 271: number and token stand in no address, log line or event", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := newPhone(h), h.Browser()
		code := byPhone(b, "/next")
		link, number := scan(code, t)
		token := link[strings.Index(link, "=")+1:]
		form := phone.Get(link)
		if strings.Contains(form.URL, token) || strings.Contains(code.URL, token) {
			t.Error("the token stays in an address")
		}
		phone.Post(form, "number", identitytest.WrongFor(number))
		phone.Post(form, "number", number)
		b.Get(code.URL)
		for _, e := range h.Logs.All() {
			line := e.Message
			for k, v := range e.ContextMap() {
				line += " " + k + "=" + identitytest.ToString(v)
			}
			if strings.Contains(line, token) || strings.Contains(line, "number="+number) {
				t.Errorf("log line: %s", line)
			}
		}
		for key, value := range h.Dump() {
			if strings.Contains(value, token) || strings.Contains(key, token) {
				t.Errorf("%q holds the token", key)
			}
			for _, cookie := range b.Cookies {
				if len(cookie) > 20 && strings.Contains(value, cookie) {
					t.Errorf("%q holds a cookie", key)
				}
			}
		}
		h.CheckInvariants()
	})
	t.Run("attack 271: a request leads the app or the browser to another place", func(t *testing.T) {
		t.Parallel()
		h, u := phoning(t)
		u.LoginMethods.MobileLogin.Enabled = false
		qrMethod(u, settings.LoginMethod{
			ID: "qr", Name: "Acme phone",
			QRCode: &settings.QRCodeAttributes{DeepLinkingEnabled: true, DeepLinkingRedirectURL: "acme://sign-in"},
		})
		b := h.Browser()
		code := byPhone(b, "/next")
		for _, more := range []string{
			"&deep_linking_redirect_url=evil://x", "&redirect=https://evil.example/",
			"&return=https://evil.example/", "&idp=qr&idp=evil",
		} {
			if a := b.Get(code.URL + more); strings.Contains(a.Body.String(), "evil") || strings.Contains(a.Header().Get("Location"), "evil") {
				t.Errorf("%s is in the page", more)
			}
		}
		// As if a check had failed.
		u.LoginMethods.LoginMethods[len(u.LoginMethods.LoginMethods)-1].QRCode.DeepLinkingRedirectURL = "javascript://x/%0aalert(1)"
		if a := b.Get(code.URL); strings.Contains(a.Body.String(), "javascript:") {
			t.Errorf("a script is a link:\n%s", a.Body)
		}
		if a := b.Get(strings.Replace(code.URL, "idp=qr", "idp=other", 1)); a.Code != http.StatusForbidden {
			t.Errorf("a login method that there is not = %d %s", a.Code, a.URL)
		}
		u.LoginMethods.MobileLogin.Enabled = true
		if a := h.Browser().Get("/sign-in/phone?redirect=https://evil.example/"); strings.Contains(a.Body.String()+a.Header().Get("Content-Security-Policy"), "evil") {
			t.Errorf("/sign-in/phone?redirect= = %d %s", a.Code, a.URL)
		}
	})
}

// pageOf returns the form that asks for another code, whether or not one waits.
func pageOf(t *testing.T, b *identitytest.Browser, at string) *identitytest.Answer {
	t.Helper()
	twin := b.Clone()
	for name := range twin.Cookies {
		if strings.HasSuffix(name, "-waiting") {
			delete(twin.Cookies, name)
		}
	}
	a := twin.Get(at)
	if a.CSRF() == "" {
		t.Fatalf("GET %s = %d has no form:\n%s", at, a.Code, a.Body)
	}
	return a
}

// zeros is a source of randomness that gives a token which there is not.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustPerson(t *testing.T, h *identitytest.Harness, username string) person.Person {
	t.Helper()
	p, err := h.Person.Person(t.Context(), username)
	must(t, err)
	return p
}
