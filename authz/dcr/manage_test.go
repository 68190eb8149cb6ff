package dcr_test

import (
	"bytes"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz"
	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
)

// A client reads, changes and removes its registration with the token that it got, within the policy.
func TestClientManagesItsRegistration(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t, func(c *authz.Config) { c.Registration.Management = true })
	got := authztest.MustRegister(t, h,
		`{"redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"client_secret_post","client_name":"First","grant_types":["authorization_code","refresh_token"]}`)
	id, token, uri := got["client_id"].(string), got["registration_access_token"].(string), got["registration_client_uri"].(string)
	path := strings.TrimPrefix(uri, h.Issuer)
	auth := []string{"Authorization", "Bearer " + token, "Content-Type", "application/json"}
	if path != "/oauth/register?client_id="+id {
		t.Errorf("registration_client_uri = %s", uri)
	}
	seen := h.Do(http.MethodGet, path, "", auth...)
	if about := seen.JSON(); seen.Status != http.StatusOK || about["client_name"] != "First" || about["client_secret"] != nil ||
		about["registration_access_token"] != token || about["registration_client_uri"] != uri {
		t.Errorf("read = %d %s", seen.Status, seen.Body)
	}
	b := h.Browser(authztest.Demo)
	code, _ := authztest.AllowDocument(t, h, b, authztest.RegisteredParams(id, "http://localhost/cb", "tools.read"))
	changed := h.Do(http.MethodPut, path,
		`{"client_id":"`+id+`","client_secret":"`+got["client_secret"].(string)+
			`","redirect_uris":["http://localhost/cb","https://app.example/cb"],"client_name":"Second"}`, auth...)
	if about := changed.JSON(); changed.Status != http.StatusOK || about["client_name"] != "Second" ||
		about["token_endpoint_auth_method"] != "client_secret_post" || fmt.Sprint(about["grant_types"]) != "[authorization_code]" {
		t.Errorf("change = %d %s", changed.Status, changed.Body)
	}
	f := url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "redirect_uri": {"http://localhost/cb"},
		"code_verifier": {authztest.Verifier}, "client_id": {id}, "client_secret": {got["client_secret"].(string)},
	}
	if res := h.Post("/oauth/token", f); res.Status != http.StatusOK {
		t.Errorf("token by the secret of before = %d %s", res.Status, res.Body)
	}
	if _, asked := authztest.AllowDocument(t, h, b, authztest.RegisteredParams(id, "http://localhost/cb", "tools.read")); !asked {
		t.Error("a client with another name was not asked about")
	}
	for name, body := range map[string]string{
		"another's id":   `{"client_id":"shop","redirect_uris":["http://localhost/cb"]}`,
		"another method": `{"client_id":"` + id + `","redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"none"}`,
		"a script":       `{"client_id":"` + id + `","redirect_uris":["javascript:x"]}`,
	} {
		if res := h.Do(http.MethodPut, path, body, auth...); res.Status != http.StatusBadRequest {
			t.Errorf("change with %s = %d %s, want 400", name, res.Status, res.Body)
		}
	}
	if res := h.Do(http.MethodDelete, path, "", auth...); res.Status != http.StatusNoContent {
		t.Errorf("remove = %d %s", res.Status, res.Body)
	}
	if res := h.Do(http.MethodGet, path, "", auth...); res.Status != http.StatusUnauthorized {
		t.Errorf("read of what is gone = %d, want 401", res.Status)
	}
	if strings.Contains(h.Log(), token) {
		t.Error("the registration token is in the log")
	}
	h.Invariants(t)
}

func TestLogoOfRegisteredClient(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t, func(c *authz.Config) { c.Registration.Management = true })
	mine := authztest.MustRegister(t, h, cursorMetadata)
	id, token := mine["client_id"].(string), mine["registration_access_token"].(string)
	rename := func() *authztest.Response {
		return h.Do(http.MethodPut, "/oauth/register?client_id="+url.QueryEscape(id),
			`{"client_id":"`+id+`","client_name":"The bank","redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"none"}`,
			"Authorization", "Bearer "+token, "Content-Type", "application/json")
	}
	if res := rename(); res.Status != http.StatusOK {
		t.Fatalf("PUT of a client without a logo = %d %s, want 200", res.Status, res.Body)
	}
	t.Run("attack 9416: a client changes its name after it was given a logo", func(t *testing.T) {
		var picture bytes.Buffer
		if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 9, 9))); err != nil {
			t.Fatal(err)
		}
		if err := h.Server().Clients().SetLogo(t.Context(), id, picture.Bytes(), authztest.Admin); err != nil {
			t.Fatal(err)
		}
		if res := rename(); res.Status != http.StatusUnauthorized {
			t.Errorf("PUT of a client that an operator has given a logo = %d %s, want 401", res.Status, res.Body)
		}
	})
	h.Invariants(t)
}

