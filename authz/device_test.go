package authz_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/internal/secret"
)

const deviceGrant = "urn:ietf:params:oauth:grant-type:device_code"

// withTV adds a television, which is public, and an application that approves devices.
func withTV() authztest.Option {
	return authztest.WithClients(
		&client.Client{
			ID: "tv", Name: "The television", Public: true, Grants: []string{"device_code", "refresh_token"},
			Scopes: []string{"openid", "profile", "orders.read", "secure.read"}, DefaultScopes: []string{"openid"}, Audiences: []string{"https://api.example.com"},
		},
		&client.Client{
			ID: "radio", Secrets: []secret.String{secret.New(authztest.Secret("radio"))}, Grants: []string{"device_code"}, Scopes: []string{"openid"},
		},
		&client.Client{
			ID: "wallet", Secrets: []secret.String{secret.New(authztest.Secret("wallet"))}, Grants: []string{"authorization_code", "refresh_token"}, Consent: "off",
			RedirectURIs: []string{"https://wallet.example.com/callback"}, Scopes: []string{"openid", "access:device-authorization:approve"},
		},
	)
}

// beginDevice asks for codes as the television.
func beginDevice(t *testing.T, h *authztest.Harness, scope string) *authztest.Response {
	t.Helper()
	res := h.Call("/oauth/device_authorization", "tv", url.Values{"scope": {scope}})
	if res.Status != http.StatusOK {
		t.Fatalf("DeviceAuthorization = %d %s, want 200", res.Status, res.Body)
	}
	return res
}

// poll asks for tokens as the television.
func poll(h *authztest.Harness, begun *authztest.Response) *authztest.Response {
	return h.Token("tv", url.Values{"grant_type": {deviceGrant}, "device_code": {begun.Text("device_code")}})
}

// TestDeviceGrant: a television shows a code, a person enters it on a phone and allows it, and the television gets
// tokens of that person. (RFC 8628)
func TestDeviceGrant(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withTV())
	begun := beginDevice(t, h, "openid profile orders.read")
	wantAPIHeaders(t, "the codes", begun)
	code := begun.Text("user_code")
	if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(code) {
		t.Errorf("user_code = %q", code)
	}
	doc := begun.JSON()
	if doc["verification_uri"] != h.Issuer+"/device" || doc["verification_uri_complete"] != h.Issuer+"/device?user_code="+code || doc["expires_in"] != 600.0 || doc["interval"] != 5.0 {
		t.Errorf("answer = %s", begun.Body)
	}
	wantError(t, "before the person", poll(h, begun), 400, "authorization_pending")
	wantError(t, "before the person, and too early", poll(h, begun), 400, "slow_down")

	phone := h.Browser(authztest.Demo)
	form := phone.Follow("/device?user_code=" + code)
	if !strings.Contains(form.Body, `value="`+code+`"`) || strings.Contains(form.Body, "television") {
		t.Errorf("the page for the code = %d %s, want the code filled in and nothing looked up", form.Status, form.Body)
	}
	asked := phone.Follow(phone.Enter(" " + strings.ToLower(strings.ReplaceAll(code, "-", "")) + "\u2011").Location())
	for _, want := range []string{"The television", code, "Read your orders", "demo@example.com", "127.0.0.1", "12:00", "started this yourself"} {
		if !strings.Contains(asked.Body, want) {
			t.Errorf("the question does not name %q: %s", want, asked.Body)
		}
	}
	action, fields := authztest.Form(asked.Body)
	fields.Set("decision", "allow")
	if done := phone.Post(action, fields); done.Status != http.StatusOK || !strings.Contains(done.Body, "connected") {
		t.Errorf("Allow = %d %s", done.Status, done.Body)
	}
	wantEvent(t, h, authztest.Demo, "device.DeviceApprovedEvent", 1)
	tokens := poll(h, begun)
	wantStatus(t, "after the person has allowed it", tokens, http.StatusOK)
	if claims := idClaimsFor(t, h, tokens.Text("id_token"), "tv"); claims["sub"] != authztest.Demo || claims["aud"] != "tv" {
		t.Errorf("ID token = %v", claims)
	}
	in := h.Introspect(tokens.Text("access_token")).JSON()
	if in["sub"] != authztest.Demo || in["client_id"] != "tv" || in["scope"] != "openid profile orders.read" {
		t.Errorf("access token = %v", in)
	}
	wantError(t, "a second time", poll(h, begun), 400, "invalid_grant")
	wantActive(t, h, "the tokens after that", tokens.Text("access_token"), true)
	// The device stays signed in when the person leaves the phone.
	phone.Get("/oauth/logout")
	h.Clock.Advance(24 * time.Hour)
	wantStatus(t, "the next day", h.Refresh("tv", tokens.Text("refresh_token")), http.StatusOK)
	h.Invariants(t)
}

