package console

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// application adds an application with a secret, and returns the secret.
func (h *harness) application(id string, scopes ...string) string {
	h.t.Helper()
	made, err := h.az.Clients().Add(h.t.Context(), client.Client{
		ID: id, Name: "The wiki", RedirectURIs: []string{"https://wiki.example.com/cb?a=1,2"},
		Grants: []string{"authorization_code", "refresh_token"}, Scopes: append([]string{"openid"}, scopes...),
	}, audit.Actor{})
	h.must(err)
	return made
}

// clientOf returns an application as it is stored.
func (h *harness) clientOf(id string) clientstore.Info {
	h.t.Helper()
	list, err := h.az.Clients().List(h.t.Context())
	h.must(err)
	return list[slices.IndexFunc(list, func(a clientstore.Info) bool { return a.ID == id })]
}

// TestApplicationsAreEdited changes each field of an application alone, and reads it back. A form that is saved as it
// is changes nothing.
func TestApplicationsAreEdited(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	secret := h.application("wiki")
	_, err := h.id.Person.AddGroup(t.Context(), person.GroupChange{Name: "night shift"}, audit.Actor{})
	h.must(err)
	b := h.as("owner@example.com")
	const path = "/admin/applications/wiki/edit-client"
	save := func(name, value string) *answer {
		t.Helper()
		asked := b.get(path)
		if !asked.has(name) {
			t.Errorf("the form has no field %s:\n%s", name, asked.form())
		}
		if strings.Contains(asked.Body.String(), secret) {
			t.Errorf("the form shows the secret of the application")
		}
		fields := without(asked.checked(t), name)
		if value != "" || name != "pkce_required" {
			fields = append(fields, name, value)
		}
		return b.submit(asked, fields...)
	}
	events := len(h.allEvents(t.Context()))
	asked := b.get(path)
	if a := b.submit(asked, asked.checked(t)...); a.Code != http.StatusSeeOther || len(h.allEvents(t.Context())) != events {
		t.Errorf("the form, unchanged = %d with %d events, want 303 and none\n%s", a.Code, len(h.allEvents(t.Context()))-events, a.form())
	}
	for _, c := range []struct {
		name, value string
		holds       func(c clientstore.Info) bool
	}{
		{"name", "Wiki of the house", func(c clientstore.Info) bool { return c.Name == "Wiki of the house" }},
		{"redirect_uris", "https://wiki.example.com/a?x=1,2\r\nhttps://wiki.example.com/b", func(c clientstore.Info) bool {
			return slices.Equal(c.RedirectURIs, []string{"https://wiki.example.com/a?x=1,2", "https://wiki.example.com/b"})
		}},
		{"post_logout_redirect_uris", "https://wiki.example.com/bye", func(c clientstore.Info) bool {
			return slices.Equal(c.PostLogoutRedirectURIs, []string{"https://wiki.example.com/bye"})
		}},
		{
			"cors_origins", "https://app.example.com",
			func(c clientstore.Info) bool { return slices.Equal(c.Origins, []string{"https://app.example.com"}) },
		},
		{"scopes", "openid profile", func(c clientstore.Info) bool { return slices.Equal(c.Scopes, []string{"openid", "profile"}) }},
		{"default_scopes", "openid", func(c clientstore.Info) bool { return slices.Equal(c.DefaultScopes, []string{"openid"}) }},
		{
			"grants", "authorization_code refresh_token client_credentials",
			func(c clientstore.Info) bool { return slices.Contains(c.Grants, "client_credentials") },
		},
		{
			"audiences", "https://api.example.com",
			func(c clientstore.Info) bool { return slices.Equal(c.Audiences, []string{"https://api.example.com"}) },
		},
		{"client_groups", "staff\r\nnight shift", func(c clientstore.Info) bool {
			return slices.Equal(c.Groups, []string{"staff", "night shift"})
		}},
		{"client_groups", "", func(c clientstore.Info) bool { return len(c.Groups) == 0 }},
		{"consent", "always", func(c clientstore.Info) bool { return c.Consent == "always" }},
		{"token_format", "jwt", func(c clientstore.Info) bool { return c.TokenFormat == "jwt" }},
		{"access_token", "1h30m", func(c clientstore.Info) bool { return c.Lifetimes.AccessToken.String() == "1h30m0s" }},
		{"refresh_token", "7d", func(c clientstore.Info) bool { return c.Lifetimes.RefreshToken.Hours() == 7*24 }},
		{"refresh_chain", "60d", func(c clientstore.Info) bool { return c.Lifetimes.RefreshChain.Hours() == 60*24 }},
		{"session", "12h", func(c clientstore.Info) bool { return c.Lifetimes.Session.Hours() == 12 }},
		{"session", "", func(c clientstore.Info) bool { return c.Lifetimes.Session == 0 }},
		{"access_token", "", func(c clientstore.Info) bool { return c.Lifetimes.AccessToken.Minutes() == 15 }},
		{"max_sessions", "3", func(c clientstore.Info) bool { return c.MaxSessions == 3 }},
		{"id_token_claims", "yes", func(c clientstore.Info) bool { return c.IDTokenClaims }},
		{"pkce_required", "yes", func(c clientstore.Info) bool { return c.PKCERequired }},
		{"pkce_required", "", func(c clientstore.Info) bool { return !c.PKCERequired }},
		{
			"backchannel_logout_uri", "https://wiki.example.com/out",
			func(c clientstore.Info) bool { return c.BackchannelLogoutURI == "https://wiki.example.com/out" },
		},
		{
			"frontchannel_logout_uri", "https://wiki.example.com/frame",
			func(c clientstore.Info) bool { return c.FrontchannelLogoutURI == "https://wiki.example.com/frame" },
		},
		{
			"initiate_login_uri", "https://wiki.example.com/in",
			func(c clientstore.Info) bool { return c.InitiateLoginURI == "https://wiki.example.com/in" },
		},
		{"idps", "identity declared", func(c clientstore.Info) bool { return slices.Equal(c.IDPs, []string{"identity", "declared"}) }},
		{"idps", "", func(c clientstore.Info) bool { return slices.Equal(c.IDPs, []string{"identity"}) }},
		{"second_factor", "always", func(c clientstore.Info) bool { return c.SecondFactor == "always" }},
	} {
		before := len(h.allEvents(t.Context()))
		a := save(c.name, c.value)
		if a.Code != http.StatusSeeOther || !c.holds(h.clientOf("wiki")) {
			t.Errorf("%s = %q: status %d, want 303; the application is %+v\n%s", c.name, c.value, a.Code, h.clientOf("wiki").Client, a.form())
			continue
		}
		if list := h.allEvents(t.Context())[before:]; len(list) != 1 || list[0].ClientID != "wiki" ||
			list[0].Actor != h.personID("owner@example.com") || list[0].Reason != c.name {
			t.Errorf("%s: the events are %+v, want one that names the field", c.name, list)
		}
	}
	if got := h.call("/oauth/token", "wiki", secret, map[string][]string{"grant_type": {"client_credentials"}}); got.Code != http.StatusOK {
		t.Errorf("after the changes the secret is not valid any more: %d %s", got.Code, got.Body)
	}
	for _, c := range []struct{ name, value, want string }{
		{"redirect_uris", "wiki.example.com", "must be absolute"},
		{"redirect_uris", "", "is missing"},
		{"post_logout_redirect_uris", "https://wiki.example.com/#x", "must not have a fragment"},
		{"cors_origins", "https://app.example.com/path", "https://app.example.com/path"},
		{"grants", "authorization_code pigeon", "pigeon"},
		{"default_scopes", "email", "is not one of"},
		{"audiences", "api", "is not an absolute URI"},
		{"client_groups", "staff\r\nstuff", "there is no group"},
		{"access_token", "soon", "Enter a time such as"},
		{"refresh_token", "9999d", "lifetimes: refresh_token"},
		{"max_sessions", "0", "Enter a whole number from 1 to 1000."},
		{"frontchannel_logout_uri", "https://elsewhere.example/", "frontchannel_logout_uri"},
		{"token_format", "paper", "paper"},
	} {
		if a := save(c.name, c.value); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), `id="`+c.name+`-problem"`) ||
			!strings.Contains(a.form(), c.want) {
			t.Errorf("%s = %q: status %d, want 422 with %q at the field\n%s", c.name, c.value, a.Code, c.want, a.form())
		}
	}
	if a := b.get("/admin/applications/shop"); strings.Contains(a.form(), "edit-client") || !strings.Contains(a.form(), "Caddyfile:12") {
		t.Errorf("an application of the Caddyfile can be edited, or has no place:\n%s", a.form())
	}
	if a := b.acts("/admin/applications/shop/edit-client", "name", "Shop"); a.Code != http.StatusUnprocessableEntity ||
		h.clientOf("shop").Name != "The shop" {
		t.Errorf("an application of the Caddyfile is changed: %d\n%s", a.Code, a.form())
	}
}

