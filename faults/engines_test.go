package faults

import (
	"context"
	"crypto/sha1" //nolint:gosec // SAML names providers by it
	"encoding/base64"
	bigendian "encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

// engines are identity providers of every kind.
type engines struct {
	front *lab.Partner // is asked before a browser is sent there
	back  *lab.Partner // is asked when a browser returns: its metadata is known by then
	fine  *lab.Partner // always works
	dir   *lab.Directory
	all   []engine
}

// taken counts the connections to those that can fail.
func (e *engines) taken() int64 {
	return e.front.Taken.Load() + e.back.Taken.Load() + e.dir.Taken.Load()
}

// engine is one provider as visitors try it, with what signs no one in.
type engine struct {
	id  string
	try func(*guest) (lab.Answer, string)
	// works reports whether the provider does what it should.
	works func(*guest) bool
	// always: visitors reach it whatever the others do.
	always bool
}

// guest is a new browser with names and codes of its own. It keeps how long a page took at most.
type guest struct {
	*lab.Browser

	name string
	took time.Duration
}

// open visits an address, and follows redirects as long as they stay here.
func (g *guest) open(target string) (a lab.Answer, at string) {
	began := time.Now()
	defer func() { g.took = max(g.took, time.Since(began)) }()
	for range 8 {
		if !strings.HasPrefix(target, g.Server.Issuer()) {
			return lab.Answer{Status: http.StatusFound}, target
		}
		a = g.Page(context.Background(), target)
		next := a.Header.Get("Location")
		if a.Status < 300 || a.Status >= 400 || next == "" {
			break
		}
		if strings.HasPrefix(next, "/") {
			next = g.Server.Issuer() + next
		}
		target = next
	}
	return a, target
}

// begin asks for a sign-in at a provider. "": the sign-in page.
func (g *guest) begin(provider string) (lab.Answer, string) {
	_, challenge := lab.Challenge()
	params := []string{"scope", "openid"}
	if provider != "" {
		params = append(params, "idp", provider)
	}
	return g.open(g.Server.AuthorizeURL("sso", challenge, params...))
}

// fill answers a form with a username and a password.
func (g *guest) fill(a lab.Answer, at, username, password string) (lab.Answer, string) {
	began := time.Now()
	a, at = fillIn(context.Background(), g.Browser, a, at, username, password)
	g.took = max(g.took, time.Since(began))
	return a, at
}

// fillIn answers a form with a username and a password.
func fillIn(ctx context.Context, b *lab.Browser, a lab.Answer, at, username, password string) (lab.Answer, string) {
	f, err := lab.SignInForm(a.Body)
	if err != nil {
		if a.Err == nil {
			a.Err = fmt.Errorf("%w: %s answered %d", err, at, a.Status)
		}
		return a, at
	}
	f.Values.Set(f.Username, username)
	f.Values.Set(f.Password, password)
	return b.Submit(ctx, at, f)
}

// away reports whether a browser was sent to another server, and not back to the application.
func (g *guest) away(at string) bool {
	return !strings.HasPrefix(at, g.Server.Issuer()) && !strings.HasPrefix(at, lab.Callback)
}

// isSignedIn reports whether the application has got a code.
func isSignedIn(at string) bool {
	u, err := url.Parse(at)
	return err == nil && strings.HasPrefix(at, lab.Callback) && u.Query().Get("code") != ""
}

// newEngines starts the servers that the providers are at.
func newEngines(t *testing.T) *engines {
	t.Helper()
	dir, err := lab.NewDirectory()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dir.Close)
	e := &engines{front: partner(t, false), back: partner(t, false), fine: partner(t, false), dir: dir}
	e.all = []engine{
		e.redirects("partner"), e.redirects("corp"),
		{id: "fine", try: e.redirects("fine").try, works: e.redirects("fine").works, always: true},
		e.artifact(), e.code("late", "/oidc/late/callback", "/token"), e.code("forge", "/oidc/forge/callback", "/oauth2/token"), e.profile(),
		e.typed("staff"), e.typed("branch"), e.newcomer(), ticket(), header(),
	}
	return e
}

