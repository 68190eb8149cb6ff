package apppassword_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/apppassword"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/internal/secret"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	usedType = "token.AppPasswordUsedEvent"
)

// bell is rung when what an open request rests on has changed.
type bell chan struct{}

func (b bell) Wake() {
	select {
	case b <- struct{}{}:
	default:
	}
}

// works reports whether protect would take the app password for someone.
func works(t *testing.T, h *authztest.Harness, text string) bool {
	t.Helper()
	in, err := h.Server().Introspect(t.Context(), text)
	if err != nil {
		t.Fatalf("Introspect = %v", err)
	}
	return in.Active
}

func use(t *testing.T, h *authztest.Harness, text, site string, from audit.Origin) (bool, error) {
	t.Helper()
	in, err := h.Server().UseAt(t.Context(), text, site, from)
	return err == nil && in.Active, err
}

func usedEvents(t *testing.T, h *authztest.Harness) (reasons []string) {
	t.Helper()
	err := h.Store.View(t.Context(), func(tx storage.Tx) error {
		reasons = nil
		for e, err := range eventtest.All(tx) {
			if err != nil {
				return err
			}
			if e.Type == usedType {
				reasons = append(reasons, e.ClientIP+" "+e.Reason)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return reasons
}

func listed(t *testing.T, h *authztest.Harness) (list []authn.AppPassword) {
	t.Helper()
	err := h.Store.View(t.Context(), func(tx storage.Tx) (err error) {
		list, err = h.Server().AppPasswords().List(tx, authztest.Demo, h.Clock.Now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestAppPasswordSaysWhoseItIs: what protect learns, without the secret anywhere in the store's records or the log.
func TestAppPasswordSaysWhoseItIs(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithAppPasswords(t)
	text := authztest.MustMakeAppPassword(t, h, nil)
	if !strings.HasPrefix(text, "ghpw_") || len(text) < len("ghpw_")+32 {
		t.Errorf("app password = %q, want a prefix for scanners and at least 160 random bits", text)
	}
	in, err := h.Server().Introspect(t.Context(), text)
	if err != nil || !in.Active || in.Subject != authztest.Demo || in.Person == nil || in.ClientID != "" ||
		!slices.Equal(in.Scope, []string{"calendar"}) || in.Level != 1 {
		t.Errorf("Introspect = %+v, %v", in, err)
	}
	if !in.At(authztest.DavSite) || in.At(authztest.CodeSite) || in.At("") {
		t.Error("it is good at another site than the one that was chosen")
	}
	if strings.Contains(h.Log(), text) {
		t.Error("the log has the app password")
	}
	authztest.WantEvent(t, h, authztest.Demo, "token.AppPasswordCreatedEvent", 1)
}

// TestAppPasswordOpensNoOtherDoor: userinfo, token exchange and revocation by clients are not for app passwords, and a
// resource server that does not name one of its sites does not learn that it is one.
func TestAppPasswordOpensNoOtherDoor(t *testing.T) {
	t.Parallel()
	t.Run("attack 366: an app password where only tokens are taken", func(t *testing.T) {
		t.Parallel()
		h := authztest.NewWithAppPasswords(t)
		text := authztest.MustMakeAppPassword(t, h, nil)
		if res := h.Get("/oauth/userinfo", "Authorization", "Bearer "+text); res.Status != http.StatusUnauthorized {
			t.Errorf("userinfo = %d, want 401", res.Status)
		}
		if res := h.Validate(text); res.Status == http.StatusOK {
			t.Errorf("validate_bearer = %d %s, want a refusal", res.Status, res.Body)
		}
		h.Revoke("shop", text)
		ask := func(as string) string {
			return h.Do(http.MethodPost, "/oauth/api/v2/token/introspect", "token="+text,
				append(authztest.Basic(as, authztest.Secret(as)), "Content-Type", "application/x-www-form-urlencoded")...).Body
		}
		for _, as := range []string{"ops", "narrow"} {
			if got := ask(as); got != `{"active":false}` {
				t.Errorf("introspection by %s = %s, want inactive", as, got)
			}
		}
		if len(usedEvents(t, h)) != 0 {
			t.Error("a refused question counts as a use")
		}
		if got := ask("dav"); !strings.Contains(got, `"active":true`) || !strings.Contains(got, authztest.DavSite) ||
			!strings.Contains(got, "demo@example.com") {
			t.Errorf("introspection by the resource server of the site = %s", got)
		}
		if got := usedEvents(t, h); len(got) != 1 || !strings.Contains(got[0], authztest.DavSite) {
			t.Errorf("events of uses = %q, want that of the resource server", got)
		}
	})
}

// TestAppPasswordEnds: everything that ends what a person holds ends it at once.
func TestAppPasswordEnds(t *testing.T) {
	t.Parallel()
	const expires = "attack 367: expired"
	for name, end := range map[string]func(t *testing.T, h *authztest.Harness, text string){
		"attack 367: revoked by the person": func(t *testing.T, h *authztest.Harness, _ string) {
			if err := h.Server().AppPasswords().Revoke(t.Context(), authztest.Demo, listed(t, h)[0].ID, authztest.Admin,
				authztest.NothingElse); err != nil {
				t.Error(err)
			}
			authztest.WantEvent(t, h, authztest.Demo, "token.AppPasswordRevokedEvent", 1)
		},
		"attack 367: revoked by the API": func(t *testing.T, h *authztest.Harness, _ string) {
			items := authztest.HeldItems(t, h, authztest.Demo+"/app_passwords")
			if len(items) != 1 || items[0].Scope != "calendar" {
				t.Fatalf("items = %+v", items)
			}
			authztest.WantStatus(t, "DELETE", authztest.AsRegistrar(h, http.MethodDelete, authztest.Demo+"/app_passwords/"+items[0].ID),
				http.StatusNoContent)
			authztest.WantEvent(t, h, authztest.Demo, "token.AppPasswordRevokedEvent", 1)
		},
		"attack 367: found in a public place": func(t *testing.T, h *authztest.Harness, text string) {
			if err := h.Server().RevokeToken(t.Context(), text, authztest.Admin); err != nil {
				t.Error(err)
			}
			authztest.WantEvent(t, h, authztest.Demo, "token.AppPasswordRevokedEvent", 1)
		},
		expires: func(_ *testing.T, h *authztest.Harness, _ string) { h.Clock.Advance(90 * 24 * time.Hour) },
		"attack 367: person blocked": func(_ *testing.T, h *authztest.Harness, _ string) {
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Active = false })
		},
		"attack 367: new password": func(_ *testing.T, h *authztest.Harness, _ string) {
			h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Epoch++ })
		},
		"attack 367: everything revoked": func(t *testing.T, h *authztest.Harness, _ string) {
			if err := h.Server().RevokeEverything(t.Context(), authztest.Admin); err != nil {
				t.Error(err)
			}
		},
		"attack 367: person removed": func(t *testing.T, h *authztest.Harness, _ string) {
			if err := h.Store.Update(t.Context(),
				func(tx storage.Tx) error { return h.Server().AppPasswords().Forget(tx, authztest.Demo) }); err != nil {
				t.Error(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := authztest.NewWithAppPasswords(t)
			text := authztest.MustMakeAppPassword(t, h, nil)
			for range 2 { // the second answer is from memory
				if !works(t, h, text) {
					t.Fatal("it does not work")
				}
			}
			_, basis, err := h.Server().Observe(t.Context(), text)
			if err != nil {
				t.Fatal(err)
			}
			bell := make(bell, 1)
			if basis.Reading.Watch(bell) == nil {
				t.Fatal("what the app password opens cannot be watched")
			}
			end(t, h, text)
			if name != expires {
				<-bell // what is open is judged again
			} else if basis.Until.After(h.Clock.Now()) {
				t.Errorf("what is open stays open until %s", basis.Until)
			}
			if works(t, h, text) {
				t.Error("it still works")
			}
			if in, err := h.Server().Recheck(t.Context(), text); err != nil || in.Active {
				t.Errorf("Recheck = %+v, %v: an open connection stays", in, err)
			}
			if list := listed(t, h); len(list) != 0 {
				t.Errorf("the person still sees %+v", list)
			}
		})
	}
}

// TestAppPasswordOfADisabledProvider: who disables a provider that was taken over ends what it has signed in, and the
// app passwords that were made then with it.
func TestAppPasswordOfADisabledProvider(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 2793: an app password that was made in a sign-in by a provider that is disabled since",
		func(t *testing.T, h *authztest.Harness) {
			by := func(provider string) string {
				return authztest.MustMakeAppPassword(t, h, func(q *authn.AppPasswordRequest) { q.Provider = provider })
			}
			partner, own := by("partner"), by("identity")
			if !works(t, h, partner) || !works(t, h, own) {
				t.Fatal("they do not work")
			}
			h.People.SwitchOff("partner")
			if works(t, h, partner) {
				t.Error("it still works")
			}
			if ok, err := use(t, h, partner, authztest.DavSite, authztest.AProgram); ok || err != nil {
				t.Errorf("Use = %t, %v, want that it counts for nothing", ok, err)
			}
			if in, err := h.Server().Recheck(t.Context(), partner); err != nil || in.Active {
				t.Errorf("Recheck = %+v, %v: an open connection stays", in, err)
			}
			asked := authztest.IntrospectAs(h, "dav", url.Values{"token": {partner}})
			if asked.Body != `{"active":false}` {
				t.Errorf("introspection = %s", asked.Body)
			}
			if !works(t, h, own) {
				t.Error("that of another sign-in does not work")
			}
		}, authztest.WithAppPasswords())
}

// TestAppPasswordOfAFormerMember: a resource server that asks learns what protect at the same site decides.
func TestAppPasswordOfAFormerMember(t *testing.T) {
	t.Parallel()
	authztest.Attack(t, "attack 6117: an app password of someone who has left the groups of its site, at a resource server that asks",
		func(t *testing.T, h *authztest.Harness) {
			groups := func(names ...string) {
				h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Groups = names })
			}
			groups("developers")
			text := authztest.MustMakeAppPassword(t, h, func(q *authn.AppPasswordRequest) {
				q.Sites, q.Scopes = []string{authztest.CodeSite}, nil
			})
			for _, tt := range []struct {
				groups []string
				want   bool
			}{{[]string{"developers"}, true}, {nil, false}, {[]string{"sales"}, false}, {[]string{"sales", "developers"}, true}} {
				groups(tt.groups...)
				before := len(usedEvents(t, h))
				res := authztest.IntrospectAs(h, "code", url.Values{"token": {text}})
				if got := strings.Contains(res.Body, `"active":true`); got != tt.want {
					t.Errorf("in the groups %q: introspection = %s, want active: %t", tt.groups, res.Body, tt.want)
				}
				if !tt.want && len(usedEvents(t, h)) != before {
					t.Error("a refused question counts as a use")
				}
			}
		}, authztest.WithAppPasswords(), authztest.WithConfig(func(c *authz.Config) {
			c.APIClients = append(c.APIClients, &client.APIClient{
				ID: "code", Secrets: []secret.String{secret.New(authztest.Secret("code"))}, APIs: []string{"introspection"},
				Audiences: []string{authztest.CodeSite},
			})
		}))
}

// TestAppPasswordBeforeARole: one that was made in a sign-in of someone else's word works until its person has a role
// in the admin console. One that the person has made themselves goes on.
func TestAppPasswordBeforeARole(t *testing.T) {
	t.Parallel()
	for name, vouched := range map[string]bool{"attack 2199: in a session of an API client": true, "in a session of the person": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := authztest.NewWithAppPasswords(t)
			text := authztest.MustMakeAppPassword(t, h, func(q *authn.AppPasswordRequest) { q.Vouched = vouched })
			for _, admin := range []bool{false, true, false} {
				h.People.Change(authztest.Demo, func(s *authn.Subject) { s.Administrator = admin })
				if want := !admin || !vouched; works(t, h, text) != want || (len(listed(t, h)) == 1) != want {
					t.Errorf("with a role (%v) it works: %v, want %v", admin, !want, want)
				}
			}
		})
	}
}

