package e2e

import (
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// authenticator gives the tab a device that stores passkeys and recognises its owner.
func (b *tab) authenticator() webauthn.AuthenticatorID {
	b.t.Helper()
	call(b, webauthn.Enable, webauthn.EnableParams{})
	return call(b, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true,
		HasUserVerification:         true,
		AutomaticPresenceSimulation: true, IsUserVerified: true,
	}}).AuthenticatorID
}

// present sets whether the owner touches the device when asked.
func (b *tab) present(id webauthn.AuthenticatorID, yes bool) {
	b.t.Helper()
	call(b, webauthn.SetAutomaticPresenceSimulation, webauthn.SetAutomaticPresenceSimulationParams{AuthenticatorID: id, Enabled: yes})
}

const passkeyButton = "form[data-passkey] button"

// TestPasskey: a person adds a passkey, names it, signs in with it instead of the password, also when an application
// demands a level above that of a password, and steps up with it.
func TestPasskey(t *testing.T) {
	t.Parallel()
	p, s := openShop(t)
	axe, err := os.ReadFile("node/node_modules/axe-core/axe.min.js")
	if err != nil {
		t.Fatalf("%v: make install", err)
	}
	b := s.browse(t)
	device := b.authenticator()
	b.open(s.Issuer + "/account/security")
	b.until(`document.querySelector("` + passkeyButton + `") && !document.querySelector("form[data-passkey]").hidden`)
	inspect(b, "passkey-sign-in", string(axe))
	b.signIn(person, s.Password)
	inspect(b, "passkey-none", string(axe))
	b.click(`a[href$="/passkeys/add"]`)
	inspect(b, "passkey-add", string(axe))
	b.click(passkeyButton)
	b.until(`document.querySelectorAll("ol.codes li").length === 10`)
	inspect(b, "passkey-recovery", string(axe))
	b.click("main .buttons a")
	b.reaches(s.Issuer + "/account/security/passkeys/name?id=")
	inspect(b, "passkey-name", string(axe))
	b.fill("#name", "Work laptop")
	b.click("main form button:not([type])")
	b.reaches(s.Issuer + "/account/security")
	if !strings.Contains(b.text("main"), "Work laptop") {
		t.Errorf("the list of passkeys is %q", b.text("main"))
	}
	inspect(b, "passkey-list", string(axe))

	t.Run("a second one on the same device", func(t *testing.T) {
		b := b.in(t)
		b.click(`a[href$="/passkeys/add"]`)
		b.do(chromedp.Click(chromedp.CSS(passkeyButton)))
		b.until(`!document.querySelector("form[data-passkey] [role=alert]").hidden`)
		if got := b.text("form[data-passkey] [role=alert]"); got != "This device already has a passkey for this account." {
			t.Errorf("the page says %q", got)
		}
		inspect(b, "passkey-add-known", string(axe))
	})
	t.Run("sign-in by the button", func(t *testing.T) {
		b := b.in(t)
		b.forget()
		b.present(device, false)
		b.open(p.address + "/?" + url.Values{"acr_values": {"urn:gatehouse:level:3"}}.Encode())
		inspect(b, "passkey-sign-in-level", string(axe))
		b.present(device, true)
		b.do(chromedp.Click(chromedp.CSS(passkeyButton)))
		b.until(`document.querySelector("button[value=allow]")`)
		b.click("button[value=allow]")
		b.reaches(p.address)
		if got := b.text("h1"); got != "Signed in" {
			t.Errorf("the application says %q: %s", got, b.text("#text"))
		}
	})
	t.Run("sign-in by what the browser offers in the field", func(t *testing.T) {
		b := b.in(t)
		b.forget()
		b.open(s.Issuer + "/account")
		b.until(`location.pathname === "/account"`)
	})
	t.Run("step-up", func(t *testing.T) {
		b := b.in(t)
		b.forget()
		b.present(device, false)
		b.open(s.Issuer + "/account")
		b.signIn(person, s.Password)
		b.open(p.address + "/?" + url.Values{"acr_values": {"urn:gatehouse:level:3"}}.Encode())
		b.reaches(s.Issuer + "/step-up/passkey?flow=")
		inspect(b, "passkey-step-up", string(axe))
		b.present(device, true)
		b.do(chromedp.Click(chromedp.CSS(passkeyButton)))
		b.reaches(p.address)
	})
}