// TestApplicationsMeanwhile: a form that was opened before a change by someone else saves nothing, and shows both.
func TestApplicationsMeanwhile(t *testing.T) {
	t.Parallel()
	t.Run("attack 791: a form of an older state", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.application("wiki")
		b := h.as("operator@example.com")
		asked := b.get("/admin/applications/wiki/edit-client")
		h.must(h.az.Clients().Change(t.Context(), "wiki", "", audit.Actor{}, func(c *client.Client) error { c.Name = "Theirs"; return nil }))
		a := b.submit(asked, append(asked.checked(t), "name", "Mine")...)
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), "Theirs") || !strings.Contains(a.form(), "Mine") ||
			h.clientOf("wiki").Name != "Theirs" {
			t.Errorf("a form of an older state = %d, want both names and no change: %s\n%s", a.Code, h.clientOf("wiki").Name, a.form())
		}
		if a := b.submit(a, append(a.checked(t), "name", "Mine")...); a.Code != http.StatusSeeOther || h.clientOf("wiki").Name != "Mine" {
			t.Errorf("saved after a look = %d, %s\n%s", a.Code, h.clientOf("wiki").Name, a.form())
		}
	})
}

// TestEditedFormsBeginOnTop: a form that is filled in already does not begin at its first empty field, to which a
// browser would scroll. One that is empty, or has something wrong, begins there.
func TestEditedFormsBeginOnTop(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.application("wiki")
	b := h.as("operator@example.com")
	asked := b.get("/admin/applications/wiki/edit-client")
	if strings.Contains(asked.form(), "autofocus") {
		t.Errorf("the form of an application begins below its name\n%s", asked.form())
	}
	if a := b.submit(asked, append(asked.checked(t), "access_token", "never")...); !focused(a, "access_token") {
		t.Errorf("what is wrong has no focus\n%s", a.form())
	}
	if a := b.get("/admin/persons/create"); !focused(a, "username") {
		t.Errorf("an empty form has no focus\n%s", a.form())
	}
}

