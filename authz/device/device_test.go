package device_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/authz/authztest"
)

// TestDeviceGrant: a television shows a code, a person enters it on a phone and allows it, and the television gets
// tokens of that person. (RFC 8628)
func TestDeviceGrant(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV())
	begun := authztest.BeginDevice(t, h, "openid profile orders.read")
	authztest.WantAPIHeaders(t, "the codes", begun)
	code := begun.Text("user_code")
	if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(code) {
		t.Errorf("user_code = %q", code)
	}
	doc := begun.JSON()
	if doc["verification_uri"] != h.Issuer+"/device" || doc["verification_uri_complete"] != h.Issuer+"/device?user_code="+code ||
		doc["expires_in"] != 600.0 || doc["interval"] != 5.0 {
		t.Errorf("answer = %s", begun.Body)
	}
	authztest.WantError(t, "before the person", authztest.PollDevice(h, begun), 400, "authorization_pending")
	authztest.WantError(t, "before the person, and too early", authztest.PollDevice(h, begun), 400, "slow_down")

	phone := h.Browser(authztest.Demo)
	form := phone.Follow("/device?user_code=" + code)
	if !strings.Contains(form.Body, `value="`+code+`"`) || strings.Contains(form.Body, "television") {
		t.Errorf("the page for the code = %d %s, want the code filled in and nothing looked up", form.Status, form.Body)
	}
	asked := phone.Follow(phone.Enter(" " + strings.ToLower(strings.ReplaceAll(code, "-", "")) + "\u2011").Location())
	for _, want := range []string{
		"The television", code, "Read your orders", "demo@example.com", "127.0.0.1", "12:00",
		"started this yourself",
	} {
		if !strings.Contains(asked.Body, want) {
			t.Errorf("the question does not name %q: %s", want, asked.Body)
		}
	}
	action, fields := authztest.Form(asked.Body)
	fields.Set("decision", "allow")
	if done := phone.Post(action, fields); done.Status != http.StatusOK || !strings.Contains(done.Body, "connected") {
		t.Errorf("Allow = %d %s", done.Status, done.Body)
	}
	authztest.WantEvent(t, h, authztest.Demo, "device.DeviceApprovedEvent", 1)
	tokens := authztest.PollDevice(h, begun)
	authztest.WantStatus(t, "after the person has allowed it", tokens, http.StatusOK)
	if claims := authztest.IDClaimsFor(t, h, tokens.Text("id_token"), "tv"); claims["sub"] != authztest.Demo || claims["aud"] != "tv" {
		t.Errorf("ID token = %v", claims)
	}
	in := h.Introspect(tokens.Text("access_token")).JSON()
	if in["sub"] != authztest.Demo || in["client_id"] != "tv" || in["scope"] != "openid profile orders.read" {
		t.Errorf("access token = %v", in)
	}
	authztest.WantError(t, "a second time", authztest.PollDevice(h, begun), 400, "invalid_grant")
	authztest.WantActive(t, h, "the tokens after that", tokens.Text("access_token"), true)
	// The device stays signed in when the person leaves the phone.
	phone.Get("/oauth/logout")
	h.Clock.Advance(24 * time.Hour)
	authztest.WantStatus(t, "the next day", h.Refresh("tv", tokens.Text("refresh_token")), http.StatusOK)
	h.Invariants(t)
}

// TestDeviceDenied: a person who does not recognise the device says no, and the device hears it.
func TestDeviceDenied(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV())
	begun := authztest.BeginDevice(t, h, "openid")
	if res := h.Browser(authztest.Demo).Decide(begun.Text("user_code"), "deny"); res.Status != http.StatusOK ||
		!strings.Contains(res.Body, "gets no access") {
		t.Errorf("Deny = %d %s", res.Status, res.Body)
	}
	authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "access_denied")
	authztest.WantEvent(t, h, authztest.Demo, "device.DeviceDeniedEvent", 1)
	if res := h.Browser(authztest.Guest).Decide(begun.Text("user_code"), "allow"); res.Status != http.StatusUnprocessableEntity {
		t.Errorf("another person allows it afterwards: %d %s", res.Status, res.Body)
	}
	authztest.WantError(t, "the device after that", authztest.PollDevice(h, begun), 400, "access_denied")
	h.Invariants(t)
}