// caddyfile has all of them, and a client that can use them.
func (e *engines) caddyfile(t *testing.T, dir string) string {
	t.Helper()
	keytab := filepath.Join(dir, "http.keytab")
	if err := os.WriteFile(keytab, keytabOf("HTTP", "localhost"), 0o600); err != nil {
		t.Fatal(err)
	}
	block := func(head string, lines ...string) string {
		return "\t\t" + head + " {\n\t\t\t" + strings.Join(lines, "\n\t\t\t") + "\n\t\t}\n"
	}
	secret := "client_secret " + strings.Repeat("p", 40)
	directory := []string{
		"url " + e.dir.URL(), "bind " + lab.DirectoryReader + " `" + lab.DirectoryPassword + "`",
		"base " + lab.DirectoryBase,
	}
	oauth2 := func(token, profile *lab.Partner) []string {
		return []string{
			"client_id gatehouse", secret, "authorization_url " + token.Origin() + "/authorize", "token_url " + token.Origin() + "/oauth2/token",
			"profile_url " + profile.Origin() + "/oauth2/profile", "subject id",
		}
	}
	ids := make([]string, 0, len(e.all))
	for _, one := range e.all {
		if one.id != newcomers {
			ids = append(ids, one.id)
		}
	}
	return block("idp partner saml", "metadata "+e.front.Origin()+"/saml/metadata") +
		block("idp corp oidc", "issuer "+e.front.Origin(), "client_id gatehouse", secret) +
		block("idp fine oidc", "issuer "+e.fine.Origin(), "client_id gatehouse", secret) +
		block("idp artifact saml", "metadata "+e.back.Origin()+"/saml/metadata", "artifact") +
		block("idp late oidc", "issuer "+e.back.Origin(), "client_id gatehouse", secret) +
		block("idp forge oauth2", oauth2(e.back, e.fine)...) +
		block("idp profile oauth2", oauth2(e.fine, e.back)...) +
		block("idp staff ldap", directory...) +
		block("idp branch ldap", "url "+e.dir.URL(), "template uid=%s,"+lab.DirectoryBase) +
		block("idp old-directory ldap", append(slices.Clone(directory), "migrate password")...) +
		block("idp old-server oidc", "issuer "+e.back.Origin(), "client_id gatehouse", secret,
			"map preferred_username username", "migrate password") +
		block("idp desk kerberos", "keytab "+keytab) +
		block("idp edge header", "trust 127.0.0.0/8", "user X-Remote-User", "level X-Remote-Level") +
		block("client sso", "secret "+strings.Repeat("s", 40), "redirect_uris "+lab.Callback, "grants authorization_code",
			"scopes openid", "consent off",
			"idps identity expired "+strings.Join(ids, " "))
}

// redirects is a provider whose metadata is fetched before browsers are sent there: SAML, OpenID Connect.
func (e *engines) redirects(id string) engine {
	return engine{
		id: id, try: func(g *guest) (lab.Answer, string) { return g.begin(id) },
		works: func(g *guest) bool {
			_, at := g.begin(id)
			return g.away(at)
		},
	}
}

// artifact is a provider of SAML whose answers are fetched.
func (e *engines) artifact() engine {
	try := func(g *guest) (lab.Answer, string) {
		a, at := g.begin("artifact")
		to, err := url.Parse(at)
		if err != nil || !g.away(at) {
			return a, at
		}
		source := sha1.Sum([]byte(e.back.Origin() + "/saml")) //nolint:gosec // SAML bindings 3.6.4
		artifact := slices.Concat([]byte{0, 4, 0, 0}, source[:], lab.Random(20))
		return g.open(g.Server.Issuer() + "/saml/artifact/acs?" + url.Values{
			"SAMLart": {base64.StdEncoding.EncodeToString(artifact)}, "RelayState": {to.Query().Get("RelayState")},
		}.Encode())
	}
	return engine{id: "artifact", try: try, works: e.asked(try, "/saml/artifacts")}
}

