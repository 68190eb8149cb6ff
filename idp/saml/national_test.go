package saml_test

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/saml"
	"github.com/gatehouse-id/gatehouse/idp/saml/samltest"
)

const (
	citizen = "s00000000:111222333" // by the rule of eleven
	basis   = "urn:oasis:names:tc:SAML:2.0:ac:classes:PasswordProtectedTransport"
	midden  = "urn:oasis:names:tc:SAML:2.0:ac:classes:MobileTwoFactorContract"
	subst   = "urn:oasis:names:tc:SAML:2.0:ac:classes:Smartcard"
	hoog    = "urn:oasis:names:tc:SAML:2.0:ac:classes:SmartcardPKI"
	loa     = "urn:etoegang:core:assurance-class:loa"
	dv      = "urn:etoegang:DV:00000001123456789000:entities:0001"
)

// nation is a service provider with the stand-in of a national service.
type nation struct {
	*lab
	service *samltest.National
	client  *samltest.Key
	named   map[string]*samltest.Key // key pairs of the configuration
}

// newNation opens a service provider of a scheme that the service knows.
func newNation(t *testing.T, scheme, assurance string, edit ...func(*saml.Config)) *nation {
	t.Helper()
	now := time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)
	n := &nation{lab: &lab{t: t, now: now}, client: samltest.NewKey("client", now)}
	n.service = samltest.NewNational("https://service.example/entity", func() time.Time { return n.now })
	t.Cleanup(n.service.Close)
	n.idp = n.service.Provider
	n.named = map[string]*samltest.Key{"client": n.client, "server": n.service.Server, "other": samltest.NewServerKey("other", now)}
	cfg := n.config(scheme, assurance)
	for _, e := range edit {
		e(&cfg)
	}
	n.reopen(cfg)
	return n
}

// config is that of a service provider which the service accepts.
func (n *nation) config(scheme, assurance string) saml.Config {
	return saml.Config{
		Metadata: n.service.Front.URL + "/metadata", Scheme: scheme, Assurance: assurance, ClientKey: "client",
		ServerCertificate: "server",
	}
}

// reopen makes the service provider of a configuration.
func (n *nation) reopen(cfg saml.Config) {
	n.t.Helper()
	env := n.env()
	transport := &http.Transport{}
	n.t.Cleanup(transport.CloseIdleConnections)
	env.Client = &http.Client{Transport: transport, Timeout: 5 * time.Second}
	env.Checked = env.Client
	own := env.KeyPair
	env.KeyPair = func(ctx context.Context, name string) (*idp.Key, error) {
		if name == "" {
			return own(ctx, name)
		}
		k := n.named[name]
		if k == nil {
			return nil, errors.New("there is no such key pair")
		}
		return &idp.Key{Name: name, Certificate: k.Certificate, Signer: k.Signer}, nil
	}
	env.Certificate = func(_ context.Context, name string) (*x509.Certificate, error) {
		if n.named[name] == nil {
			return nil, errors.New("there is no such key pair")
		}
		return n.named[name].Certificate, nil
	}
	p, err := saml.New(cfg, env)
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { p.Close() })
	n.Provider = p
	entity := sp
	if cfg.EntityID != "" {
		entity = cfg.EntityID
	}
	n.service.Know(samltest.Partner{
		EntityID: entity, ACS: acs, Signing: samltest.NewKey("sp", n.now).Certificate,
		Client: n.client.Certificate,
	})
	n.ask(idp.Request{MaxAge: -1})
}

// ask begins a sign-in that the service accepts.
func (n *nation) ask(q idp.Request) {
	n.t.Helper()
	q.Flow = flow
	next, err := n.Begin(n.t.Context(), q)
	if err != nil {
		n.t.Fatal(err)
	}
	n.state = next.State
	if n.query, err = n.service.Read(httptest.NewRequest(http.MethodGet, next.URL, nil)); err != nil {
		n.t.Fatalf("the service refuses the request: %v", err)
	}
}

// brings finishes the sign-in with what our address has in its query.
func (n *nation) brings(address string) (*idp.Identity, error) {
	return n.Finish(n.t.Context(), n.state, httptest.NewRequest(http.MethodGet, address, nil))
}

// answers finishes a new sign-in with the answer of a person.
func (n *nation) answers(name string, edit ...func(*samltest.Answer)) (*idp.Identity, error) {
	n.t.Helper()
	n.ask(idp.Request{MaxAge: -1})
	a := samltest.Honest(n.query, name)
	a.Class, a.Session = n.query.Class(), "session-1"
	for _, e := range edit {
		e(&a)
	}
	return n.brings(n.service.Issue(n.query, a))
}

