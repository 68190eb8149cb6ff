package api_test

import (
	"encoding/base64"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity"
	"github.com/gatehouse-id/gatehouse/identity/actiontoken"
	"github.com/gatehouse-id/gatehouse/identity/api"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

func TestTokenAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 231: a token twice, sixty-four times at once, a second late, after a change of the password, with a bit flipped, of another partition", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t, func(c *identity.Config, _ *api.Deps) { c.Partitions.On = true })
		demoID := h.person(demo)
		twice := h.token(demoID, couple("partner", "1"))
		h.process(twice).check(t, "first", 200, 0)
		h.process(twice).check(t, "second", 400, 3011)

		at := h.token(demoID, signingIn())
		var mu sync.Mutex
		n := map[int]int{}
		var all sync.WaitGroup
		for range 64 {
			all.Go(func() {
				a := h.process(at)
				mu.Lock()
				defer mu.Unlock()
				n[a.Code]++
			})
		}
		all.Wait()
		if n[0] != 1 || n[3011] != 63 {
			t.Errorf("at once: codes %v, want one success and 3011 for the rest", n)
		}
		tickets := 0
		for key := range h.dump() {
			if strings.Contains(key, "identity_sign_in_ticket") {
				tickets++
			}
		}
		if tickets != 1 {
			t.Errorf("%d sign-ins were prepared, want 1", tickets)
		}

		late := h.make(demoID, actiontoken.NewActionToken{Actions: actions{signingIn()}, TTL: 60}).Token
		h.clock.Advance(61 * time.Second)
		h.process(late).check(t, "a second late", 400, 3011)

		token := h.token(demoID, signingIn())
		for i := range token {
			flipped := []byte(token)
			flipped[i] ^= 1
			h.clock.Advance(time.Second)
			h.process(string(flipped)).check(t, "flipped", 400, 3011)
		}
		h.process(token, jsonapi.PartitionHeader, "west").check(t, "another partition", 400, 3011)
		h.checkToken(token, jsonapi.PartitionHeader, "west").check(t, "another partition, validate", 401, 3011)
		h.call(http.MethodPost, "/api/persons/"+demoID+"/tokens", doing(signingIn()),
			jsonapi.PartitionHeader, "west").
			check(t, "made from another partition", 404, 0)
		h.call(http.MethodDelete, "/api/persons/"+demoID+"/tokens", nil, jsonapi.PartitionHeader, "west").check(t,
			"revoked from another partition", 404, 0)
		h.process(token, jsonapi.PartitionHeader, "default", jsonapi.PartitionHeader, "west").check(t,
			"two partitions", 400, 3001)
		if err := h.persons.Person.SetPassword(t.Context(), demoID, secret.New("another password 2"), audit.Actor{}); err != nil {
			t.Fatal(err)
		}
		h.process(token).check(t, "after a change of the password", 400, 3011)
		h.checkToken(token).check(t, "after a change of the password, validate", 401, 3011)
	})
	t.Run("attack 232: validate, then process, and the reverse", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		token := h.token(h.person(demo), couple("partner", "1"))
		for range 3 {
			if a := h.checkToken(token); a.status() != 204 || a.Body.Len() != 0 {
				t.Errorf("validate = %d %s, want 204 as often as it is asked", a.status(), a.Body)
			}
		}
		h.process(token).check(t, "process after validate", 200, 0)
		h.checkToken(token).check(t, "validate after process", 401, 3011)
		h.process(token).check(t, "process again", 400, 3011)
	})
	t.Run("attack 244: every path by every method, without credentials, with wrong ones, without the right", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		h.set(func(u *settings.Units) { u.Features.CredentialsAPIEnabled, u.Features.PersonAPIEnabled = false, false })
		for _, path := range []string{validatePath, tokenPath, checkPath, "/api/persons/x/tokens", "/api/persons/x/tokens/y"} {
			for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"} {
				for name, header := range map[string][]string{
					"none": {"Authorization", "none"}, "wrong": {"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("ops:guess"))},
				} {
					if a := h.call(method, path, "{", header...); a.status() != 401 || !strings.HasPrefix(a.Header().Get("WWW-Authenticate"), "Basic ") {
						t.Errorf("%s %s with %s credentials = %d, want 401", method, path, name, a.status())
					}
				}
				if a := h.call(method, path, "{", "Authorization",
					"Basic "+base64.StdEncoding.EncodeToString([]byte("other:secret of other"))); a.status() != 403 {
					t.Errorf("%s %s without the right = %d, want 403", method, path, a.status())
				}
				if a := h.call(method, path, "{"); a.status() != 503 {
					t.Errorf("%s %s switched off = %d, want 503 after authentication", method, path, a.status())
				}
			}
		}
	})
	t.Run("attack 247: ids in paths that are paths, NUL, quotes, placeholders, 10 kB", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		demoID := h.person(demo)
		for _, id := range []string{
			"..%2f" + demoID, "%00", demoID + "%00", "'%20OR%201=1--", "%7Benv.HOME%7D", strings.Repeat("x", 10_000),
			demoID + "%2ftokens", "identity",
		} {
			for _, path := range []string{"/api/persons/" + id + "/tokens", "/api/persons/" + demoID + "/tokens/" + id} {
				if a := h.call(http.MethodDelete, path, nil); a.status() != 404 {
					t.Errorf("DELETE %.80s = %d %s, want 404", path, a.status(), a.Body)
				}
			}
		}
	})
	t.Run("attack 248,249,251: members that are not there, twice, in another case; bodies too deep and too large", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		token := h.token(h.person(demo), signingIn())
		for _, body := range []string{
			`{"token":"` + token + `","person":"x"}`, `{"token":"` + token + `","token":"` + token + `"}`, `{"Token":"` + token + `"}`,
			`{"to\u212Aen":"` + token + `"}`,
			`{"token":"` + token + `"}{}`, `{"token":null}`, strings.Repeat(`{"token":`, 100_000), `{"token":` + strings.Repeat("[", 1000),
		} {
			if a := h.call(http.MethodPost, tokenPath, body); a.status() != 400 && a.status() != 413 {
				t.Errorf("body %.80s = %d %s, want 400 or 413", body, a.status(), a.Body)
			}
		}
		h.checkToken(token).check(t, "the token afterwards", 204, 0)
	})
	t.Run("attack 269: tokens of a person who was removed, for a person of the same username", func(t *testing.T) {
		t.Parallel()
		h := newTokens(t)
		ann := h.add(person.NewPerson{Username: "ann"})
		token := h.token(ann, signingIn())
		h.setState("ann", person.Removed)
		h.add(person.NewPerson{Username: "ann"})
		h.process(token).check(t, "the old token", 400, 3011)
		h.checkToken(token).check(t, "the old token, validate", 401, 3011)
	})
}