// attack: a registration token is used for another client, for more than the policy, or against the operator: one who
// has switched a client off does not find it on again. (CVE-2026-9705, CVE-2026-15572 of a peer)
func TestManagementAttacks(t *testing.T) {
	t.Parallel()
	h := authztest.NewWithRegistration(t, func(c *authz.Config) { c.Registration.Management = true })
	mine, other := authztest.MustRegister(t, h, cursorMetadata), authztest.MustRegister(t, h, cursorMetadata)
	body := func(id string) string {
		return `{"client_id":"` + id +
			`","redirect_uris":["http://localhost/cb"],"token_endpoint_auth_method":"none","scope":"scim orders.read","grant_types":["authorization_code","client_credentials"],"disabled":false}`
	}
	do := func(method, id, token string) *authztest.Response {
		return h.Do(method, "/oauth/register?client_id="+url.QueryEscape(id), body(id), "Authorization", "Bearer "+token,
			"Content-Type", "application/json")
	}
	id, token := mine["client_id"].(string), mine["registration_access_token"].(string)
	t.Run("attack 463: registration tokens of others", func(t *testing.T) {
		var refusals []string
		for _, tt := range []struct{ id, token string }{
			{other["client_id"].(string), token},
			{"shop", token},
			{"unknown", token},
			{id, token[:len(token)-1] + "x"},
			{id, ""},
			{"", token},
		} {
			for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
				res := do(method, tt.id, tt.token)
				if res.Status != http.StatusUnauthorized {
					t.Errorf("%s of %q with another token = %d %s, want 401", method, tt.id, res.Status, res.Body)
				}
				refusals = append(refusals, res.Text("error")+res.Text("error_description"))
			}
		}
		if slices.Sort(refusals); len(slices.Compact(refusals)) != 1 {
			t.Errorf("refusals tell clients apart: %v", refusals)
		}
	})
	t.Run("attack 463: the people of another sector", func(t *testing.T) {
		const metadata = `"redirect_uris":["https://%s/cb"],"subject_type":"%s","token_endpoint_auth_method":"none"`
		got := authztest.MustRegister(t, h, "{"+fmt.Sprintf(metadata, "evil.example", "pairwise")+"}")
		id, _ := got["client_id"].(string)
		for _, to := range []struct {
			host, kind string
			status     int
		}{{"clinic.example", "pairwise", 400}, {"evil.example", "public", 400}, {"evil.example", "pairwise", 200}} {
			res := h.Do(http.MethodPut, "/oauth/register?client_id="+url.QueryEscape(id),
				`{"client_id":"`+id+`",`+fmt.Sprintf(metadata, to.host, to.kind)+"}",
				"Authorization", "Bearer "+got["registration_access_token"].(string), "Content-Type", "application/json")
			if res.Status != to.status {
				t.Errorf("PUT with %s at %s = %d %s, want %d", to.kind, to.host, res.Status, res.Body, to.status)
			}
		}
	})
	t.Run("peer 38: a change beyond the policy", func(t *testing.T) {
		if res := do(http.MethodPut, id, token); res.Status != http.StatusOK || res.JSON()["scope"] != "openid" ||
			fmt.Sprint(res.JSON()["grant_types"]) != "[authorization_code]" {
			t.Errorf("PUT = %d %s", res.Status, res.Body)
		}
	})
	disable := func(to bool) {
		if err := h.Server().Clients().Change(t.Context(), id, "disabled", authztest.Admin, func(c *client.Client) error {
			c.Disabled = to
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	disable(true)
	t.Run("peer 37: a disabled client enables itself", func(t *testing.T) {
		for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodDelete} {
			if res := do(method, id, token); res.Status != http.StatusUnauthorized {
				t.Errorf("%s = %d %s, want 401", method, res.Status, res.Body)
			}
		}
	})
	b := h.Browser(authztest.Demo)
	if res := b.Get("/oauth/authorize?" +
		authztest.RegisteredParams(id, "http://localhost/cb", "openid").Encode()); res.Status != http.StatusBadRequest {
		t.Errorf("authorize of a disabled client = %d, want 400", res.Status)
	}
	disable(false)
	if res := do(http.MethodPut, id, token); res.Status != http.StatusUnauthorized {
		t.Errorf("a change of what the operator has changed = %d %s, want 401", res.Status, res.Body)
	}
	if _, asked := authztest.AllowDocument(t, h, b, authztest.RegisteredParams(id, "http://localhost/cb", "openid")); !asked {
		t.Error("nobody was asked for a client that the operator has switched on again")
	}
	h.Invariants(t)
	h.Clock.Advance(400 * 24 * time.Hour)
	if err := h.Server().CatchUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Server().Clients().Get(t.Context(), id); err != nil {
		t.Errorf("a client that the operator has changed is gone: %v", err)
	}
	if _, err := h.Server().Clients().Get(t.Context(), other["client_id"].(string)); err == nil {
		t.Error("a client that nobody uses is still there")
	}
}