func class(c string) func(*samltest.Answer) { return func(a *samltest.Answer) { a.Class = c } }

func levels(t *testing.T, scheme string, classes []string, worth []int, answer func(*nation, string) (*idp.Identity, error)) {
	t.Helper()
	for i, name := range saml.SchemeLevels(scheme) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNation(t, scheme, name)
			if got := n.query.Class(); got != classes[i] {
				t.Errorf("the request asks for %s, want %s", got, classes[i])
			}
			for j, c := range classes {
				id, err := answer(n, c)
				if j >= i {
					if err != nil || id.Level != worth[j] {
						t.Errorf("an answer with %s: %+v, %v", c, id, err)
					}
					continue
				}
				if !errors.As(err, new(*idp.Rejection)) || id != nil {
					t.Errorf("attack 780: an answer with %s signs in %+v (%v)", c, id, err)
				}
			}
			for _, c := range []string{"", "urn:oasis:names:tc:SAML:2.0:ac:classes:unspecified", classes[i] + "x"} {
				if id, err := answer(n, c); c != "" && (err == nil || id != nil) {
					t.Errorf("attack 780: an answer with %q signs in %+v", c, id)
				}
			}
			// An application can ask for more than the configuration does.
			n.ask(idp.Request{MaxAge: -1, Level: 4})
			if got := n.query.Class(); got != classes[len(classes)-1] {
				t.Errorf("a request for level 4 asks for %s", got)
			}
			a := samltest.Honest(n.query, citizen)
			a.Class = classes[len(classes)-2]
			if id, err := n.brings(n.service.Issue(n.query, a)); err == nil {
				t.Errorf("attack 780: an answer below what the application asks for signs in %+v", id)
			}
		})
	}
}

// TestBackChannel: the certificates on the back channel, ours and theirs.
func TestBackChannel(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		edit  func(*nation)
		cfg   func(*saml.Config)
		words string // of the error. Empty: it works
	}{
		{name: "as agreed"},
		{
			name:  "attack 781: a certificate that they do not know",
			edit:  func(n *nation) { n.named["client"] = samltest.NewKey("stranger", n.now) },
			words: "does not accept the certificate of client_key",
		},
		{
			name: "attack 781: no certificate", cfg: func(c *saml.Config) { c.Scheme, c.Assurance, c.Artifact, c.ClientKey = "", "", true, "" },
			words: "does not accept the certificate of client_key",
		},
		{name: "attack 781: another server", edit: func(n *nation) { n.named["server"] = n.named["other"] }, words: "shows another certificate"},
		{
			name: "attack 781: the same key in a certificate that has expired", edit: func(n *nation) { n.now = n.now.AddDate(2, 0, 0) },
			words: "has expired",
		},
		{
			name: "attack 781: a server that only the system would trust", cfg: func(c *saml.Config) { c.ServerCertificate = "" },
			words: "unknown authority",
		},
		{name: "our key pair is gone", edit: func(n *nation) { delete(n.named, "client") }, words: "no such key pair"},
		{name: "their certificate is gone", edit: func(n *nation) { delete(n.named, "server") }, words: "no such key pair"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			n := newNation(t, saml.DigiD, "basic")
			if tt.cfg != nil {
				cfg := n.config(saml.DigiD, "basic")
				if tt.cfg(&cfg); cfg.Scheme == "" {
					cfg.AuthnContext = &saml.AuthnContext{Comparison: "minimum", Classes: []string{basis}}
				}
				n.reopen(cfg)
			}
			address := n.service.Issue(n.query, samltest.Honest(n.query, citizen))
			if tt.edit != nil {
				tt.edit(n)
			}
			id, err := n.brings(address)
			if tt.words == "" {
				if err != nil || id.Subject != citizen {
					t.Errorf("Finish = %+v, %v", id, err)
				}
			} else if id != nil || err == nil || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("Finish = %+v, %v, want words with %q", id, err, tt.words)
			}
			steps := n.Check(t.Context())
			if said := steps.Err(); (said == nil) != (tt.words == "") || said != nil && n.now.Year() == 2026 &&
				!strings.Contains(said.Error(), tt.words) {
				t.Errorf("Check = %v in %+v, want words with %q", said, steps, tt.words)
			}
		})
	}
}

