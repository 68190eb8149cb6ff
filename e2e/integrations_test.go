package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// integrated is a client of a page in docs/integrations.
type integrated struct {
	page, id, secret         string
	redirects, scopes, after []string
	blocks                   []block
}

// integrations are the pages with clients, the Caddyfile of all of these, and the pages that say that they are tested.
func integrations(t *testing.T) (apps []integrated, caddyfile string, tested []string) {
	t.Helper()
	files, err := filepath.Glob("../docs/integrations/*.md")
	if err != nil || len(files) < 25 {
		t.Fatalf("pages = %v, %v", files, err)
	}
	word := func(text, option string) []string {
		m := regexp.MustCompile(`(?m)^\t` + option + ` (.*)$`).FindStringSubmatch(text)
		if m == nil {
			return nil
		}
		return strings.Fields(strings.ReplaceAll(m[1], `"`, ""))
	}
	for _, file := range files {
		text, name := read(t, file), strings.TrimSuffix(filepath.Base(file), ".md")
		if strings.Contains(text, "\n*Tested with ") {
			tested = append(tested, name)
		}
		blocks := blocksOf(text)
		for _, b := range blocks {
			for _, c := range regexp.MustCompile(`(?ms)^client (\S+) \{\n.*?^\}\n`).FindAllStringSubmatch(b.text, -1) {
				app := integrated{page: name, id: c[1], blocks: blocks}
				app.redirects, app.scopes = word(c[0], "redirect_uris"), word(c[0], "scopes")
				app.after = word(c[0], "post_logout_redirect_uris")
				if secret := variable.FindStringSubmatch(c[0]); secret != nil {
					app.secret = random(32)
					c[0] = strings.ReplaceAll(c[0], secret[0], app.secret)
				}
				caddyfile += c[0]
				apps = append(apps, app)
			}
		}
	}
	return apps, caddyfile, tested
}

// TestIntegrations signs in with the client of each page in docs/integrations: by golang.org/x/oauth2 and go-oidc, and
// where the page says that it is tested with another library, by that.
func TestIntegrations(t *testing.T) {
	t.Parallel()
	apps, clients, tested := integrations(t)
	s := startEdited(t, "", func(config string) string {
		return strings.Replace(config, "client shop {", clients+"client shop {", 1)
	})
	libraries := map[string][]string{
		"auth-js":        {"node", "clients/auth-core.mjs"},
		"audiobookshelf": {"node", "clients/openid-client.mjs"},
		"better-auth":    {"node", "clients/better-auth.mjs"},
		"open-webui":     {"/usr/bin/python3", "python/authlib_driver.py"},
		"outline":        {"node", "clients/passport-oauth2.mjs"},
		"argo-cd":        nil, "grafana": nil, "kubernetes": nil, "portainer": nil, // the two libraries in Go
		"gitea": nil, "oauth2-proxy": nil, // themselves, by TestGitea and TestOAuth2Proxy
	}
	for _, name := range tested {
		if _, ok := libraries[name]; !ok {
			t.Errorf("%s says that it is tested, and no test does", name)
		}
	}
	for name := range libraries {
		if !slices.Contains(tested, name) {
			t.Errorf("%s is tested and does not say so", name)
		}
	}
	for _, app := range apps {
		t.Run(app.id, func(t *testing.T) {
			t.Parallel()
			if app.secret != "" {
				s.secret("secret of "+app.id, app.secret)
			}
			s.signInGo(t, app)
			if command := libraries[app.page]; command != nil {
				s.signInBy(t, app, command)
			}
		})
	}
}

