package identity_test

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/login"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestPhoneSignInAttacks(t *testing.T) {
	t.Parallel()
	in := func(a *answer) bool { return strings.HasPrefix(a.Body.String(), "signed in as ") }
	t.Run("attack 271: a stranger's code that is sent to somebody shows where it is, and is worth nothing without its number", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		thief, victim := h.browser(), h.phone()
		thief.address = "192.0.2.66:1"
		code := thief.byPhone("/next")
		link, number := code.scan(t)
		form := victim.get(link)
		if !strings.Contains(form.Body.String(), "192.0.2.66") || !strings.Contains(form.Body.String(), "The shop") || regexp.MustCompile(`[^0-9.:]`+number+"<").Match(form.Body.Bytes()) {
			t.Errorf("the victim sees:\n%s", form.Body)
		}
		for _, guess := range []string{"", wrongFor(number), wrongFor(number) + " ", "00", number + "0", "0" + number} {
			victim.post(form, "number", guess)
		}
		if victim.post(form, "number", number); in(thief.get(code.url)) {
			t.Error("guessed, after the attempts that are allowed")
		}
		// In a message it is a link: a preview of it changes nothing.
		link, _ = thief.get(thief.post(thief.get(code.url)).Header().Get("Location")).scan(t)
		if a := victim.do(http.MethodHead, link, ""); a.Code != http.StatusSeeOther {
			t.Errorf("HEAD = %d", a.Code)
		}
		if in(thief.get(code.url)) {
			t.Error("a preview approves")
		}
	})
	t.Run("attack 271: sessions swapped: the browser that shows the code is signed in, and no other", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b, thief := h.phone(), h.browser(), h.browser()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		phone.approve(link, number)
		if a := thief.get(code.url); in(a) || thief.isSignedIn() || a.Code != http.StatusForbidden {
			t.Errorf("another browser at the address of the code = %d", a.Code)
		}
		if a := phone.get(code.url); in(a) {
			t.Error("the address of the code on the phone")
		}
		// A thief who has fixed the cookie that binds sign-ins to a browser has not the one of the code.
		twin := b.clone()
		for name := range twin.cookies {
			if strings.HasSuffix(name, "-waiting") {
				delete(twin.cookies, name)
			}
		}
		if a := twin.get(code.url); in(a) || twin.isSignedIn() || shownNumber.MatchString(a.Body.String()) {
			t.Errorf("a browser with the cookie of the sign-in alone = %d:\n%s", a.Code, a.Body)
		}
		if a := b.get(code.url); !in(a) {
			t.Errorf("the browser that waited = %d %s", a.Code, a.url)
		}
	})
	t.Run("attack 271: a session cookie that was planted in the browser that waits is replaced", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		h.add(person.NewPerson{Username: "eve", Password: secret.New("Another horse 2")})
		eve, phone, b := h.browser(), h.phone(), h.browser()
		eve.get(eve.post(eve.get("/next"), "username", "eve", "password", "Another horse 2").Header().Get("Location"))
		code := b.byPhone("/next")
		link, number := code.scan(t)
		for name, v := range eve.cookies {
			if strings.HasSuffix(name, "-session") {
				b.cookies[name] = v
			}
		}
		b.cookies["gh-planted-waiting"] = "x"
		planted := b.session()
		phone.approve(link, number)
		b.get(code.url + "&other=1")
		if b.isSignedIn() && b.session() == planted && !eve.isSignedIn() {
			t.Error("the planted cookie opens the session of the person")
		}
		if s, err := h.session(eve); err == nil && s.Subject != mustPerson(t, h, "eve").ID {
			t.Error("the stranger has the session of the person")
		}
	})
	t.Run("attack 271: replayed: a code signs in once", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := h.phone(), h.browser()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		form := phone.get(link)
		phone.post(form, "number", number)
		before := maps.Clone(b.cookies)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { b.clone().do(http.MethodGet, code.url, "") })
		}
		wg.Wait()
		if n := h.events()["login.LoginSucceededEvent"]; n != 2 { // the phone, and the browser
			t.Errorf("%d sign-ins", n-1)
		}
		again := h.browser()
		again.cookies = before
		if a := again.do(http.MethodGet, code.url, ""); again.session() != "" {
			t.Errorf("the cookies of before = %d", a.Code)
		}
		if a := phone.post(form, "number", number); a.Code != http.StatusBadRequest && a.Code != http.StatusSeeOther {
			t.Errorf("approving again = %d", a.Code)
		}
		if a := phone.get(link); a.Code != http.StatusBadRequest {
			t.Errorf("the link again = %d", a.Code)
		}
	})
	t.Run("attack 271: two phones at once: one approves", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		h.add(person.NewPerson{Username: "eve", Password: secret.New("Another horse 2")})
		phone, b, eve := h.phone(), h.browser(), h.browser()
		eve.get(eve.post(eve.get("/next"), "username", "eve", "password", "Another horse 2").Header().Get("Location"))
		code := b.byPhone("/next")
		link, number := code.scan(t)
		mine, hers := phone.get(link), eve.get(link)
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() { phone.clone().post(mine, "number", number) })
			wg.Go(func() { eve.clone().post(hers, "number", number) })
		}
		wg.Wait()
		if n := h.events()["login.PhoneApprovedEvent"]; n != 1 {
			t.Errorf("%d approvals", n)
		}
		approved, over := phone.get(mine.url).Body.String(), eve.get(hers.url).Body.String()
		if strings.Contains(approved, "Approved") == strings.Contains(over, "Approved") {
			t.Error("both phones say, or neither says, that they have approved")
		}
		if a := b.get(code.url); !in(a) {
			t.Errorf("the browser that waited = %d", a.Code)
		}
	})
	t.Run("attack 271: a code after its time, and an approval that nobody came for", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := h.phone(), h.browser()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		form := phone.get(link)
		h.clock.Advance(2 * time.Minute)
		if phone.post(form, "number", number); in(b.get(code.url)) {
			t.Error("approved after two minutes")
		}
		a := b.get(code.url)
		if !strings.Contains(a.Body.String(), "has expired") || a.Header().Get("Refresh") != "" {
			t.Errorf("the page with the code = %d, Refresh %q", a.Code, a.Header().Get("Refresh"))
		}
		b.post(a)
		link, number = b.get(code.url).scan(t)
		phone.approve(link, number)
		h.clock.Advance(4 * time.Minute)
		if in(b.get(code.url)) {
			t.Error("an approval of four minutes ago signs in")
		}
	})
	t.Run("attack 271: the browser that waited was closed: what the phone approves opens no other one", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := h.phone(), h.browser()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		b.cookies = map[string]string{} // none of them outlives the browser
		if a := phone.approve(link, number); !strings.Contains(a.Body.String(), "Approved") {
			t.Errorf("the phone = %d", a.Code)
		}
		if a := b.get(code.url); in(a) || b.isSignedIn() {
			t.Errorf("a new browser at the address of before = %d", a.Code)
		}
		if n := h.events()["login.LoginSucceededEvent"]; n != 1 {
			t.Errorf("%d sign-ins, want the phone's", n)
		}
	})
	t.Run("attack 271: a person who was blocked, or a phone that was signed out, since the approval", func(t *testing.T) {
		t.Parallel()
		for name, happens := range map[string]func(h *harness, phone *browser){
			"blocked":    func(h *harness, _ *browser) { must(t, h.Person.SetState(t.Context(), demo, person.Blocked, ops)) },
			"signed out": func(_ *harness, phone *browser) { phone.post(phone.get("/sign-out")) },
		} {
			h, _ := phoning(t)
			phone, b := h.phone(), h.browser()
			code := b.byPhone("/next")
			link, number := code.scan(t)
			form := phone.get(link)
			phone.post(form, "number", number)
			happens(h, phone)
			if a := b.get(code.url); in(a) || b.isSignedIn() {
				t.Errorf("%s after the approval: the browser that waited = %d", name, a.Code)
			}
			b = h.browser()
			link, number = b.byPhone("/next").scan(t)
			if a := phone.get(link); strings.Contains(a.Body.String(), `name="number"`) {
				t.Errorf("%s: the phone = %d", name, a.Code)
			}
			if a := phone.do(http.MethodPost, form.url, "number="+number); a.Code < 300 {
				t.Errorf("%s: approving = %d", name, a.Code)
			}
		}
	})
	t.Run("attack 271: a session below the level, and one by a provider, approve nothing", func(t *testing.T) {
		t.Parallel()
		h, u := phoning(t)
		u.Features.PINEnabled = true
		u.LoginMethods.MobileLogin.Enabled = false
		qrMethod(u, config.LoginMethod{ID: "qr", Name: "Acme phone", AuthenticationLevel: 2})
		set := h.phone()
		set.pin("827164")
		phone, b := h.phone(), h.browser()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		form := phone.get(link)
		if a := phone.post(form, "number", number); strings.HasPrefix(a.Header().Get("Location"), "/phone") || in(b.get(code.url)) {
			t.Errorf("a phone of level 1 = %d to %q", a.Code, a.Header().Get("Location"))
		}
		// A session that a phone has made by a login method does not belong to the service: it makes no others.
		set.approve(link, number)
		if a := b.get(code.url); !in(a) {
			t.Fatalf("the browser that waited = %d", a.Code)
		}
		next := h.browser()
		link, _ = next.byPhone("/next").scan(t)
		if a := b.get(link); strings.Contains(a.Body.String(), `name="number"`) {
			t.Errorf("a sign-in by a phone approves another one:\n%s", a.Body)
		}
	})
	t.Run("attack 271: approved for a prompt=login: the phone's sign-in is as fresh as the one that is wanted", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone := h.phone()
		h.clock.Advance(30 * time.Minute)
		before := h.demand
		from := h.clock.Now()
		h.demand = func(r *http.Request) login.Demand {
			d := before(r)
			d.NotBefore = from
			return d
		}
		b := h.browser()
		code := b.byPhone("/next?strict=1")
		link, number := code.scan(t)
		form := phone.get(link)
		if !strings.HasPrefix(form.url, "/sign-in?flow=") {
			t.Fatalf("a phone that signed in long ago = %s:\n%s", form.url, form.Body)
		}
		form = phone.get(phone.post(form, "username", demo, "password", demoPassword).Header().Get("Location"))
		phone.post(form, "number", number)
		if a := b.get(code.url); !in(a) {
			t.Errorf("the browser that waited = %d %s", a.Code, a.url)
		}
	})
	t.Run("attack 271: another site approves: without the token of the form, and from elsewhere", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := h.phone(), h.browser()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		form := phone.get(link)
		if a := phone.do(http.MethodPost, form.url, "number="+number); a.Code != http.StatusForbidden {
			t.Errorf("without the token = %d", a.Code)
		}
		phone.header = http.Header{"Sec-Fetch-Site": {"cross-site"}, "Origin": {"https://evil.example"}}
		if a := phone.post(form, "number", number); a.Code != http.StatusForbidden {
			t.Errorf("from another site = %d", a.Code)
		}
		phone.header = nil
		other, _ := h.browser().byPhone("/next?x=1").scan(t)
		foreign := phone.get(other)
		phone.get(link)
		if a := phone.do(http.MethodPost, form.url, url.Values{"csrf": {foreign.csrf()}, "number": {number}}.Encode()); a.Code != http.StatusForbidden {
			t.Errorf("with the token of another code = %d", a.Code)
		}
		if a := b.do(http.MethodPost, code.url, ""); a.Code != http.StatusForbidden {
			t.Errorf("another code without the token of the form = %d", a.Code)
		}
		if in(b.get(code.url)) {
			t.Error("approved")
		}
	})
	t.Run("attack 271: codes are guessed", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		spy := h.browser()
		last := 0
		for range 40 {
			token, err := secret.NewToken(zeros{}, secret.PhoneCode)
			must(t, err)
			last = spy.get("/phone?token=" + token).Code
		}
		if last != http.StatusTooManyRequests {
			t.Errorf("the fortieth guess = %d", last)
		}
		// People behind the same address are not kept from codes that there are.
		phone, b := h.browser(), h.browser()
		phone.plain()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		if token := link[strings.Index(link, "=")+1:]; len(token) < 43 {
			t.Errorf("a token of %d characters", len(token))
		}
		phone.approve(link, number)
		if !in(b.get(code.url)) {
			t.Error("a person behind the address of the guesses cannot sign in")
		}
		for _, bad := range []string{"", "x", "ghml_x", strings.Repeat("a", 9000), "%00"} {
			if a := h.browser().get("/phone?token=" + bad); a.Code != http.StatusBadRequest && a.Code != http.StatusTooManyRequests {
				t.Errorf("the token %.10q = %d", bad, a.Code)
			}
		}
	})
	t.Run("attack 271: ten thousand codes: a network gets few at a time, a sign-in one, and all are collected", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		b := h.browser()
		code := b.byPhone("/next")
		made, refused := 0, 0
		for range 60 {
			switch a := b.post(pageOf(t, b, code.url)); a.Code {
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
			for key := range h.dump() {
				if strings.Contains(key, "identity_phone_code") {
					n++
				}
			}
			return n
		}
		if n := count(); n > 2 {
			t.Errorf("%d records of one sign-in", n)
		}
		other := h.browser()
		other.address = "192.0.2.77:5"
		if a := other.byPhone("/next"); a.Code != http.StatusOK {
			t.Errorf("a browser of another network = %d", a.Code)
		}
		h.clock.Advance(2 * time.Hour)
		_, err := h.sweep(t.Context())
		must(t, err)
		if n := count(); n != 0 {
			t.Errorf("%d records two hours later", n)
		}
	})
	t.Run("attack 271: number and token stand in no address, log line or event", func(t *testing.T) {
		t.Parallel()
		h, _ := phoning(t)
		phone, b := h.phone(), h.browser()
		code := b.byPhone("/next")
		link, number := code.scan(t)
		token := link[strings.Index(link, "=")+1:]
		form := phone.get(link)
		if strings.Contains(form.url, token) || strings.Contains(code.url, token) {
			t.Error("the token stays in an address")
		}
		phone.post(form, "number", wrongFor(number))
		phone.post(form, "number", number)
		b.get(code.url)
		for _, e := range h.logs.All() {
			line := e.Message
			for k, v := range e.ContextMap() {
				line += " " + k + "=" + toString(v)
			}
			if strings.Contains(line, token) || strings.Contains(line, "number="+number) {
				t.Errorf("log line: %s", line)
			}
		}
		for key, value := range h.dump() {
			if strings.Contains(value, token) || strings.Contains(key, token) {
				t.Errorf("%q holds the token", key)
			}
			for _, cookie := range b.cookies {
				if len(cookie) > 20 && strings.Contains(value, cookie) {
					t.Errorf("%q holds a cookie", key)
				}
			}
		}
		h.checkInvariants()
	})
	t.Run("attack 271: a request leads the app or the browser to another place", func(t *testing.T) {
		t.Parallel()
		h, u := phoning(t)
		u.LoginMethods.MobileLogin.Enabled = false
		qrMethod(u, config.LoginMethod{ID: "qr", Name: "Acme phone", QRCode: &config.QRCodeAttributes{DeepLinkingEnabled: true, DeepLinkingRedirectURL: "acme://sign-in"}})
		b := h.browser()
		code := b.byPhone("/next")
		for _, more := range []string{"&deep_linking_redirect_url=evil://x", "&redirect=https://evil.example/", "&return=https://evil.example/", "&idp=qr&idp=evil"} {
			if a := b.get(code.url + more); strings.Contains(a.Body.String(), "evil") || strings.Contains(a.Header().Get("Location"), "evil") {
				t.Errorf("%s is in the page", more)
			}
		}
		u.LoginMethods.LoginMethods[len(u.LoginMethods.LoginMethods)-1].QRCode.DeepLinkingRedirectURL = "javascript://x/%0aalert(1)" // as if a check had failed
		if a := b.get(code.url); strings.Contains(a.Body.String(), "javascript:") {
			t.Errorf("a script is a link:\n%s", a.Body)
		}
		if a := b.get(strings.Replace(code.url, "idp=qr", "idp=other", 1)); a.Code != http.StatusForbidden {
			t.Errorf("a login method that there is not = %d %s", a.Code, a.url)
		}
		u.LoginMethods.MobileLogin.Enabled = true
		if a := h.browser().get("/sign-in/phone?redirect=https://evil.example/"); strings.Contains(a.Body.String()+a.Header().Get("Content-Security-Policy"), "evil") {
			t.Errorf("/sign-in/phone?redirect= = %d %s", a.Code, a.url)
		}
	})
}

// pageOf returns the form that asks for another code, whether or not one waits.
func pageOf(t *testing.T, b *browser, at string) *answer {
	t.Helper()
	twin := b.clone()
	for name := range twin.cookies {
		if strings.HasSuffix(name, "-waiting") {
			delete(twin.cookies, name)
		}
	}
	a := twin.get(at)
	if a.csrf() == "" {
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

func mustPerson(t *testing.T, h *harness, username string) person.Person {
	t.Helper()
	p, err := h.Person.Person(t.Context(), username)
	must(t, err)
	return p
}
