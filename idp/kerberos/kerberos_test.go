package kerberos

import (
	"context"
	"encoding/base64"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/iana/nametype"
	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/idp/idptest"
	"github.com/gatehouse-id/gatehouse/idp/kerberos/kerberostest"
)

const (
	issuer = "https://auth.example.com"
	spn    = "HTTP/auth.example.com"
	realm  = kerberostest.Realm
)

// newProvider is a provider with the keys of its service.
func newProvider(t *testing.T, edit func(*Config)) *Provider {
	t.Helper()
	cfg := Config{
		Keytab:  kerberostest.Keytab(t, spn),
		Mapping: idp.Mapping{Attributes: []idp.Attribute{{From: "principal", To: "login"}, {From: "principal", To: "username"}}},
	}
	if edit != nil {
		edit(&cfg)
	}
	var mu sync.Mutex
	used := map[string]bool{}
	p, err := New(cfg, idp.Env{
		ID: "desk", Issuer: issuer, Now: time.Now, Log: zap.NewNop(),
		Once: func(_ context.Context, key string, _ time.Time) error {
			mu.Lock()
			defer mu.Unlock()
			if used[key] {
				return idp.ErrReplayed
			}
			used[key] = true
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

var ann = kerberostest.Ticket{Name: "ann", Realm: realm, Service: spn, Ends: time.Hour}

// answer is the request with which a browser answers.
func answer(flow string, tokens ...[]byte) *http.Request {
	r := httptest.NewRequest(http.MethodGet, issuer+"/kerberos/desk/negotiate?flow="+flow, nil)
	for _, token := range tokens {
		r.Header.Add("Authorization", "Negotiate "+base64.StdEncoding.EncodeToString(token))
	}
	return r
}

func TestContract(t *testing.T) {
	t.Parallel()
	idptest.TestRedirector(t, func(t *testing.T) idptest.Subject {
		return idptest.Subject{Redirector: newProvider(t, nil), Answer: func(n *idp.Next) *http.Request {
			_, flow, _ := strings.Cut(n.URL, "flow=")
			return answer(flow, ann.Token(t))
		}}
	})
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(c *Config) { c.Level = 2 })
	id, err := p.Finish(t.Context(), []byte("f"), answer("f", ann.Token(t)))
	if err != nil {
		t.Fatal(err)
	}
	if id.Issuer != realm || id.Subject != "ann" || id.Username != "ann@EXAMPLE.COM" || id.Level != 2 ||
		id.Details["login"][0] != "ann@EXAMPLE.COM" {
		t.Errorf("identity = %+v", id)
	}
	if age := time.Since(id.AuthTime); age < 59*time.Minute || age > 61*time.Minute {
		t.Errorf("the person signed in at %s, want an hour ago, when they got their ticket", id.AuthTime)
	}
	w := httptest.NewRecorder()
	if !p.Challenge(w, answer("f")) || w.Header().Get("WWW-Authenticate") != "Negotiate" {
		t.Errorf("a browser without a ticket is not asked for one: %v", w.Header())
	}
	if p.Challenge(httptest.NewRecorder(), answer("f", []byte("x"))) {
		t.Error("a browser that has answered is asked again: it would be asked for ever")
	}
}

// TestSpellings: the computer chooses how the name is spelled, and none of the spellings is a person of its own.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"ANN", "Ann"} {
		spelled := ann
		spelled.Name = name
		id, err := newProvider(t, nil).Finish(t.Context(), []byte("f"), answer("f", spelled.Token(t)))
		if err != nil || id.Subject != "ann" || id.Username != name+"@EXAMPLE.COM" {
			t.Errorf("attack 741: %s is %+v, %v, want the person that ann is", name, id, err)
		}
	}
}

func TestForeignTokens(t *testing.T) {
	t.Parallel()
	with := func(edit func(*kerberostest.Ticket)) []byte {
		o := ann
		edit(&o)
		return o.Token(t)
	}
	twice := ann.Token(t)
	for _, c := range []struct {
		name   string
		r      *http.Request
		reject bool // it is a *Rejection, and an *Invalid otherwise
	}{
		{
			"attack 741: the ticket is for another service",
			answer("f", with(func(o *kerberostest.Ticket) { o.Service = "HTTP/other.example.com" })), false,
		},
		{
			"attack 741: the computer says that it is somebody else than the ticket says",
			answer("f", with(func(o *kerberostest.Ticket) { o.Says = "root" })), false,
		},
		{
			"attack 741: the computer says that it is of another realm than the ticket says",
			answer("f", with(func(o *kerberostest.Ticket) { o.SaysRealm, o.Realm = realm, "EVIL.EXAMPLE" })), false,
		},
		{
			"attack 741: a realm that trusts ours names our people",
			answer("f", with(func(o *kerberostest.Ticket) { o.Realm = "EVIL.EXAMPLE" })), true,
		},
		{"attack 741: an anonymous ticket", answer("f", with(func(o *kerberostest.Ticket) { o.Name = "WELLKNOWN/ANONYMOUS" })), true},
		{"attack 741: the ticket of a machine", answer("f", with(func(o *kerberostest.Ticket) { o.Name = "host/pc7.example.com" })), true},
		{"attack 741: the ticket of a computer of Active Directory", answer("f", with(func(o *kerberostest.Ticket) { o.Name = "PC7$" })), true},
		{"attack 741: a ticket that has ended", answer("f", with(func(o *kerberostest.Ticket) { o.Ends = -10 * time.Minute })), false},
		{"attack 742: NTLM", answer("f", []byte("NTLMSSP\x00\x01\x00\x00\x00")), true},
		{"attack 742: two answers", answer("f", twice, twice), false},
		{"attack 742: garbage", answer("f", []byte("garbage")), false},
		{"attack 742: an empty token", answer("f", nil), false},
		{"attack 742: a token without an end", answer("f", make([]byte, maxToken)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			id, err := newProvider(t, nil).Finish(t.Context(), []byte("f"), c.r)
			rejection, invalid := new(idp.Rejection), new(idp.Invalid)
			if id != nil || errors.As(err, &rejection) != c.reject || errors.As(err, &invalid) == c.reject {
				t.Errorf("Finish = %+v, %v", id, err)
			}
			if strings.Contains(err.Error(), " ann") || strings.Contains(err.Error(), "auth.example.com") {
				t.Errorf("the error names who it was: %v", err)
			}
		})
	}
	t.Run("attack 741: a token that was seen on the way is sent again", func(t *testing.T) {
		t.Parallel()
		p := newProvider(t, nil)
		if _, err := p.Finish(t.Context(), []byte("f"), answer("f", twice)); err != nil {
			t.Fatal(err)
		}
		if id, err := p.Finish(t.Context(), []byte("g"), answer("g", twice)); !errors.Is(err, idp.ErrReplayed) {
			t.Errorf("Finish = %+v, %v, want ErrReplayed", id, err)
		}
	})
	t.Run("another scheme", func(t *testing.T) {
		t.Parallel()
		r := answer("f")
		r.Header.Set("Authorization", "Basic YW5uOnNlY3JldA==")
		if id, err := newProvider(t, nil).Finish(t.Context(), []byte("f"), r); !errors.As(err, new(*idp.Rejection)) {
			t.Errorf("Finish = %+v, %v", id, err)
		}
	})
}

// TestAccounts: Active Directory gives a ticket for any name that leads to an account, and writes that name into
// it. The name of the account is in the PAC.
func TestAccounts(t *testing.T) {
	t.Parallel()
	with := func(edit func(*kerberostest.Ticket)) []byte {
		o := ann
		edit(&o)
		return o.Token(t)
	}
	pacs := func(list ...kerberostest.PAC) func(*kerberostest.Ticket) {
		return func(o *kerberostest.Ticket) { o.PACs = list }
	}
	for _, c := range []struct {
		name  string
		token []byte
		taken bool
	}{
		{"the account of Active Directory has the name of the ticket", with(pacs(kerberostest.PAC{Account: "ann"})), true},
		{"the account has another spelling of the name", with(pacs(kerberostest.PAC{Account: "ANN"})), true},
		{"the PAC of MIT Kerberos names no account", with(pacs(kerberostest.PAC{})), true},
		{"attack 3717: the computer account ann$ has asked for the name ann", with(pacs(kerberostest.PAC{Account: "ann$"})), false},
		{"attack 3717: the account mallory has ann as its userPrincipalName", with(pacs(kerberostest.PAC{Account: "mallory"})), false},
		{"attack 3717: the account has a name with a letter that counts as another", with(pacs(kerberostest.PAC{Account: "ánn"})), false},
		{
			"attack 3717: an enterprise name, which can be that of any account",
			with(func(o *kerberostest.Ticket) { o.NameType = nametype.KRB_NT_ENTERPRISE }), false,
		},
		{"attack 3717: a ticket that was asked for without a PAC", with(func(o *kerberostest.Ticket) { o.PACs = []kerberostest.PAC{} }), false},
		{
			"attack 3717: a PAC that the computer has made itself",
			with(pacs(kerberostest.PAC{Account: "ann", Signer: "HTTP/evil.example.com"})), false,
		},
		{
			"attack 3717: a PAC that the computer has made itself before that of the realm",
			with(pacs(kerberostest.PAC{Account: "ann", Signer: "HTTP/evil.example.com"}, kerberostest.PAC{Account: "ann$"})), false,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			id, err := newProvider(t, nil).Finish(t.Context(), []byte("f"), answer("f", c.token))
			switch {
			case c.taken && (err != nil || id.Subject != "ann"):
				t.Errorf("Finish = %+v, %v, want ann", id, err)
			case !c.taken && !errors.As(err, new(*idp.Rejection)) && !errors.As(err, new(*idp.Invalid)):
				t.Errorf("Finish = %+v, %v, want a refusal", id, err)
			}
		})
	}
}

