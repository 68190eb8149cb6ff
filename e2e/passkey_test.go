package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
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
		AutomaticPresenceSimulation: true, IsUserVerified: true, HasCmtgKey: true, // or no passkey can be put there
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

// passkeys returns the passkeys that a device stores.
func (b *tab) passkeys(id webauthn.AuthenticatorID) []*webauthn.Credential {
	b.t.Helper()
	return call(b, webauthn.GetCredentials, webauthn.GetCredentialsParams{AuthenticatorID: id}).Credentials
}

// byItself lets the pages have a passkey without a question, which Debian's Chromium makes with a Google account alone.
const byItself = `{
	PublicKeyCredential.getClientCapabilities = async () => ({conditionalCreate: true});
	const create = navigator.credentials.create.bind(navigator.credentials);
	navigator.credentials.create = options => {
		if (options.mediation !== "conditional") throw new Error("not asked without a question");
		delete options.mediation;
		return create(options);
	};
}`

// TestPasskeyWithoutAQuestion: a browser makes a passkey after a sign-in with a password, signs in with it, and forgets
// it when the person removes it. It also forgets one that no one has, and learns a new name of the person.
func TestPasskeyWithoutAQuestion(t *testing.T) {
	t.Parallel()
	_, s := openShop(t)
	b := s.browse(t)
	device := b.authenticator()
	b.present(device, false)
	b.begins(byItself)
	b.open(s.Issuer + "/account/security")
	b.until(`document.querySelector("input[name=upgrade]").value === "yes"`)
	b.present(device, true)
	b.fill("#username", person)
	b.fill("#password", s.Password)
	b.do(chromedp.Click(chromedp.CSS("main form button:not([type])")))
	b.until(`location.pathname === "/account/security"`)
	if keys := b.passkeys(device); len(keys) != 1 || keys[0].UserName != person || !keys[0].IsResidentCredential {
		t.Fatalf("the device has %+v", keys)
	}
	if text := b.text("main"); !strings.Contains(text, "Made by your browser when you signed in with a password") {
		t.Errorf("the page about signing in says %s", text)
	}

	stale := *b.passkeys(device)[0]
	stale.UserName = "before@example.com"
	b.put(device, &stale)
	b.forget()
	b.open(s.Issuer + "/account/security") // signs in with the passkey
	b.until(`location.pathname === "/account/security"`)
	if !b.awaitPasskeys(device, func(k []*webauthn.Credential) bool { return len(k) == 1 && k[0].UserName == person }) {
		t.Errorf("the device still has %s", b.passkeys(device)[0].UserName)
	}
	b.click(`form[action*="/passkeys/remove"] button`)
	if !b.awaitPasskeys(device, func(k []*webauthn.Credential) bool { return len(k) == 0 }) {
		t.Error("the device still has the passkey that the person has removed")
	}

	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	b.present(device, false)
	b.put(device, &webauthn.Credential{
		CredentialID: []byte(random(32)), IsResidentCredential: true, RpID: "localhost", PrivateKey: private, UserHandle: []byte(random(32)),
	})
	b.forget()
	b.open(s.Issuer + "/account")
	b.present(device, true)
	b.do(chromedp.Click(chromedp.CSS(passkeyButton)))
	b.until(`document.querySelector("#problem")`)
	if !b.awaitPasskeys(device, func(k []*webauthn.Credential) bool { return len(k) == 0 }) {
		t.Error("the device still has the passkey that no one has")
	}
}

// put stores a passkey in a device, in place of one with its id.
func (b *tab) put(id webauthn.AuthenticatorID, c *webauthn.Credential) {
	b.t.Helper()
	for _, old := range b.passkeys(id) {
		if bytes.Equal(old.CredentialID, c.CredentialID) {
			call(b, webauthn.RemoveCredential, webauthn.RemoveCredentialParams{AuthenticatorID: id, CredentialID: c.CredentialID})
		}
	}
	c.CmtgKeys, c.ActiveCmtgKeyIndex = nil, nil
	call(b, webauthn.AddCredential, webauthn.AddCredentialParams{AuthenticatorID: id, Credential: c})
}

// awaitPasskeys reports whether the passkeys of a device become as they should be.
func (b *tab) awaitPasskeys(id webauthn.AuthenticatorID, ok func([]*webauthn.Credential) bool) bool {
	b.t.Helper()
	for range 200 {
		if ok(b.passkeys(id)) {
			return true
		}
		b.until("true")
	}
	return false
}

// TestPasskeysOfTheHostBefore: an issuer that has moved uses the passkeys of its old host, which lists it.
func TestPasskeysOfTheHostBefore(t *testing.T) {
	t.Parallel()
	s, port := startSecure(t, "", "passkey_rp_id old.example.com", func(s *server) string {
		return fmt.Sprintf(`
old.example.com {
	tls %[1]s/cert.pem %[1]s/key.pem
	handle /.well-known/webauthn {
		header Content-Type application/json
		respond `+"`"+`{"origins":["%[2]s"]}`+"`"+`
	}
	handle {
		redir %[2]s{uri}
	}
}
`, s.dir, s.Issuer)
	})
	b := s.onDevice(t, port)
	device := b.authenticator()
	b.present(device, false)
	b.open("https://old.example.com/account/security")
	b.signIn(person, s.Password)
	b.until(`location.origin === "` + s.Issuer + `" && location.pathname === "/account/security"`)
	b.present(device, true)
	b.click(`a[href$="/passkeys/add"]`)
	b.click(passkeyButton)
	b.until(`document.querySelectorAll("ol.codes li").length === 10`)
	if keys := b.passkeys(device); len(keys) != 1 || keys[0].RpID != "old.example.com" {
		t.Fatalf("the device has %+v", keys)
	}
	b.forget()
	b.open(s.Issuer + "/account")
	b.until(`location.pathname === "/account"`)
}
