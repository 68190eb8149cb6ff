package e2e

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238
	"encoding/base32"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"
)

// appCode is the code that an authenticator app shows, later time steps from now. (RFC 6238)
func appCode(t *testing.T, secret string, later int64) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ReplaceAll(secret, " ", ""))
	if err != nil {
		t.Fatalf("secret of the app: %v", err)
	}
	mac := hmac.New(sha1.New, key)
	var step [8]byte
	for i, n := 7, time.Now().Unix()/30+later; i >= 0; i, n = i-1, n>>8 {
		step[i] = byte(n)
	}
	mac.Write(step[:])
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 15
	n := uint32(sum[at]&0x7f)<<24 | uint32(sum[at+1])<<16 | uint32(sum[at+2])<<8 | uint32(sum[at+3])
	return fmt.Sprintf("%06d", n%1_000_000)
}

// TestStepUp: an application demands a level above that of a password. The person sets up an authenticator app on the
// way, and in another browser enters a code from it.
func TestStepUp(t *testing.T) {
	t.Parallel()
	p, s := openShopEdited(t, func(caddyfile string) string {
		return strings.Replace(caddyfile, "apis introspection", "apis introspection configuration", 1)
	})
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	if status, answer := s.configure(http.MethodPost, "/api/v2/config",
		`{"features":{"google_authenticator_step_up_authentication_enabled":true,"pin_enabled":true},`+
			`"step_up":{"actions":{"allow_set_initial_step_up_method_enabled":true}}}`); status != http.StatusNoContent {
		t.Fatalf("switch on authenticator apps: %d %s", status, answer)
	}
	demand := p.address + "/?" + url.Values{"acr_values": {"urn:gatehouse:level:3"}}.Encode()

	b := s.browse(t)
	b.open(demand)
	b.signIn(person, s.Password)
	inspect(b, "step-up-set-up", string(axe))
	b.click("main ul.providers a[href*=authenticator]")
	inspect(b, "authenticator", string(axe))
	secret := b.text("p.secret code")
	if !b.has(`a[href^="otpauth://totp/Gatehouse:`+person+`?"][href*="secret=`+strings.ReplaceAll(secret, " ", "")+`"]`) ||
		!b.has("button[data-copy=secret]:not([hidden])") {
		t.Error("an app on the same phone cannot open the key, nor can it be copied")
	}
	s.secret("secret of the app", strings.ReplaceAll(secret, " ", ""))
	b.fill("#code", "000000")
	b.click("main form button:not([type])")
	inspect(b, "authenticator-wrong", string(axe))
	b.fill("#code", appCode(t, secret, 0))
	b.click("main form button:not([type])")
	inspect(b, "recovery", string(axe))
	if !b.has("button[data-copy=codes]:not([hidden])") || !b.has("button[data-print]:not([hidden])") ||
		!b.has("form[action$=file] button:not([type])") {
		t.Error("the recovery codes cannot be copied, printed and downloaded")
	}
	recovery := b.text("ol.codes li code")
	s.secret("recovery code", recovery)
	b.click("main .buttons a")
	b.click("button[value=allow]")
	b.reaches(p.address)
	b.open(s.Issuer + "/account/security")
	inspect(b, "security", string(axe))
	b.open(s.Issuer + "/account/security/pin")
	inspect(b, "pin", string(axe))
	b.open(s.Issuer + "/account/security/remove?method=authenticator")
	inspect(b, "remove", string(axe))

	other := s.browse(t)
	other.open(demand)
	other.signIn(person, s.Password)
	inspect(other, "step-up", string(axe))
	other.click("main p.aside a")
	inspect(other, "step-up-choose", string(axe))
	other.click("main ul.providers a")
	other.fill("#code", appCode(t, secret, 1))
	other.click("main form button:not([type])")
	other.reaches(p.address)

	third := s.browse(t)
	third.open(s.Issuer + "/account/security/remove?method=authenticator")
	third.signIn(person, s.Password)
	third.click("main p.aside a")
	third.click("main ul.providers li:last-child a")
	third.fill("#code", recovery)
	third.click("main form button:not([type])")
	third.click("main form button:not([type])")
	third.reaches(s.Issuer + "/account/security")
}