// TestTokenOfAnAdministrator: an API client signs in, and links, no one with a role in the console: neither by a token
// that it makes now, nor by one of before the person got the role.
func TestTokenOfAnAdministrator(t *testing.T) {
	t.Parallel()
	var role atomic.Bool
	h := newTokens(t, func(c *identity.Config, _ *api.Deps) {
		c.HasRole = func(string, []string) bool { return role.Load() }
	})
	demoID := h.person(demo)
	for name, n := range map[string]actiontoken.NewActionToken{
		"a sign-in":                    {Actions: actions{signingIn()}},
		"a sign-in at level 1":         {Actions: actions{signingIn()}, Level: 1},
		"a sign-in from an app":        {Actions: actions{signingIn()}, AppToWeb: true},
		"a link":                       {Actions: actions{couple("partner", "1")}},
		"a link to a session":          {Actions: actions{ofSession("x")}},
		"a sign-in after another link": {Actions: actions{couple("partner", "2"), signingIn()}},
	} {
		role.Store(false)
		before := h.make(demoID, n).Token
		role.Store(true)
		t.Run("attack 7229: "+name, func(t *testing.T) {
			h.call(http.MethodPost, "/api/persons/"+demoID+"/tokens", n).check(t, "made", 400, 0)
			h.process(before).check(t, "made before the role", 400, 3012)
		})
	}
	for key := range h.dump() {
		if strings.Contains(key, "identity_sign_in_ticket") {
			t.Error("a sign-in was prepared")
		}
	}
	role.Store(false)
	h.process(h.token(demoID, signingIn())).check(t, "without a role", 200, 0)
}
