package api_test

import (
	"encoding/json"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

// screen is a browser that shows a code for a phone.
type screen struct {
	h       *people
	cookies map[string]string
}

// get opens a page and follows redirects.
func (s *screen) get(at string) (body, url string) {
	s.h.Helper()
	for range 10 {
		r := httptest.NewRequest(http.MethodGet, issuer+at, nil)
		for name, value := range s.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		w := httptest.NewRecorder()
		s.h.persons.ServeHTTP(w, r)
		for _, c := range w.Result().Cookies() {
			s.cookies[c.Name] = c.Value
			if c.MaxAge < 0 {
				delete(s.cookies, c.Name)
			}
		}
		to := w.Header().Get("Location")
		if to == "" {
			return w.Body.String(), at
		}
		at = to
	}
	s.h.Fatalf("GET %s leads in circles", at)
	return "", ""
}

// signedIn reports whether the browser is signed in.
func (s *screen) signedIn() bool {
	for name := range s.cookies {
		if strings.HasSuffix(name, "-session") {
			return true
		}
	}
	return false
}

var (
	codeOnScreen   = regexp.MustCompile(`<code>([^<]+)</code>`)
	numberOnScreen = regexp.MustCompile(`<p class="number"><b>([0-9]{2})</b>`)
)

// shows opens a page with a code. It returns what an app scans, the number next to it, and the page.
func (h *people) shows() (s *screen, token, number, at string) {
	h.Helper()
	s = &screen{h, map[string]string{}}
	body, at := s.get("/sign-in/phone")
	link, n := codeOnScreen.FindStringSubmatch(body), numberOnScreen.FindStringSubmatch(body)
	if link == nil || n == nil {
		h.Fatalf("%s shows no code:\n%s", at, body)
	}
	u, err := url.Parse(html.UnescapeString(link[1]))
	if err != nil {
		h.Fatal(err)
	}
	return s, u.Query().Get("token"), n[1], at
}

func phonePeople(t *testing.T, change ...func(*identity.Config, *api.Deps)) (h *people, path string) {
	t.Helper()
	h = newPeople(t, change...)
	h.set(func(u *settings.Units) {
		u.Features.MobileAuthenticationEnabled = true
		u.LoginMethods.MobileLogin = settings.MobileLogin{Enabled: true, AllowedLoginAttempts: 2, LoginMessage: "Is it you?"}
	})
	return h, "/api/persons/" + h.person(demo) + "/mobile-login"
}

// TestAppApproves: an app shows the person what a scanned code is about, and signs the other browser in.
func TestAppApproves(t *testing.T) {
	t.Parallel()
	h, path := phonePeople(t)
	s, token, number, at := h.shows()
	seen := h.call(http.MethodPost, path, map[string]any{"token": token})
	var got map[string]any
	if err := json.Unmarshal(seen.Body.Bytes(), &got); err != nil || seen.status() != http.StatusOK {
		t.Fatalf("looking = %d %s", seen.status(), seen.Body)
	}
	for name, want := range map[string]any{
		"client_ip": "203.0.113.7", "user_agent": "backend/1", "login_message": "Is it you?",
		"attempts_left": 2.0, "authentication_level": 1.0,
	} {
		if got[name] != want {
			t.Errorf("%s = %v, want %v", name, got[name], want)
		}
	}
	if strings.Contains(seen.Body.String(), `"`+number+`"`) {
		t.Error("the API tells the number")
	}
	answer := map[string]any{"token": token, "approve": true, "number": number}
	h.call(http.MethodPost, path+"/answer", answer).check(t, "approving", http.StatusNoContent, 0)
	if s.get(at); !s.signedIn() {
		t.Error("the browser that waited is not signed in")
	}
	var by, in int
	for _, e := range h.events() {
		if e.Type == "login.PhoneApprovedEvent" && e.Actor == "ops" && e.PersonID == h.person(demo) {
			by++
		}
		if e.Type == "login.LoginSucceededEvent" && e.Reason == "by phone" {
			in++
		}
	}
	if by != 1 || in != 1 {
		t.Errorf("%d approvals by ops and %d sign-ins, want one of each", by, in)
	}
	h.call(http.MethodPost, path+"/answer", answer).check(t, "approving again", http.StatusBadRequest, 0)
	h.holdsNoSecret(token)

	_, token, _, _ = h.shows()
	h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": false}).check(t, "denying", http.StatusNoContent, 0)
	h.call(http.MethodPost, path, map[string]any{"token": token}).check(t, "looking at what was denied", http.StatusConflict, 0)
}

// TestAppStepUp: an app says that the person has shown what the settings demand.
func TestAppStepUp(t *testing.T) {
	t.Parallel()
	h, path := phonePeople(t)
	h.set(func(u *settings.Units) {
		u.Features.PINEnabled = true
		u.LoginMethods.MobileLogin.StepUpType, u.LoginMethods.MobileLogin.StepUpMessage = "PIN", "Your PIN, please."
	})
	s, token, number, at := h.shows()
	if a := h.call(http.MethodPost, path, map[string]any{"token": token}); !strings.Contains(a.Body.String(), `"step_up_type":"PIN"`) ||
		!strings.Contains(a.Body.String(), "Your PIN, please.") {
		t.Errorf("looking = %s", a.Body)
	}
	h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number}).check(t, "without it",
		http.StatusBadRequest, 0)
	h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number, "step_up_type": "SMS"}).check(t,
		"another method", http.StatusBadRequest, 0)
	h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number, "step_up_type": "PIN"}).check(t,
		"with it", http.StatusNoContent, 0)
	if s.get(at); !s.signedIn() {
		t.Error("the browser that waited is not signed in")
	}
}

func TestAppAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 271: an app guesses numbers and tokens, and answers for people who cannot sign in", func(t *testing.T) {
		t.Parallel()
		h, path := phonePeople(t)
		s, token, number, at := h.shows()
		wrong := "10"
		if number == wrong {
			wrong = "11"
		}
		for name, body := range map[string]any{
			"no token": map[string]any{"approve": true}, "no verdict": map[string]any{"token": token},
			"another member": map[string]any{"token": token, "approve": true, "level": 4},
			"another token": map[string]any{
				"token":   must(secret.NewToken(strings.NewReader(strings.Repeat("x", 64)), secret.PhoneCode)),
				"approve": true, "number": number,
			},
			"no number": map[string]any{"token": "x", "approve": true},
		} {
			h.call(http.MethodPost, path+"/answer", body).check(t, name, http.StatusBadRequest, 0)
		}
		h.call(http.MethodPost, "/api/persons/00000000-0000-4000-8000-000000000000/mobile-login/answer",
			map[string]any{"token": token, "approve": true, "number": number}).
			check(t, "an unknown person", http.StatusNotFound, 0)
		ann := h.add(person.NewPerson{Username: "ann", Password: secret.New("another password")})
		h.setState(ann, person.Blocked)
		h.call(http.MethodPost, "/api/persons/"+ann+"/mobile-login/answer",
			map[string]any{"token": token, "approve": true, "number": number}).check(t, "a blocked person", http.StatusConflict, 0)
		h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": wrong}).check(t,
			"a wrong number", http.StatusBadRequest, 0)
		h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": wrong}).check(t,
			"the last one", http.StatusBadRequest, 0)
		h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number}).check(t,
			"after the attempts that are allowed", http.StatusConflict, 0)
		if s.get(at); s.signedIn() {
			t.Error("the browser that waited is signed in")
		}
		_, token, number, _ = h.shows()
		h.clock.Advance(2 * time.Minute)
		h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number}).check(t,
			"a code of two minutes ago", http.StatusConflict, 0)
		_, token, number, _ = h.shows()
		h.set(func(u *settings.Units) { u.LoginMethods.MobileLogin.AuthenticationType = "BROWSER" })
		h.call(http.MethodPost, path, map[string]any{"token": token}).check(t, "apps approve nothing", http.StatusConflict, 0)
		h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number}).check(t,
			"apps approve nothing", http.StatusConflict, 0)
	})
	t.Run("attack 271: an API client that is limited to a partition approves for nobody of another one", func(t *testing.T) {
		t.Parallel()
		h, path := phonePeople(t, func(c *identity.Config, d *api.Deps) {
			c.Partitions.On = true
			d.Gate.Partitions = func(string) []string { return []string{"west"} }
		})
		s, token, number, at := h.shows()
		h.call(http.MethodPost, path, map[string]any{"token": token}).check(t, "looking", http.StatusNotFound, 0)
		h.call(http.MethodPost, path+"/answer", map[string]any{"token": token, "approve": true, "number": number}).check(t,
			"approving", http.StatusNotFound, 0)
		if s.get(at); s.signedIn() {
			t.Error("the browser that waited is signed in")
		}
	})
	t.Run("attack 271: an API client with max_level makes no higher sign-in", func(t *testing.T) {
		t.Parallel()
		h, path := phonePeople(t) // max_level 2
		h.set(func(u *settings.Units) {
			u.Features.GoogleAuthenticatorStepUpAuthenticationEnabled, u.LoginMethods.MobileLogin.StepUpType = true, "GOOGLE_AUTHENTICATOR"
		})
		s, token, number, at := h.shows()
		if a := h.call(http.MethodPost, path, map[string]any{"token": token}); !strings.Contains(a.Body.String(), `"authentication_level":2`) {
			t.Errorf("looking = %s", a.Body)
		}
		h.call(http.MethodPost, path+"/answer",
			map[string]any{"token": token, "approve": true, "number": number, "step_up_type": "GOOGLE_AUTHENTICATOR"}).check(t,
			"approving", http.StatusNoContent, 0)
		s.get(at)
		r := httptest.NewRequest(http.MethodGet, issuer+"/x", nil)
		for name, value := range s.cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		if result, err := h.persons.Session.CurrentOf(r); err != nil || result == nil || result.Level != 2 {
			t.Errorf("the session is %+v (%v), want level 2", result, err)
		}
	})
}