// code is a provider whose token endpoint is at back: OpenID Connect, OAuth 2.0.
func (e *engines) code(id, callback, path string) engine {
	try := func(g *guest) (lab.Answer, string) { return g.returns(id, callback, "code of "+g.name) }
	return engine{id: id, try: try, works: e.asked(try, path)}
}

// profile is a provider of OAuth 2.0 that redeems every code, and whose profile is at back.
func (e *engines) profile() engine {
	const callback = "/oidc/profile/callback"
	return engine{
		id: "profile", try: func(g *guest) (lab.Answer, string) { return g.returns("profile", callback, "code of "+g.name) },
		works: func(g *guest) bool {
			_, at := g.returns("profile", callback, lab.GoodCode+" of "+g.name)
			return isSignedIn(at)
		},
	}
}

// asked reports whether a try reaches a path at back.
func (e *engines) asked(try func(*guest) (lab.Answer, string), path string) func(*guest) bool {
	return func(g *guest) bool {
		before := e.back.Hits(path)
		try(g)
		return e.back.Hits(path) > before
	}
}

// returns begins a sign-in and comes back with a code.
func (g *guest) returns(id, callback, code string) (lab.Answer, string) {
	a, at := g.begin(id)
	to, err := url.Parse(at)
	if err != nil || !g.away(at) {
		return a, at
	}
	q := url.Values{"code": {code}, "state": {to.Query().Get("state")}}
	if strings.HasPrefix(to.Path, "/authorize") && id == "late" { // OpenID Connect, whose metadata says that it names itself
		q.Set("iss", to.Scheme+"://"+to.Host)
	}
	return g.open(g.Server.Issuer() + callback + "?" + q.Encode())
}

// typed is a directory whose people type their password on our page.
func (e *engines) typed(id string) engine {
	try := func(g *guest, username string) (lab.Answer, string) {
		a, at := g.begin(id)
		return g.fill(a, at, username, lab.DirectoryPassword)
	}
	return engine{
		id: id, try: func(g *guest) (lab.Answer, string) { return try(g, "visitor-"+g.name) },
		works: func(g *guest) bool {
			_, at := try(g, lab.DirectoryPerson)
			return isSignedIn(at)
		},
	}
}

// newcomers is not the id of a provider: people who come from an old directory or server name none.
const newcomers = "newcomers"

// newcomer is someone unknown, whose password an old directory and then an old server are asked about.
func (e *engines) newcomer() engine {
	try := func(g *guest) (lab.Answer, string) {
		a, at := g.begin("")
		return g.fill(a, at, "visitor-"+g.name, "password of "+g.name)
	}
	return engine{id: newcomers, try: try, works: func(g *guest) bool {
		asked, searched := e.back.Hits("/token"), e.dir.Searches.Load()
		a, _ := try(g)
		return a.Status == http.StatusUnprocessableEntity && e.back.Hits("/token") > asked && e.dir.Searches.Load() > searched
	}}
}

