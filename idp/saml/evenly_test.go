package saml_test

import (
	"encoding/base64"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/beevik/etree"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const cipherValue = "./saml:EncryptedAssertion/xenc:EncryptedData/xenc:CipherData/xenc:CipherValue"

// TestSignedThenEncrypted: an assertion that is signed and then encrypted with CBC, in an unsigned response, signs
// people in, as AD FS and Entra send it by default.
func TestSignedThenEncrypted(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	a := l.honest()
	a.SignResponse, a.SignAssertion = false, true
	a.Encrypt, a.Content = samltest.NewKey("sp", l.now).Certificate, samltest.AES256CBC
	l.accepts(t, l.idp.Response(a), "anna@example")
	if l.waited != 0 {
		t.Errorf("%d waits for an answer that is good", l.waited)
	}
	// GCM, and CBC under a signature, tell nothing by themselves.
	for _, other := range []func(*samltest.Answer){
		func(a *samltest.Answer) { a.Content = samltest.AES256GCM },
		func(a *samltest.Answer) { a.SignResponse = true },
	} {
		l := newLab(t)
		a := l.honest()
		a.SignResponse, a.SignAssertion = false, true
		a.Encrypt, a.Content = samltest.NewKey("sp", l.now).Certificate, samltest.AES256CBC
		other(&a)
		a.SP = "https://other.example"
		l.refuses(t, l.idp.Response(a), "audience")
		if l.waited != 0 {
			t.Errorf("%d waits for an answer that tells nothing", l.waited)
		}
	}
}

// TestSealedByNewKey: the signature of such an answer shows only after decryption, and a new read of the metadata must
// not tell what is inside. So each answer that is refused is a reason to look for a new key of the provider.
func TestSealedByNewKey(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	var published atomic.Value
	published.Store(l.idp.Metadata())
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Write(published.Load().([]byte)) //nolint:errcheck,forcetypeassert // octets; the client can have gone
	}))
	t.Cleanup(server.Close)
	l.open(saml.Config{Metadata: server.URL})
	sealed := func(change func(*samltest.Answer)) []byte {
		a := l.honest()
		a.SignResponse, a.SignAssertion = false, true
		a.Encrypt, a.Content = samltest.NewKey("sp", l.now).Certificate, samltest.AES256CBC
		change(&a)
		return l.idp.Response(a)
	}
	for name, change := range map[string]func(*samltest.Answer){
		"a signature of no one":      func(a *samltest.Answer) { a.Signature.Key = samltest.NewKey("evil", l.now) },
		"for another service":        func(a *samltest.Answer) { a.SP = "https://other.example" },
		"a key that is not ours":     func(a *samltest.Answer) { a.Encrypt = samltest.NewKey("evil", l.now).Certificate },
		"without an inner signature": func(a *samltest.Answer) { a.SignAssertion = false },
	} {
		before := asked.Load()
		l.now = l.now.Add(saml.Eager(false))
		l.begin(idp.Request{Flow: flow, MaxAge: -1})
		l.refuses(t, sealed(change), "")
		if n := asked.Load() - before; n != 1 {
			t.Errorf("attack 156: %s: the metadata was read %d times, want once whatever is inside", name, n)
		}
	}
	l.idp.Key = samltest.NewKey("next", l.now)
	published.Store(l.idp.Metadata())
	l.now = l.now.Add(saml.Eager(false))
	l.begin(idp.Request{Flow: flow, MaxAge: -1})
	l.accepts(t, sealed(func(*samltest.Answer) {}), "anna@example")
}