// TestDeviceDenied: a person who does not recognise the device says no, and the device hears it.
func TestDeviceDenied(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withTV())
	begun := beginDevice(t, h, "openid")
	if res := h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "deny"); res.Status != http.StatusOK || !strings.Contains(res.Body, "gets no access") {
		t.Errorf("Deny = %d %s", res.Status, res.Body)
	}
	wantError(t, "the device", poll(h, begun), 400, "access_denied")
	wantEvent(t, h, authztest.Demo, "device.DeviceDeniedEvent", 1)
	if res := h.Browser(authztest.Guest).Decide(begun.Text("user_code"), "allow"); res.Status != http.StatusUnprocessableEntity {
		t.Errorf("another person allows it afterwards: %d %s", res.Status, res.Body)
	}
	wantError(t, "the device after that", poll(h, begun), 400, "access_denied")
	h.Invariants(t)
}

// TestDeviceExpires: ten minutes after it was shown, a code is worth nothing, whether it was swept away or not.
func TestDeviceExpires(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withTV())
	waiting, allowed := beginDevice(t, h, "openid"), beginDevice(t, h, "openid")
	late := h.Browser(authztest.Demo)
	asked := late.Follow(late.Enter(waiting.Text("user_code")).Location())
	h.Browser(authztest.Demo).Decide(allowed.Text("user_code"), "allow")
	h.Clock.Advance(10 * time.Minute)
	for name, begun := range map[string]*authztest.Response{"waiting": waiting, "allowed": allowed} {
		wantError(t, name, poll(h, begun), 400, "expired_token")
	}
	action, fields := authztest.Form(asked.Body)
	fields.Set("decision", "allow")
	wantPage(t, "the question", late.Post(action, fields), http.StatusBadRequest)
	if res := h.Browser(authztest.Guest).Enter(waiting.Text("user_code")); res.Status != http.StatusUnprocessableEntity {
		t.Errorf("Enter = %d %s, want 422", res.Status, res.Body)
	}
	h.Clock.Advance(2 * time.Hour)
	h.Sweep()
	wantError(t, "two hours later", poll(h, waiting), 400, "invalid_grant")
	h.Invariants(t)
}

// TestDeviceSlowsDown: a device that asks too often has to wait longer each time, after a restart too.
func TestDeviceSlowsDown(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withTV())
	begun := beginDevice(t, h, "openid")
	for i, step := range []struct {
		after   time.Duration
		want    string
		restart bool
	}{
		{0, "authorization_pending", false},
		{5 * time.Second, "authorization_pending", false},
		{4 * time.Second, "authorization_pending", false}, // delayed less by the network than the one before
		{3 * time.Second, "slow_down", false},             // 10 s from now on
		{5 * time.Second, "slow_down", false},             // 15 s
		{15 * time.Second, "authorization_pending", false},
		{10 * time.Second, "slow_down", false}, // 20 s
		{0, "authorization_pending", true},
		{15 * time.Second, "slow_down", false}, // 25 s
		{25 * time.Second, "authorization_pending", false},
	} {
		h.Clock.Advance(step.after)
		if step.restart {
			h.Restart(nil)
		}
		if res := poll(h, begun); res.Text("error") != step.want {
			t.Errorf("poll %d = %s, want %s", i, res.Body, step.want)
		}
	}
	h.Invariants(t)
}

// TestWaitingDeviceCostsNoRead: thousands of devices ask every few seconds, so that they have to wait is read once.
// What a person decides counts from the next poll on, and so do the end of the code and another client.
func TestWaitingDeviceCostsNoRead(t *testing.T) {
	t.Parallel()
	h, store := withLookups(t, withTV())
	browser := h.Browser(authztest.Demo)
	allowed, denied, late, hasty := beginDevice(t, h, "openid"), beginDevice(t, h, "openid"), beginDevice(t, h, "openid"), beginDevice(t, h, "openid")
	all := []*authztest.Response{allowed, denied, late, hasty}
	lookups, updates := store.lookups.Load(), store.updates.Load()
	for range 10 {
		for i, device := range all {
			wantError(t, "device "+strconv.Itoa(i), poll(h, device), 400, "authorization_pending")
		}
		h.Clock.Advance(5 * time.Second)
	}
	if n := store.lookups.Load() - lookups; n != int64(len(all)) {
		t.Errorf("%d devices that poll ten times reach the store %d times, want once each", len(all), n)
	}
	if n := store.updates.Load() - updates; n != 0 {
		t.Errorf("devices that wait write %d times, want never", n)
	}
	wantError(t, "another client with the code", h.Token("radio", url.Values{"grant_type": {deviceGrant}, "device_code": {allowed.Text("device_code")}}), 400, "invalid_grant")
	browser.Decide(allowed.Text("user_code"), "allow")
	browser.Decide(denied.Text("user_code"), "deny")
	wantStatus(t, "allowed", poll(h, allowed), http.StatusOK)
	wantError(t, "allowed, and redeemed", poll(h, allowed), 400, "invalid_grant")
	wantError(t, "denied", poll(h, denied), 400, "access_denied")
	wantError(t, "hasty", poll(h, hasty), 400, "authorization_pending")
	wantError(t, "hasty, at once", poll(h, hasty), 400, "slow_down")
	h.Clock.Advance(5 * time.Second)
	wantError(t, "hasty, as early as it was allowed before", poll(h, hasty), 400, "slow_down")
	h.Clock.Advance(10 * time.Minute)
	wantError(t, "late", poll(h, late), 400, "expired_token")
	h.Invariants(t)
}