// TestAppPasswordIsChosenFromWhatIsOffered: a forged form gets no site or scope that the page does not offer.
func TestAppPasswordIsChosenFromWhatIsOffered(t *testing.T) {
	t.Parallel()
	t.Run("attack 368: sites, scopes and levels that are not offered", func(t *testing.T) {
		t.Parallel()
		h := authztest.NewWithAppPasswords(t)
		for name, change := range map[string]func(*authn.AppPasswordRequest){
			"another site":          func(q *authn.AppPasswordRequest) { q.Sites = []string{"https://evil.example.com"} },
			"no site":               func(q *authn.AppPasswordRequest) { q.Sites = nil },
			"a site for a group":    func(q *authn.AppPasswordRequest) { q.Sites = []string{authztest.DavSite, authztest.CodeSite} },
			"a scope of no site":    func(q *authn.AppPasswordRequest) { q.Scopes = []string{"orders.read"} },
			"a scope above a level": func(q *authn.AppPasswordRequest) { q.Scopes = []string{"secure.read"} },
			"no such person":        func(q *authn.AppPasswordRequest) { q.Person = "nobody" },
		} {
			if _, err := authztest.MakeAppPassword(t, h, change); !errors.Is(err, authn.ErrNotOffered) {
				t.Errorf("%s: Make = %v, want ErrNotOffered", name, err)
			}
		}
		for name, change := range map[string]func(*authn.AppPasswordRequest){
			"no name":                   func(q *authn.AppPasswordRequest) { q.Name = "" },
			"for ever":                  func(q *authn.AppPasswordRequest) { q.Life = 400 * 24 * time.Hour },
			"no lifetime":               func(q *authn.AppPasswordRequest) { q.Life = 0 },
			"a negative number of uses": func(q *authn.AppPasswordRequest) { q.Limit = -1 },
		} {
			if _, err := authztest.MakeAppPassword(t, h, change); err == nil {
				t.Errorf("%s: Make = nil, want an error", name)
			}
		}
		if list := listed(t, h); len(list) != 0 {
			t.Errorf("made %+v", list)
		}
		authztest.MustMakeAppPassword(t, h, func(q *authn.AppPasswordRequest) { q.Scopes, q.Level = []string{"secure.read"}, 2 })
		for range 49 {
			authztest.MustMakeAppPassword(t, h, nil)
		}
		if _, err := authztest.MakeAppPassword(t, h, nil); !errors.Is(err, authn.ErrTooManyAppPasswords) {
			t.Errorf("the 51st: Make = %v, want ErrTooManyAppPasswords", err)
		}
	})
}