// ticket is Kerberos. Its tickets are checked with the keys of the keytab alone: no other server can be down or slow,
// and what is left to fail is what browsers send.
func ticket() engine {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("visitor:password"))
	begun := append([]byte("\x60\x82\x01\x00\x06\x06\x2b\x06\x01\x05\x05\x02\xa0\x82\x00\xf2\x30\x82\x00\xee"),
		make([]byte, 200)...) // SPNEGO, then nothing
	tokens := []string{"Negotiate", "Negotiate %", basic}
	for _, raw := range [][]byte{
		nil, lab.Random(100), lab.Random(40 << 10), lab.Random(60 << 10),
		[]byte("NTLMSSP\x00\x01\x00\x00\x00\x97\x82\x08\xe2"), begun, []byte("\x60\x84\xff\xff\xff\xff"),
	} {
		tokens = append(tokens, "Negotiate "+base64.StdEncoding.EncodeToString(raw))
	}
	return engine{
		id: "desk", try: func(g *guest) (a lab.Answer, at string) {
			a, at = g.begin("desk")
			for _, token := range tokens { // each in a sign-in of its own
				if a.Status != http.StatusUnauthorized || a.Err != nil {
					return a, at
				}
				g.Header = http.Header{"Authorization": {token}}
				if a, at = g.open(at); judgeEnd(g, a, at) != "" {
					return a, at
				}
				g.Header = nil
				a, at = g.begin("desk")
			}
			return a, at
		},
		works: func(g *guest) bool {
			a, _ := g.begin("desk")
			return a.Status == http.StatusUnauthorized && a.Header.Get("WWW-Authenticate") == "Negotiate"
		},
	}
}

// header is a proxy that names people. No other server is asked, so what is left to fail is what the proxy sends.
func header() engine {
	const user, level = "X-Remote-User", "X-Remote-Level"
	broken := []http.Header{
		{user: {"a", "b"}},
		{user: {strings.Repeat("x", 5000)}},
		{user: {"\xff\xfe"}},
		{user: {"ann"}, level: {"high"}},
		{user: {"ann"}, level: {"1", "4"}},
		{user: {"a\tb"}},
	}
	return engine{
		id: "edge", try: func(g *guest) (a lab.Answer, at string) {
			for _, h := range broken {
				g.Header = h
				if a, at = g.begin("edge"); judgeEnd(g, a, at) != "" {
					break
				}
			}
			return a, at
		},
		works: func(g *guest) bool {
			g.Header = http.Header{user: {"proxied"}}
			_, at := g.begin("edge")
			return isSignedIn(at)
		},
	}
}

// keytabOf is the file of a key for a service, as ktutil writes it: no ticket of a realm is made with this key.
func keytabOf(service, host string) []byte {
	counted := func(b []byte, s string) []byte {
		return append(bigendian.BigEndian.AppendUint16(b, uint16(len(s))), s...) //nolint:gosec // short
	}
	entry := bigendian.BigEndian.AppendUint16(nil, 2)
	for _, s := range []string{"EXAMPLE.COM", service, host} {
		entry = counted(entry, s)
	}
	entry = bigendian.BigEndian.AppendUint32(entry, 1)                                          // a principal
	entry = bigendian.BigEndian.AppendUint32(entry, uint32(time.Now().Unix()))                  //nolint:gosec // until 2106
	entry = bigendian.BigEndian.AppendUint16(append(entry, 1), 18)                              // version 1, AES-256
	entry = counted(entry, string(lab.Random(32)))                                              // the key
	return append(bigendian.BigEndian.AppendUint32([]byte{5, 2}, uint32(len(entry))), entry...) //nolint:gosec // short
}

// wayBack is a link or a form by which a sign-in goes on or begins again.
var wayBack = regexp.MustCompile(`<(a|form)\b[^>]* (href|action)="/(sign-in|oauth/authorize)\b`)

// judgeEnd returns what is wrong with where a try has ended: it must lead to the provider, back to the application with
// an error, or to a page with a way back. It must never sign anybody in.
func judgeEnd(g *guest, a lab.Answer, at string) string {
	page := string(a.Body)
	switch {
	case a.Err != nil:
		return fmt.Sprintf("%s: %v", at, a.Err)
	case isSignedIn(at):
		return "somebody is signed in"
	case g.away(at), strings.HasPrefix(at, lab.Callback):
		return ""
	case a.Status < 400 || a.Status == http.StatusInternalServerError:
		return fmt.Sprintf("%s: status %d: %.300s", at, a.Status, page)
	case !wayBack.MatchString(page):
		return fmt.Sprintf("%s: status %d, a page without a way back: %.2000s", at, a.Status, page)
	}
	return ""
}