// TestDeviceLevel: a scope that needs a second factor needs it on the phone, and an old sign-in is not enough.
func TestDeviceLevel(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withTV())
	begun := beginDevice(t, h, "openid secure.read")
	phone := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	h.Clock.Advance(time.Hour)
	plain := beginDevice(t, h, "openid")
	phone.Person = ""
	if res := phone.Follow("/device"); !strings.HasPrefix(res.Location(), "/test/sign-in") {
		t.Errorf("a sign-in of an hour ago = %d %s, want to be asked again", res.Status, res.Location())
	}
	phone.Person = authztest.Demo
	phone.Decide(plain.Text("user_code"), "allow")
	wantStatus(t, "level 1", poll(h, plain), http.StatusOK)
	wantError(t, "expired meanwhile", poll(h, begun), 400, "expired_token")

	begun = beginDevice(t, h, "openid secure.read")
	phone.Decide(begun.Text("user_code"), "allow")
	res := poll(h, begun)
	if in := h.Introspect(res.Text("access_token")).JSON(); in["acr"] == nil || !strings.HasSuffix(in["acr"].(string), "2") { //nolint:forcetypeassert // checked
		t.Errorf("token of level 2 = %s, %v", res.Body, in)
	}
	h.Invariants(t)
}

// TestDeviceApproveByApplication: an application of the person approves a device with a token of the scope for it.
func TestDeviceApproveByApplication(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, withTV())
	begun := beginDevice(t, h, "openid orders.read")
	approve := func(code, token string) *authztest.Response {
		headers := []string{"Authorization", "Bearer " + token}
		if token == "" {
			headers = nil
		}
		return h.Post("/oauth/device_authorization/approve?user_code="+url.QueryEscape(code), url.Values{}, headers...)
	}
	code := begun.Text("user_code")
	token := h.Tokens("wallet", authztest.Demo, "scope", "openid access:device-authorization:approve").Access
	wantError(t, "no token", approve(code, ""), 401, "invalid_token")
	wantError(t, "another token", approve(code, "garbage"), 401, "invalid_token")
	wantError(t, "without the scope", approve(code, h.Tokens("wallet", authztest.Demo).Access), 403, "insufficient_scope")
	wantError(t, "a client's own", approve(code, own(h).Text("access_token")), 403, "insufficient_scope")
	wantError(t, "no code", approve("", token), 400, "invalid_request")
	wantError(t, "another code", approve("BBBB-BBBB", token), 404, "not_found")
	high := beginDevice(t, h, "openid secure.read")
	wantError(t, "a scope of level 2", approve(high.Text("user_code"), token), 403, "insufficient_user_authentication")
	wantError(t, "the device", poll(h, begun), 400, "authorization_pending")
	if res := approve(code, token); res.Status != http.StatusNoContent || res.Body != "" {
		t.Errorf("Approve = %d %s, want 204", res.Status, res.Body)
	}
	wantError(t, "again", approve(code, token), 404, "not_found")
	got := poll(h, begun)
	if in := h.Introspect(got.Text("access_token")).JSON(); in["sub"] != authztest.Demo || in["scope"] != "openid orders.read" {
		t.Errorf("tokens = %s, %v", got.Body, in)
	}
	h.Clock.Advance(time.Minute)
	for range 5 {
		wantError(t, "guessing", approve("BBBB-BBBB", token), 404, "not_found")
	}
	if res := approve("BBBB-BBBB", token); res.Status != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("a sixth guess = %d %s, want 429", res.Status, res.Body)
	}
	h.Invariants(t)
}