// signInGo signs in by golang.org/x/oauth2 with PKCE and verifies the ID token by go-oidc.
func (s *server) signInGo(t *testing.T, app integrated) {
	t.Helper()
	ctx := oidc.ClientContext(t.Context(), s.client())
	provider, err := oidc.NewProvider(ctx, s.Issuer)
	if err != nil {
		t.Fatal(err)
	}
	config := oauth2.Config{
		ClientID: app.id, ClientSecret: app.secret, Endpoint: provider.Endpoint(), RedirectURL: app.redirects[0], Scopes: app.scopes,
	}
	verifier, state, nonce := oauth2.GenerateVerifier(), random(24), random(24)
	back := s.visit(t, person, s.Password).authorize(config.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oidc.Nonce(nonce)))
	want, _, _ := strings.Cut(app.redirects[0], "?")
	if back.address != want || back.values.Get("state") != state {
		t.Fatalf("the browser came back to %+v, want %s", back, want)
	}
	token, err := config.Exchange(ctx, back.values.Get("code"), oauth2.VerifierOption(verifier))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := token.Extra("id_token").(string)
	id, err := provider.Verifier(&oidc.Config{ClientID: app.id}).Verify(ctx, raw)
	if err != nil || id.Nonce != nonce {
		t.Fatalf("ID token: nonce %q, %v", id.Nonce, err)
	}
	info, err := provider.UserInfo(ctx, config.TokenSource(ctx, token))
	if err != nil {
		t.Fatal(err)
	}
	var fromToken, fromInfo map[string]any
	if err := json.Unmarshal(asJSON(t, id), &fromToken); err != nil {
		t.Fatal(err)
	}
	if err := info.Claims(&fromInfo); err != nil {
		t.Fatal(err)
	}
	for _, claims := range []map[string]any{fromToken, fromInfo} {
		isDemo(t, app, claims)
	}
}

func asJSON(t *testing.T, id *oidc.IDToken) []byte {
	t.Helper()
	var claims map[string]any
	if err := id.Claims(&claims); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// isDemo checks the claims that an application has got of the person.
func isDemo(t *testing.T, app integrated, claims map[string]any) {
	t.Helper()
	if claims["preferred_username"] != person || claims["name"] != "Demo Person" {
		t.Errorf("the person is %v", claims)
	}
	if groups := fmt.Sprint(claims["groups"]); slices.Contains(app.scopes, "groups") != (groups == "[staff]") {
		t.Errorf("the groups are %s, with the scopes %q", groups, app.scopes)
	}
}

// signInBy signs in by a driver with the library of an application, and out again at the address that it gives.
func (s *server) signInBy(t *testing.T, app integrated, command []string) {
	t.Helper()
	after := app.after[0]
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // of the table above
	address, err := url.Parse(app.redirects[0])
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = environ(s.dir, "ISSUER="+s.Issuer, "CLIENT_ID="+app.id, "CLIENT_SECRET="+app.secret, "REDIRECT_URI="+app.redirects[0],
		"SCOPE="+strings.Join(app.scopes, " "), "LOGOUT_URI="+after, "APP="+address.Scheme+"://"+address.Host, "AUTH_SECRET="+random(32),
		"BETTER_AUTH_SECRET="+random(32), "OPTIONS="+s.options(t, app), "AUTH_GATEHOUSE_SECRET="+app.secret,
		"BETTER_AUTH_CLIENT_SECRET="+app.secret)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errs strings.Builder
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatalf("%s: %v: make install", command[0], err)
	}
	browser := s.visit(t, person, s.Password)
	var known map[string]any
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch word, rest, _ := strings.Cut(lines.Text(), " "); word {
		case "open":
			back := browser.authorize(rest)
			if _, err := in.Write([]byte(back.address + "?" + back.values.Encode() + "\n")); err != nil {
				t.Error(err)
			}
		case "ok":
			if err := json.Unmarshal([]byte(rest), &known); err != nil {
				t.Error(err)
			}
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%s: %v\n%s", command[1], err, errs.String())
	}
	if known["name"] != "Demo Person" {
		t.Errorf("%s knows %v", command[1], known)
	}
	logout, ok := known["logout"].(string)
	if !ok {
		return // the library has no sign-out at the issuer
	}
	resp := browser.get(logout)
	resp.Body.Close()
	if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusFound || got != after {
		t.Errorf("the sign-out answers %s %s, want a redirect to %s", resp.Status, got, after)
	}
}

// options saves the program of a page with the issuer of the test, and returns its file.
func (s *server) options(t *testing.T, app integrated) string {
	t.Helper()
	i := slices.IndexFunc(app.blocks, func(b block) bool { return b.lang == "js" })
	if i < 0 {
		return ""
	}
	dir := t.TempDir()
	packages, err := filepath.Abs("clients/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "options.mjs")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(app.blocks[i].text, "https://auth.example.com", s.Issuer)), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