// TestUsesOfAnAppPasswordAreEvents: docs/decisions/introspection.md#uses-of-app-passwords.
func TestUsesOfAnAppPasswordAreEvents(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithAppPasswords(t)
	text := authztest.MustMakeAppPassword(t, h, nil)
	for range 1000 {
		if ok, err := use(t, h, text, authztest.DavSite, authztest.AProgram); !ok || err != nil {
			t.Fatalf("Use = %t, %v", ok, err)
		}
	}
	if got := usedEvents(t, h); len(got) != 1 || !strings.HasPrefix(got[0], authztest.AProgram.ClientIP+" at "+authztest.DavSite) {
		t.Fatalf("events of 1000 uses in a minute = %q, want one at once", got)
	}
	if last := listed(t, h)[0]; last.LastAddress != authztest.AProgram.ClientIP || last.LastSite != authztest.DavSite ||
		!last.Last.Equal(h.Clock.Now()) {
		t.Errorf("last use = %+v", last)
	}
	if _, err := use(t, h, text, authztest.DavSite, audit.Origin{ClientIP: "198.51.100.9"}); err != nil {
		t.Error(err)
	}
	if got := usedEvents(t, h); len(got) != 2 ||
		!slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, "198.51.100.9 ") }) {
		t.Errorf("events = %q, want that of the other address at once", got)
	}
	h.Clock.Advance(time.Minute)
	for range 3 {
		if _, err := use(t, h, text, authztest.DavSite, authztest.AProgram); err != nil {
			t.Error(err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	h.Server().AppPasswords().Run(ended) // what a server writes at its end
	got := usedEvents(t, h)
	if len(got) != 5 || !slices.ContainsFunc(got,
		func(s string) bool { return strings.HasPrefix(s, authztest.AProgram.ClientIP+" 999 more times from ") }) ||
		!slices.ContainsFunc(got, func(s string) bool { return strings.HasPrefix(s, authztest.AProgram.ClientIP+" 2 more times from ") }) {
		t.Errorf("events = %q, want the others of each minute together", got)
	}
	if got := listed(t, h)[0].Count; got != 1004 {
		t.Errorf("uses = %d, want 1004", got)
	}
}

// TestUseOfAnAppPasswordIsDurable: a use that no one could see later does not pass.
func TestUseOfAnAppPasswordIsDurable(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithAppPasswords(t)
	h.AllowFailures()
	text := authztest.MustMakeAppPassword(t, h, nil)
	h.Store.FailUpdates(errors.New("disk full"))
	for range 2 {
		if ok, err := use(t, h, text, authztest.DavSite, authztest.AProgram); ok || err == nil {
			t.Errorf("Use = %t, %v, want a failure", ok, err)
		}
	}
	h.Store.FailUpdates(nil)
	if ok, err := use(t, h, text, authztest.DavSite, authztest.AProgram); !ok || err != nil || len(usedEvents(t, h)) != 1 {
		t.Errorf("Use after the failure = %t, %v with events %q", ok, err, usedEvents(t, h))
	}
}

// TestAppPasswordWithALimit: however many ask at once, and each use has its event.
func TestAppPasswordWithALimit(t *testing.T) {
	t.Parallel()
	t.Run("attack 369: three uses, by twelve at once", func(t *testing.T) {
		t.Parallel()
		h := authztest.NewWithAppPasswords(t)
		text := authztest.MustMakeAppPassword(t, h, func(q *authn.AppPasswordRequest) { q.Limit = 3 })
		var passed atomic.Int32
		var all sync.WaitGroup
		for range 12 {
			all.Go(func() {
				in, err := h.Server().UseAt(t.Context(), text, authztest.DavSite, authztest.AProgram)
				if err != nil {
					t.Error(err)
				} else if in.Active {
					passed.Add(1)
				}
			})
		}
		all.Wait()
		if n := passed.Load(); n != 3 || works(t, h, text) || len(usedEvents(t, h)) != 3 || len(listed(t, h)) != 0 {
			t.Errorf("%d of 12 passed with a limit of 3; events %q", n, usedEvents(t, h))
		}
		if in, err := h.Server().Recheck(t.Context(), text); err != nil || !in.Active {
			t.Errorf("Recheck = %+v, %v: the last request that was let in is cut", in, err)
		}
	})
}

// TestListOfAllAppPasswords: an administrator sees each that works, page by page, and none that does not.
func TestListOfAllAppPasswords(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithAppPasswords(t)
	for _, life := range []time.Duration{time.Hour, 90 * 24 * time.Hour, 90 * 24 * time.Hour, 90 * 24 * time.Hour} {
		authztest.MustMakeAppPassword(t, h, func(q *authn.AppPasswordRequest) { q.Life = life })
	}
	h.Clock.Advance(2 * time.Hour)
	found, after := 0, ""
	for pages := 1; ; pages++ {
		var list []apppassword.Owned
		next := ""
		err := h.Store.View(t.Context(), func(tx storage.Tx) (err error) {
			list, next, err = h.Server().AppPasswords().All(tx, after, 2, h.Clock.Now())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range list {
			if one.Person != authztest.Demo || one.Name != "Phone" {
				t.Errorf("found %+v", one)
			}
		}
		if found += len(list); next == "" || pages > 4 {
			break
		}
		after = next
	}
	if found != 3 {
		t.Errorf("%d app passwords, want the 3 that work", found)
	}
}