// TestWithoutPAC: a realm whose server writes no PAC is asked for none, and a PAC that is there is still read.
func TestWithoutPAC(t *testing.T) {
	t.Parallel()
	p := newProvider(t, func(c *Config) { c.WithoutPAC = true })
	without := ann
	without.PACs = []kerberostest.PAC{}
	if id, err := p.Finish(t.Context(), []byte("f"), answer("f", without.Token(t))); err != nil || id.Subject != "ann" {
		t.Errorf("Finish = %+v, %v, want ann", id, err)
	}
	computer := ann
	computer.PACs = []kerberostest.PAC{{Account: "ann$"}}
	if id, err := p.Finish(t.Context(), []byte("g"), answer("g", computer.Token(t))); !errors.As(err, new(*idp.Rejection)) {
		t.Errorf("attack 3717: the ticket of the computer account ann$: Finish = %+v, %v", id, err)
	}
	warned := false
	for _, s := range p.Check(t.Context()) {
		warned = warned || s.Name == "without_pac"
	}
	if !warned {
		t.Error("Check does not warn that Active Directory must not be used like this")
	}
}

// TestMutatedTokens: no one is taken for someone else, whatever is changed in a token, and nothing panics.
func TestMutatedTokens(t *testing.T) {
	t.Parallel()
	t.Run("attack 743: 10,000 mutations of a token", func(t *testing.T) {
		t.Parallel()
		whole := ann.Token(t)
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same mutations each time
		p, taken := newProvider(t, nil), 0
		for range 10_000 {
			token := append([]byte{}, whole...)
			switch random.IntN(4) {
			case 0:
				token = token[:random.IntN(len(token))]
			case 1:
				at := random.IntN(len(token))
				token = append(token[:at], token[min(at+1+random.IntN(8), len(token)):]...)
			default:
				for range 1 + random.IntN(4) {
					token[random.IntN(len(token))] ^= byte(1 + random.IntN(255))
				}
			}
			id, err := p.Finish(t.Context(), []byte("f"), answer("f", token))
			if err == nil {
				taken++
				if id.Subject != "ann" || id.Issuer != realm {
					t.Fatalf("a changed token is taken for %s of %s", id.Subject, id.Issuer)
				}
			}
		}
		if taken > 1 { // what does not matter for the ticket may change, but each authenticator counts once
			t.Errorf("one token was taken %d times", taken)
		}
	})
}