// TestDeviceExpires: ten minutes after it was shown, a code is worth nothing, whether it was swept away or not.
func TestDeviceExpires(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV())
	waiting, allowed := authztest.BeginDevice(t, h, "openid"), authztest.BeginDevice(t, h, "openid")
	late := h.Browser(authztest.Demo)
	asked := late.Follow(late.Enter(waiting.Text("user_code")).Location())
	h.Browser(authztest.Demo).Decide(allowed.Text("user_code"), "allow")
	h.Clock.Advance(10 * time.Minute)
	for name, begun := range map[string]*authztest.Response{"waiting": waiting, "allowed": allowed} {
		authztest.WantError(t, name, authztest.PollDevice(h, begun), 400, "expired_token")
	}
	action, fields := authztest.Form(asked.Body)
	fields.Set("decision", "allow")
	authztest.WantPage(t, "the question", late.Post(action, fields), http.StatusBadRequest)
	if res := h.Browser(authztest.Guest).Enter(waiting.Text("user_code")); res.Status != http.StatusUnprocessableEntity {
		t.Errorf("Enter = %d %s, want 422", res.Status, res.Body)
	}
	h.Clock.Advance(2 * time.Hour)
	h.Sweep()
	authztest.WantError(t, "two hours later", authztest.PollDevice(h, waiting), 400, "invalid_grant")
	h.Invariants(t)
}

// TestDeviceSlowsDown: a device that asks too often has to wait longer each time, after a restart too.
func TestDeviceSlowsDown(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV())
	begun := authztest.BeginDevice(t, h, "openid")
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
		if res := authztest.PollDevice(h, begun); res.Text("error") != step.want {
			t.Errorf("poll %d = %s, want %s", i, res.Body, step.want)
		}
	}
	h.Invariants(t)
}

// TestWaitingDeviceCostsNoRead: thousands of devices ask every few seconds, and that they have to wait is read once.
// What a person decides counts from the next poll on, and so do the end of the code and another client.
func TestWaitingDeviceCostsNoRead(t *testing.T) {
	t.Parallel()
	h, store := authztest.WithLookups(t, authztest.WithTV())
	browser := h.Browser(authztest.Demo)
	allowed, denied, late, hasty := authztest.BeginDevice(t, h, "openid"), authztest.BeginDevice(t, h, "openid"),
		authztest.BeginDevice(t, h, "openid"), authztest.BeginDevice(t, h, "openid")
	all := []*authztest.Response{allowed, denied, late, hasty}
	lookups, updates := store.Lookups.Load(), store.Updates.Load()
	for range 10 {
		for i, device := range all {
			authztest.WantError(t, "device "+strconv.Itoa(i), authztest.PollDevice(h, device), 400, "authorization_pending")
		}
		h.Clock.Advance(5 * time.Second)
	}
	if n := store.Lookups.Load() - lookups; n != int64(len(all)) {
		t.Errorf("%d devices that poll ten times reach the store %d times, want once each", len(all), n)
	}
	if n := store.Updates.Load() - updates; n != 0 {
		t.Errorf("devices that wait write %d times, want never", n)
	}
	authztest.WantError(t, "another client with the code",
		h.Token("radio", url.Values{"grant_type": {authztest.DeviceGrant}, "device_code": {allowed.Text("device_code")}}), 400, "invalid_grant")
	browser.Decide(allowed.Text("user_code"), "allow")
	browser.Decide(denied.Text("user_code"), "deny")
	authztest.WantStatus(t, "allowed", authztest.PollDevice(h, allowed), http.StatusOK)
	authztest.WantError(t, "allowed, and redeemed", authztest.PollDevice(h, allowed), 400, "invalid_grant")
	authztest.WantError(t, "denied", authztest.PollDevice(h, denied), 400, "access_denied")
	authztest.WantError(t, "hasty", authztest.PollDevice(h, hasty), 400, "authorization_pending")
	authztest.WantError(t, "hasty, at once", authztest.PollDevice(h, hasty), 400, "slow_down")
	h.Clock.Advance(5 * time.Second)
	authztest.WantError(t, "hasty, as early as it was allowed before", authztest.PollDevice(h, hasty), 400, "slow_down")
	h.Clock.Advance(10 * time.Minute)
	authztest.WantError(t, "late", authztest.PollDevice(h, late), 400, "expired_token")
	h.Invariants(t)
}