// focused reports whether a form begins at a field.
func focused(a *answer, name string) bool {
	_, tag, found := strings.Cut(a.form(), ` name="`+name+`"`)
	tag, _, _ = strings.Cut(tag, ">")
	return found && strings.Contains(tag, "autofocus")
}

// TestEditingApplicationsAttacks: what an operator must not make of an application.
func TestEditingApplicationsAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 6391: an operator makes an application that can be anyone", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.application("wiki")
		h.application("directory", "scim")
		b := h.as("operator@example.com")
		before := h.clientOf("wiki")
		for what, fields := range map[string][]string{
			"the scope scim":           {"scopes", "openid scim"},
			"the grant password":       {"grants", "password refresh_token"},
			"the grant token_exchange": {"grants", "authorization_code token_exchange"},
			"the grant jwt_bearer":     {"grants", "authorization_code jwt_bearer"},
			"the grant implicit":       {"grants", "authorization_code implicit"},
		} {
			asked := b.get("/admin/applications/wiki/edit-client")
			if a := b.submit(asked, append(asked.checked(t), fields...)...); a.Code != http.StatusUnprocessableEntity ||
				!strings.Contains(a.form(), "Only an owner") {
				t.Errorf("attack: an operator gives %s = %d\n%s", what, a.Code, a.form())
			}
		}
		asked := b.get("/admin/applications/wiki/edit-client")
		if asked.has("second_factor") {
			t.Errorf("an operator is asked when the application needs a second factor")
		}
		b.submit(asked, append(asked.checked(t), "second_factor", "on_demand", "id", "directory", "disabled", "yes", "secrets",
			"x", "public", "yes")...)
		if after := h.clientOf("wiki"); after.Mark != before.Mark {
			t.Errorf("attack: an operator has made %+v of %+v", after.Client, before.Client)
		}
		if a := b.get("/admin/applications/directory/edit-client"); a.Code != http.StatusForbidden {
			t.Errorf("attack: an operator edits an application that provisions people: %d", a.Code)
		}
		// One that gets the scope while the form is open.
		asked = b.get("/admin/applications/wiki/edit-client")
		h.meanwhile.set(func() {
			h.must(h.az.Clients().Change(t.Context(), "wiki", "", audit.Actor{},
				func(c *client.Client) error { c.Scopes = append(c.Scopes, "scim"); return nil }))
		})
		if a := b.submit(asked, append(asked.checked(t), "redirect_uris", "https://evil.example/cb")...); a.Code == http.StatusSeeOther ||
			h.clientOf("wiki").RedirectURIs[0] != "https://wiki.example.com/cb?a=1,2" {
			t.Errorf("attack: an application that provisions people by now has other redirect URIs: %d %v", a.Code, h.clientOf("wiki").RedirectURIs)
		}
	})
	t.Run("attack 3789: an operator adds an application again, so it needs no second factor", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		const remove = "/admin/applications/wiki/remove-client"
		operator, owner := h.as("operator@example.com"), h.as("owner@example.com")
		for _, second := range []string{"always", "when_set_up"} {
			h.application("wiki")
			asked := operator.get(remove)
			h.must(h.az.Clients().Change(t.Context(), "wiki", "", audit.Actor{},
				func(c *client.Client) error { c.SecondFactor = second; return nil }))
			for _, a := range []*answer{operator.get(remove), operator.submit(asked)} {
				if a.Code != http.StatusForbidden {
					t.Errorf("attack: an operator removes an application with second_factor %s: %d", second, a.Code)
				}
			}
			if h.clientOf("wiki").SecondFactor != second {
				t.Fatal("attack: the application has changed")
			}
			if a := owner.acts(remove); a.Code != http.StatusOK {
				t.Errorf("an owner removes it: %d\n%s", a.Code, a.form())
			}
		}
	})
	t.Run("attack 536: the name of an application that is sent back with its form", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.application("wiki")
		b := h.as("operator@example.com")
		asked := b.get("/admin/applications/wiki/edit-client")
		a := b.submit(asked, append(asked.checked(t), "name", `"><img src=x>`, "access_token", "never")...)
		if strings.Contains(a.Body.String(), "<img") || a.Code != http.StatusUnprocessableEntity {
			t.Errorf("attack: the form has markup: %d\n%s", a.Code, a.form())
		}
	})
}