func TestConfig(t *testing.T) {
	t.Parallel()
	env := idp.Env{ID: "desk", Issuer: issuer}
	other, good := kerberostest.Keytab(t, "HTTP/other.example.com"), kerberostest.Keytab(t, spn)
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{}, "keytab is missing"},
		{Config{Keytab: []byte("no keytab")}, "it is not a keytab"},
		{Config{Keytab: other}, "no key for HTTP/auth.example.com"},
		{Config{Keytab: good, Service: "auth.example.com"}, "such as HTTP/auth.example.com"},
		{Config{Keytab: good, Level: 5}, "level 5"},
		{Config{Keytab: good, Realms: []string{"a b"}}, "realm"},
	} {
		if _, err := New(c.cfg, env); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("New(%+v) = %v, want %q", c.cfg, err, c.want)
		}
	}
	p := newProvider(t, func(c *Config) { c.Networks, c.Auto = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}, true })
	if !p.Auto() || !p.Serves(netip.MustParseAddr("10.1.2.3")) || p.Serves(netip.MustParseAddr("192.0.2.1")) {
		t.Error("networks and auto have no effect")
	}
	for _, q := range []idp.Request{{Flow: "f", Force: true}, {Flow: "f", Passive: true}} {
		if _, err := p.Begin(t.Context(), q); !errors.As(err, new(*idp.Rejection)) {
			t.Errorf("Begin(%+v) = %v, want a rejection", q, err)
		}
	}
	if steps := p.Check(t.Context()); steps.Err() != nil || len(steps) != 2 {
		t.Errorf("Check = %+v", steps)
	}
}
