package e2e

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coreos/go-oidc/v3/oidc"
)

// library are the requests of a library to the server: these tests send the same, where the library itself cannot run.
type library struct {
	client, secret string
	callback       string // its redirect URI
	scope          string
	pkce, nonce    bool
}

// signIn does what the library does: discovery, an authorization request, the code with the secret in the header, the
// ID token, userinfo. It returns the ID token, after checks that every library makes, and the claims.
func (l library) signIn(t *testing.T, g *guide) (raw string, idToken, userinfo map[string]any) {
	t.Helper()
	ctx := oidc.ClientContext(t.Context(), g.client())
	provider, err := oidc.NewProvider(ctx, g.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	var found struct {
		Methods  []string `json:"token_endpoint_auth_methods_supported"`
		Subjects []string `json:"subject_types_supported"`
	}
	if err := provider.Claims(&found); err != nil || !slices.Contains(found.Methods, "client_secret_basic") || len(found.Subjects) == 0 {
		t.Fatalf("discovery = %+v, %v", found, err)
	}
	state, nonce, verifier := random(24), random(24), random(48)
	q := url.Values{"response_type": {"code"}, "client_id": {l.client}, "scope": {l.scope}, "state": {state}, "redirect_uri": {l.callback}}
	form := url.Values{"grant_type": {"authorization_code"}, "redirect_uri": {l.callback}}
	if l.nonce {
		q.Set("nonce", nonce)
	}
	if l.pkce {
		sum := sha256.Sum256([]byte(verifier))
		q.Set("code_challenge", base64.RawURLEncoding.EncodeToString(sum[:]))
		q.Set("code_challenge_method", "S256")
		form.Set("code_verifier", verifier)
	}
	back := g.visit(t, "ada@example.com", g.value("ADA_PASSWORD")).authorize(provider.Endpoint().AuthURL + "?" + q.Encode())
	if back.address != l.callback || back.mode != "query" || back.values.Get("state") != state || back.values.Get("code") == "" {
		t.Fatalf("the browser came back to %+v", back)
	}
	form.Set("code", back.values.Get("code"))
	tokens := body[struct {
		AccessToken string `json:"access_token"`
		IDToken     string `json:"id_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int    `json:"expires_in"`
	}](t, g.form("/oauth/token", l.client, l.secret, form))
	if !strings.EqualFold(tokens.TokenType, "bearer") || tokens.ExpiresIn <= 0 {
		t.Errorf("the tokens are %q for %d seconds", tokens.TokenType, tokens.ExpiresIn)
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: l.client, SupportedSigningAlgs: []string{oidc.RS256}}).Verify(ctx, tokens.IDToken)
	if err != nil {
		t.Fatal(err)
	}
	if l.nonce && id.Nonce != nonce {
		t.Errorf("the nonce is %q", id.Nonce)
	}
	if err := id.Claims(&idToken); err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, g.Issuer+"/oauth/userinfo", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+tokens.AccessToken)
	userinfo = body[map[string]any](t, send(t, g.server, req))
	if userinfo["sub"] != idToken["sub"] {
		t.Errorf("userinfo is about %v, the ID token about %v", userinfo["sub"], idToken["sub"])
	}
	return tokens.IDToken, idToken, userinfo
}

// setting returns the first group of a pattern in a block of a guide.
func (g *guide) setting(lang, pattern string) string {
	g.t.Helper()
	for _, b := range g.blocks {
		if b.lang != lang {
			continue
		}
		if m := regexp.MustCompile(pattern).FindStringSubmatch(g.local.Replace(b.text)); m != nil {
			return m[1]
		}
	}
	g.t.Fatalf("the guide does not say %s in %s", pattern, lang)
	return ""
}

// TestSpringStart does what Spring Security does with the settings in docs/start/spring.md: without PKCE up to version
// 6, with PKCE from 7 on.
func TestSpringStart(t *testing.T) {
	t.Parallel()
	g, app := followApp(t, "../docs/start/spring.md", "http://localhost:8080")
	if got := g.setting("yaml", `issuer-uri: (\S+)`); got != "${ISSUER}" {
		t.Errorf("issuer-uri is %s", got)
	}
	if got := g.setting("sh", `ISSUER=(\S+) CLIENT_SECRET=… \./gradlew`); got != g.Issuer {
		t.Errorf("the command has the issuer %s", got)
	}
	registration := g.setting("yaml", `registration:\n +(\w+):`)
	spring := library{
		client: g.setting("yaml", `client-id: (\S+)`), secret: g.register("shop"), callback: app + "/login/oauth2/code/" + registration,
		scope: strings.ReplaceAll(g.setting("yaml", `scope: (\S+)`), ",", " "), nonce: true,
	}
	// On localhost the client of Caddyfile.example is used.
	shipped := read(t, "../Caddyfile.example")
	for _, want := range []string{
		"secret " + g.setting("sh", `ISSUER=http://localhost:8420 CLIENT_SECRET=(\S+) \./gradlew`) + "\n",
		" http://localhost:8080/login/oauth2/code/" + registration + "\n", " http://localhost:8080/\n",
	} {
		if !strings.Contains(shipped, want) {
			t.Errorf("Caddyfile.example lacks %q", want)
		}
	}
	username := g.setting("yaml", `user-name-attribute: (\S+)`)
	for _, spring.pkce = range []bool{false, true} {
		raw, claims, info := spring.signIn(t, g)
		for name, want := range map[string]any{username: "ada@example.com", "name": "Ada Berg", "email": "ada@example.com"} {
			if claims[name] != want || info[name] != want {
				t.Errorf("%s is %v in the ID token and %v at userinfo, want %v", name, claims[name], info[name], want)
			}
		}
		if groups, ok := claims["groups"].([]any); !ok || !slices.Equal(groups, []any{"staff"}) {
			t.Errorf("the groups are %v", claims["groups"])
		}
		// OidcClientInitiatedLogoutSuccessHandler
		after := strings.ReplaceAll(g.setting("java", `setPostLogoutRedirectUri\("([^"]*)"\)`), "{baseUrl}", app)
		v := g.visit(t, "", "")
		resp := v.get(g.Issuer + "/oauth/logout?" + url.Values{"id_token_hint": {raw}, "post_logout_redirect_uri": {after}}.Encode())
		resp.Body.Close()
		if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusFound || got != after {
			t.Errorf("the sign-out answers %s %s, want a redirect to %s", resp.Status, got, after)
		}
	}
}

// TestAllauthStart does what django-allauth does with the settings in docs/start/django.md.
func TestAllauthStart(t *testing.T) {
	t.Parallel()
	g, app := followApp(t, "../docs/start/django.md", "http://localhost:8000")
	if got := g.setting("python", `"server_url": "([^"]*)"`); got != g.Issuer {
		t.Errorf("server_url is %s", got)
	}
	if got := g.setting("python", `"token_auth_method": "([^"]*)"`); got != "client_secret_basic" {
		t.Errorf("token_auth_method is %s, and this test sends the secret in the header", got)
	}
	allauth := library{
		client: g.setting("python", `"client_id": "([^"]*)",\n +"secret"`), secret: g.register("shop-accounts"), scope: "openid profile email",
		callback: app + "/accounts/oidc/" + g.setting("python", `"provider_id": "([^"]*)"`) + "/login/callback/",
		pkce:     g.setting("python", `"OAUTH_PKCE_ENABLED": (\w+)`) == "True",
	}
	_, _, info := allauth.signIn(t, g)
	if info["email"] != "ada@example.com" || info["email_verified"] != true || info["name"] != "Ada Berg" {
		t.Errorf("userinfo = %v", info)
	}
}

// TestStartPrograms: every program of the guides in Python and JavaScript can be read by its language.
func TestStartPrograms(t *testing.T) {
	t.Parallel()
	guides, err := filepath.Glob("../docs/start/*.md")
	if err != nil {
		t.Fatal(err)
	}
	tested := []string{"django.md", "express.md", "go.md", "nextjs.md", "protected-api.md", "spring.md", "wiki.md"}
	var n int
	for _, guide := range guides {
		if !slices.Contains(tested, filepath.Base(guide)) {
			t.Errorf("no test follows %s", guide)
		}
		for _, b := range blocksOf(read(t, guide)) {
			var cmd *exec.Cmd
			switch b.lang {
			case "python":
				cmd = exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", "import sys; compile(sys.stdin.read(), 'guide', 'exec')")
			case "js":
				cmd = exec.CommandContext(t.Context(), "node", "--input-type=module", "--check")
			default:
				continue
			}
			n++
			cmd.Stdin = strings.NewReader(b.text)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s:%d: %v\n%s", guide, b.line, err, out)
			}
		}
	}
	if n < 5 {
		t.Errorf("found %d programs, want at least five", n)
	}
}