// TestDecryptionOracle plays the attack on XML encryption: an attacker who has recorded an encrypted answer changes it
// and learns the plaintext from how we fail. Each failure must give the same reason and end at a step of the clock.
func TestDecryptionOracle(t *testing.T) {
	t.Parallel()
	t.Run("attack 156: each way to fail before the signature inside is verified", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		to := samltest.NewKey("sp", l.now).Certificate
		sealed := samltest.Answer{Encrypt: to, Content: samltest.AES128CBC}
		assertion := func(change func(*samltest.Answer)) string {
			a := l.honest()
			a.SignResponse, a.SignAssertion = false, true
			change(&a)
			doc := etree.NewDocument()
			doc.SetRoot(find(samltest.Parse(l.idp.Response(a)).Root(), "./saml:Assertion").Copy())
			return string(samltest.Bytes(doc))
		}
		good := assertion(func(*samltest.Answer) {})
		refused := 0
		for what, plain := range map[string]string{
			"nothing": "", "no XML": strings.Repeat("x", 400), "half of it": good[:len(good)/2], "another element": "<a/>", "two": good + good,
			"unsigned":                assertion(func(a *samltest.Answer) { a.SignAssertion = false }),
			"signed by somebody else": assertion(func(a *samltest.Answer) { a.Signature.Key = samltest.NewKey("evil", l.now) }),
			"changed after signing":   strings.Replace(good, "anna@example", "boss@example", 1),
			"an assertion inside": strings.Replace(good, "</saml:Assertion>",
				`<saml:Assertion xmlns:saml="`+samltest.Assertion+`"/></saml:Assertion>`, 1),
			"a signature inside": strings.Replace(good, "</saml:Subject>",
				`<ds:Signature xmlns:ds="http://www.w3.org/2000/09/xmldsig#"/></saml:Subject>`, 1),
			"a prefix that is unbound": strings.Replace(good, "xmlns:saml", "xmlns:other", 1),
		} {
			raw := l.tampered(func(root *etree.Element) {
				remove(find(root, "./saml:Assertion"))
				if s := root.FindElement("./ds:Signature"); s != nil {
					remove(s)
				}
				root.AddChild(samltest.Seal(sealed, "EncryptedAssertion", []byte(plain)))
			})
			_, err := l.finish(raw)
			if err == nil || err.Error() != "idp: the encrypted assertion: it does not decrypt" {
				t.Errorf("%s: Finish = %v, want the one error", what, err)
			}
			if refused++; l.waited != refused {
				t.Errorf("%s: %d waits after %d refusals", what, l.waited, refused)
			}
		}
	})
	t.Run("attack 156: changed ciphertexts, at the start, in the padding and in their length", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		a := l.honest()
		a.SignResponse, a.SignAssertion = false, true
		a.Encrypt, a.Content = samltest.NewKey("sp", l.now).Certificate, samltest.AES128CBC
		raw := l.idp.Response(a)
		doc := samltest.Parse(raw)
		value := find(doc.Root(), cipherValue)
		octets, err := base64.StdEncoding.DecodeString(value.Text())
		if err != nil {
			t.Fatal(err)
		}
		dice := rand.New(rand.NewPCG(70, 156)) //nolint:gosec // reproducible
		for i := range 300 {
			changed := slices.Clone(octets)
			switch i % 3 {
			case 0:
				changed[dice.IntN(16)] ^= byte(1 + dice.IntN(255))
			case 1:
				changed[len(octets)-17-dice.IntN(16)] ^= byte(1 + dice.IntN(255))
			case 2:
				changed = changed[:16*dice.IntN(len(octets)/16)]
			}
			value.SetText(base64.StdEncoding.EncodeToString(changed))
			_, err := l.finish(samltest.Bytes(doc))
			if err == nil || err.Error() != "idp: the encrypted assertion: it does not decrypt" || l.waited != i+1 {
				t.Fatalf("%d: Finish = %v after %d waits", i, err, l.waited)
			}
		}
		l.accepts(t, raw, "anna@example")
	})
	t.Run("attack 156: what fails behind the signature takes the same time", func(t *testing.T) {
		t.Parallel()
		l := newLab(t)
		to := samltest.NewKey("sp", l.now).Certificate
		a := l.honest()
		a.SignResponse, a.SignAssertion, a.Encrypt, a.Content = false, true, to, samltest.AES128CBC
		raw := l.idp.Response(a)
		l.accepts(t, raw, "anna@example")
		l.refuses(t, raw, "used before")        // the recorded answer itself, once more
		a.SP = "https://other.example/metadata" // the victim's, posted to another service provider
		l.refuses(t, l.idp.Response(a), "audience")
		if l.waited != 2 {
			t.Errorf("%d waits, want one for each refusal", l.waited)
		}
	})
}