// TestDeviceLevel: a scope that needs a second factor needs it on the phone, and an old sign-in is not enough.
func TestDeviceLevel(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV())
	begun := authztest.BeginDevice(t, h, "openid secure.read")
	phone := h.Browser(authztest.Demo).SignIn(authztest.Demo)
	h.Clock.Advance(time.Hour)
	plain := authztest.BeginDevice(t, h, "openid")
	phone.Person = ""
	if res := phone.Follow("/device"); !strings.HasPrefix(res.Location(), "/test/sign-in") {
		t.Errorf("a sign-in of an hour ago = %d %s, want to be asked again", res.Status, res.Location())
	}
	phone.Person = authztest.Demo
	phone.Decide(plain.Text("user_code"), "allow")
	authztest.WantStatus(t, "level 1", authztest.PollDevice(h, plain), http.StatusOK)
	authztest.WantError(t, "expired meanwhile", authztest.PollDevice(h, begun), 400, "expired_token")

	begun = authztest.BeginDevice(t, h, "openid secure.read")
	phone.Decide(begun.Text("user_code"), "allow")
	res := authztest.PollDevice(h, begun)
	if in := h.Introspect(res.Text("access_token")).JSON(); in["acr"] == nil || //nolint:forcetypeassert // checked
		!strings.HasSuffix(in["acr"].(string), "2") {
		t.Errorf("token of level 2 = %s, %v", res.Body, in)
	}
	h.Invariants(t)
}

// TestDeviceApproveByApplication: an application of the person approves a device with a token of the scope for it.
func TestDeviceApproveByApplication(t *testing.T) {
	t.Parallel()
	h := authztest.New(t, authztest.WithTV())
	begun := authztest.BeginDevice(t, h, "openid orders.read")
	approve := func(code, token string) *authztest.Response {
		headers := []string{"Authorization", "Bearer " + token}
		if token == "" {
			headers = nil
		}
		return h.Post("/oauth/device_authorization/approve?user_code="+url.QueryEscape(code), url.Values{}, headers...)
	}
	code := begun.Text("user_code")
	token := h.Tokens("wallet", authztest.Demo, "scope", "openid access:device-authorization:approve").Access
	authztest.WantError(t, "no token", approve(code, ""), 401, "invalid_token")
	authztest.WantError(t, "another token", approve(code, "garbage"), 401, "invalid_token")
	authztest.WantError(t, "without the scope", approve(code, h.Tokens("wallet", authztest.Demo).Access), 403, "insufficient_scope")
	authztest.WantError(t, "a client's own", approve(code, authztest.OwnToken(h).Text("access_token")), 403, "insufficient_scope")
	authztest.WantError(t, "no code", approve("", token), 400, "invalid_request")
	authztest.WantError(t, "another code", approve("BBBB-BBBB", token), 404, "not_found")
	high := authztest.BeginDevice(t, h, "openid secure.read")
	authztest.WantError(t, "a scope of level 2", approve(high.Text("user_code"), token), 403, "insufficient_user_authentication")
	authztest.WantError(t, "the device", authztest.PollDevice(h, begun), 400, "authorization_pending")
	if res := approve(code, token); res.Status != http.StatusNoContent || res.Body != "" {
		t.Errorf("Approve = %d %s, want 204", res.Status, res.Body)
	}
	authztest.WantError(t, "again", approve(code, token), 404, "not_found")
	got := authztest.PollDevice(h, begun)
	if in := h.Introspect(got.Text("access_token")).JSON(); in["sub"] != authztest.Demo || in["scope"] != "openid orders.read" {
		t.Errorf("tokens = %s, %v", got.Body, in)
	}
	h.Clock.Advance(time.Minute)
	for range 5 {
		authztest.WantError(t, "guessing", approve("BBBB-BBBB", token), 404, "not_found")
	}
	if res := approve("BBBB-BBBB", token); res.Status != http.StatusTooManyRequests || res.Header.Get("Retry-After") == "" {
		t.Errorf("a sixth guess = %d %s, want 429", res.Status, res.Body)
	}
	h.Invariants(t)
}
