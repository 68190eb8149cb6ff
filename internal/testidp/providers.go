package main

import (
	"cmp"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"net/http"
	"net/url"

	"github.com/go-jose/go-jose/v4"

	"github.com/gatehouse-id/gatehouse/idp/oauth2/oauth2test"
	"github.com/gatehouse-id/gatehouse/idp/oidc/oidctest"
)

// keyPair is a key pair for the configuration API of Gatehouse.
type keyPair struct {
	Name    string `json:"name"`
	Type    string `json:"key_type"`
	Private string `json:"private_key"`
	Public  string `json:"public_key"`
}

// newKeyPair writes a key pair. private can be nil.
func newKeyPair(name, kind string, private crypto.PrivateKey, public *pem.Block) (keyPair, error) {
	text := func(b *pem.Block) string { return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(b)) }
	out := keyPair{Name: name, Type: kind, Public: text(public)}
	if private == nil {
		return out, nil
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	out.Private = text(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	return out, err
}

// start starts all providers. They serve until the program ends.
func start(p *people) (all []standIn, keys []keyPair, err error) {
	for _, c := range []struct {
		preset, id, name string
		refusal          url.Values
	}{
		{
			"github", "github", "GitHub",
			url.Values{"error": {"access_denied"}, "error_description": {"The user has denied your application access."}},
		},
		{
			"discord", "discord", "Discord",
			url.Values{"error": {"access_denied"}, "error_description": {"The resource owner or authorization server denied the request"}},
		},
		{
			"facebook", "facebook", "Facebook",
			url.Values{
				"error": {"access_denied"}, "error_reason": {"user_denied"}, "error_code": {"200"},
				"error_description": {"Permissions error"},
			},
		},
		{
			"linkedin", "linkedin", "LinkedIn",
			url.Values{"error": {"user_cancelled_login"}, "error_description": {"The user cancelled LinkedIn login"}},
		},
		{"twitter", "twitter", "X", url.Values{"error": {"access_denied"}}},
		{"", "forge", "Forge", url.Values{"error": {"access_denied"}}},
	} {
		o := oauth2test.New(harness{}, c.preset)
		d := &desk{id: c.id, name: c.name, people: p, refusal: c.refusal, choice: []person{{"own", "Their only account", func() {}}}}
		o.Front(d.before)
		all = append(all, standIn{
			id:   c.id,
			told: map[string]string{"url": o.URL, "client_id": oauth2test.ClientID, "client_secret": oauth2test.ClientSecret},
		})
	}
	apple, key, err := startApple(p)
	if err != nil {
		return nil, nil, err
	}
	nations, keys, err := startNations()
	if err != nil {
		return nil, nil, err
	}
	all = append(all, startGoogle(p), startMicrosoft(p), startAzureADB2C(p), startItsme(p), apple)
	return append(all, nations...), append(keys, key), nil
}

// other is a person at a provider besides the one that the stand-in knows by itself.
type other struct {
	id, name, sub string
	claims        map[string]any // instead of those of its own person
}

// openID puts the page before a provider of OpenID Connect.
func openID(o *oidctest.OP, d *desk, told map[string]string, others ...other) standIn {
	var own oidctest.Script
	o.Change(func(s *oidctest.Script) { own = *s })
	for _, x := range append([]other{{id: "own", name: "Ann Example"}}, others...) {
		d.choice = append(d.choice, person{x.id, x.name, func() {
			o.Change(func(s *oidctest.Script) {
				s.Sub, s.IDToken = cmp.Or(x.sub, own.Sub), maps.Clone(own.IDToken)
				maps.Copy(s.IDToken, x.claims)
			})
		}})
	}
	o.Front(d.before)
	told["url"], told["client_id"], told["client_secret"] = o.URL, oidctest.ClientID, oidctest.ClientSecret
	return standIn{id: d.id, told: told}
}

func startGoogle(p *people) standIn {
	o := oidctest.NewGoogle(harness{})
	d := &desk{id: "google", name: "Google", people: p, refusal: url.Values{"error": {"access_denied"}, "iss": {o.URL}}}
	return openID(o, d, map[string]string{"domain": "example.com"}, other{
		"elsewhere", "Ann of another domain", "110169484474386276335", map[string]any{"hd": "evil.example"},
	}, other{
		"private", "Ann without a domain", "110169484474386276336", map[string]any{"hd": nil, "email": "ann@gmail.com"},
	})
}

func startMicrosoft(p *people) standIn {
	o := oidctest.NewMicrosoft(harness{})
	d := &desk{id: "entra", name: "Microsoft", people: p, refusal: url.Values{
		"error": {"access_denied"}, "error_subcode": {"cancel"},
		"error_description": {"AADSTS65004: User declined to consent to access the app."},
	}}
	return openID(o, d, map[string]string{"tenant": oidctest.Tenant}, other{
		"elsewhere", "Ann of another tenant", "BBBBBBBBBBBBBBBBBBBBBIkzqFVrSaSaFHy782bbtaQ", o.OfTenant(oidctest.OtherTenant, nil),
	})
}

func startAzureADB2C(p *people) standIn {
	d := &desk{id: "customers", name: "Contoso", people: p, refusal: url.Values{
		"error": {"access_denied"}, "error_description": {"AADB2C90091: The user has cancelled entering self-asserted information."},
	}}
	return openID(oidctest.NewAzureADB2C(harness{}), d, map[string]string{"tenant": "contoso", "policy": oidctest.Policy}, other{
		"elsewhere", "Ann by another policy", "", map[string]any{"tfp": oidctest.AnotherPolicy},
	})
}

// startApple starts the stand-in of Apple, which makes the key that we sign with.
func startApple(p *people) (standIn, keyPair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return standIn{}, keyPair{}, err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return standIn{}, keyPair{}, err
	}
	pair, err := newKeyPair("apple", "EC", key, &pem.Block{Type: "PUBLIC KEY", Bytes: public})
	o := oidctest.NewApple(harness{}, key.Public())
	o.Change(func(s *oidctest.Script) {
		s.IDToken["email"], s.IDToken["is_private_email"] = oidctest.AppleRelay, "true"
	})
	d := &desk{id: "apple", name: "Apple", people: p, refusal: url.Values{"error": {"user_cancelled_authorize"}}, post: true}
	return openID(o, d, map[string]string{"team": oidctest.AppleTeam, "key": oidctest.AppleKey}), pair, err
}

// startItsme starts the stand-in of itsme, which fetches our keys as it needs them.
func startItsme(p *people) standIn {
	o := oidctest.NewItsme(harness{}, func() (set jose.JSONWebKeySet) {
		res, err := http.Get(p.origin() + "/oidc/itsme/jwks")
		if err != nil {
			fail(err.Error())
		}
		defer res.Body.Close()
		if err := json.NewDecoder(res.Body).Decode(&set); err != nil {
			fail(err.Error())
		}
		return set
	})
	o.Change(func(s *oidctest.Script) { s.UserInfo["email"] = "ann@itsme.example" })
	d := &desk{
		id: "itsme", name: "itsme", people: p,
		refusal: url.Values{"error": {"access_denied"}, "error_description": {"The user rejected the action"}},
	}
	return openID(o, d, map[string]string{"service": oidctest.ItsmeService}, other{
		"basic", "Ann without the code", "", map[string]any{"acr": oidctest.ItsmeBasic},
	})
}