// TestArtifactOnce: the service gives each answer away once, to its recipient, and not for long. What it does not give
// away signs no one in, and neither does an answer that comes another way.
func TestArtifactOnce(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "basic")
	address := n.service.Issue(n.query, samltest.Honest(n.query, citizen))
	if _, err := n.brings(address); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, id *idp.Identity, err error) {
		t.Helper()
		if id != nil || !errors.As(err, new(*idp.Invalid)) {
			t.Errorf("%s: %+v, %v, want *idp.Invalid", what, id, err)
		}
	}
	id, err := n.brings(address)
	refused("attack 782: a used artifact", id, err)
	n.ask(idp.Request{MaxAge: -1})
	address = n.service.Issue(n.query, samltest.Honest(n.query, citizen))
	n.now = n.now.Add(3 * time.Minute)
	id, err = n.brings(address)
	refused("attack 782: an old artifact", id, err)
	if said := n.service.Refused(); len(said) != 2 {
		t.Errorf("the service refused %q, want two artifacts", said)
	}

	n.ask(idp.Request{MaxAge: -1})
	address = n.service.Issue(n.query, samltest.Honest(n.query, citizen))
	n.ask(idp.Request{MaxAge: -1})
	id, err = n.brings(address)
	refused("attack 782: the artifact of another sign-in", id, err)

	raw := n.service.Response(samltest.Honest(n.query, citizen))
	id, err = n.finish(raw)
	refused("attack 782: a signed answer that the browser brings itself", id, err)
}

// TestNationalRefusesRequests: the stand-in refuses what such a service refuses, so what it accepts means something.
func TestNationalRefusesRequests(t *testing.T) {
	t.Parallel()
	n := newNation(t, saml.DigiD, "basic")
	next, err := n.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1})
	if err != nil {
		t.Fatal(err)
	}
	bare, _, _ := strings.Cut(next.URL, "&SigAlg")
	for what, address := range map[string]string{"unsigned": bare, "changed": strings.Replace(next.URL, "RelayState=0", "RelayState=1", 1)} {
		if _, err := n.service.Read(httptest.NewRequest(http.MethodGet, address, nil)); err == nil {
			t.Errorf("a request that is %s is accepted", what)
		}
	}
	n.service.Know(samltest.Partner{
		EntityID: sp, ACS: "https://elsewhere.example/acs", Signing: samltest.NewKey("sp", n.now).Certificate,
		Client: n.client.Certificate,
	})
	if _, err := n.service.Read(httptest.NewRequest(http.MethodGet, next.URL, nil)); err == nil {
		t.Error("an answer to another place is promised")
	}
	stranger := newNation(t, saml.EToegang, "low", func(c *saml.Config) { c.EntityID = dv })
	if next, err = stranger.Begin(t.Context(), idp.Request{Flow: flow, MaxAge: -1}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.service.Read(httptest.NewRequest(http.MethodGet, next.URL, nil)); err == nil ||
		!strings.Contains(err.Error(), "unknown issuer") {
		t.Errorf("an unknown issuer: %v", err)
	}
}

// TestSchemeConfig: what a scheme decides is not decided a second time.
func TestSchemeConfig(t *testing.T) {
	t.Parallel()
	good := saml.Config{Metadata: "https://service.example/metadata", Scheme: saml.DigiD, Assurance: "middle", ClientKey: "client"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for what, edit := range map[string]func(*saml.Config){
		"no level":             func(c *saml.Config) { c.Assurance = "" },
		"a level of another":   func(c *saml.Config) { c.Assurance = "low_plus" },
		"no certificate":       func(c *saml.Config) { c.ClientKey = "" },
		"an unknown scheme":    func(c *saml.Config) { c.Scheme = "x" },
		"a service of another": func(c *saml.Config) { c.Via = "urn:x:y" },
		"a context": func(c *saml.Config) {
			c.AuthnContext = &saml.AuthnContext{Comparison: "exact", Classes: []string{"urn:x:y"}}
		},
		"levels":                   func(c *saml.Config) { c.Levels = map[string]int{"urn:x:y": 4} },
		"unsolicited":              func(c *saml.Config) { c.AllowUnsolicited = true },
		"a level without a scheme": func(c *saml.Config) { c.Scheme = "" },
		"an entity ID":             func(c *saml.Config) { c.EntityID = "no uri" },
	} {
		c := good
		if edit(&c); c.Validate() == nil {
			t.Errorf("%s is accepted", what)
		}
	}
}
