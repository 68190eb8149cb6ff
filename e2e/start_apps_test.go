package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wantAda is the view of each application of docs/start of the person in its Caddyfile.
type wantAda struct {
	Name, Email string
	Groups      []string
}

// is reports whether a text of JSON is about Ada.
func (w *wantAda) is(text string) bool {
	err := json.Unmarshal([]byte(text), w)
	return err == nil && w.Name == "Ada Berg" && w.Email == "ada@example.com" && slices.Equal(w.Groups, []string{"staff"})
}

// signInAda fills the sign-in page, and allows what the application asks for.
func (g *guide) signInAda(b *tab) {
	b.t.Helper()
	if !strings.HasPrefix(b.location(), g.Issuer+"/") {
		b.t.Fatalf("the application leads to %s, want the sign-in page", b.location())
	}
	b.signIn("ada@example.com", g.value("ADA_PASSWORD"))
	b.click("button[value=allow]")
}

// TestGoStart builds the application in docs/start/go.md and signs in and out.
func TestGoStart(t *testing.T) {
	t.Parallel()
	g, app := followApp(t, "../docs/start/go.md", "http://localhost:3000")
	secret := g.register("shop")
	dir := t.TempDir()
	g.save(dir)
	g.launch(app, dir, []string{"ISSUER=" + g.Issuer, "BASE_URL=" + app, "CLIENT_SECRET=" + secret}, g.goBuild(filepath.Join(dir, "main.go")))

	b := g.browse(t)
	b.open(app + "/")
	b.click(`a[href="/login"]`)
	g.signInAda(b)
	var who wantAda
	if got := b.text("#who"); !who.is(got) {
		t.Fatalf("at %s the shop shows %s", b.location(), got)
	}
	b.click("form button")
	b.reaches(app + "/")
	b.click(`a[href="/login"]`)
	if !b.has("#password") {
		t.Errorf("after the sign-out the browser is at %s, want to be asked for the password", b.location())
	}
	b.open(app + "/callback?code=stolen&state=unknown")
	b.until(`document.body.innerText.includes("did not begin here")`)
}

// modules makes the npm packages of these tests visible to files in a directory.
func modules(t *testing.T, dir string) {
	t.Helper()
	packages, err := filepath.Abs("node/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(packages, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
}

// TestExpressStart runs the application in docs/start/express.md and signs in and out.
func TestExpressStart(t *testing.T) {
	t.Parallel()
	g, app := followApp(t, "../docs/start/express.md", "http://localhost:3000")
	if secret := g.register("shop"); secret != "" {
		t.Error("the client of express-openid-connect has a secret")
	}
	dir := t.TempDir()
	g.save(dir)
	modules(t, dir)
	g.launch(app, dir, []string{"ISSUER=" + g.Issuer, "BASE_URL=" + app, "SESSION_SECRET=" + random(32)}, "node", "app.mjs")

	b := g.browse(t)
	b.open(app + "/orders")
	g.signInAda(b)
	b.reaches(app + "/orders")
	var who wantAda
	if got := b.text("body"); !who.is(got) {
		t.Fatalf("at %s the shop shows %s", b.location(), got)
	}
	b.open(app + "/")
	b.click(`a[href="/logout"]`)
	b.reaches(app)
	b.click(`a[href="/login"]`)
	if !b.has("#password") {
		t.Errorf("after the sign-out the browser is at %s, want to be asked for the password", b.location())
	}
}

// TestExpressTokenStart runs the application in docs/start/express.md with the changes that it names for tokens.
func TestExpressTokenStart(t *testing.T) {
	t.Parallel()
	g, app := followApp(t, "../docs/start/express.md", "http://localhost:3000")
	secret := g.register("shop-api")
	if secret == "" {
		t.Fatal("the client for tokens has no secret")
	}
	dir := t.TempDir()
	g.save(dir)
	modules(t, dir)
	document := read(t, "../docs/start/express.md")
	before, after := "authorizationParams: { scope:", "authorizationParams: { response_type:"
	params := after + strings.SplitN(strings.SplitN(document, after, 2)[1], "`", 2)[0]
	var lines []string
	for line := range strings.Lines(read(t, filepath.Join(dir, "app.mjs"))) {
		switch {
		case strings.Contains(line, before):
			line = params + ", clientSecret: process.env.CLIENT_SECRET,\n"
		case strings.Contains(line, "clientID: 'shop'"):
			line = "clientID: 'shop-api',\n"
		case strings.Contains(line, "res.json("):
			line = "res.json({ sub, name, email, groups, token: req.oidc.accessToken.access_token });\n"
		}
		lines = append(lines, line)
	}
	if err := os.WriteFile(filepath.Join(dir, "app.mjs"), []byte(strings.Join(lines, "")), 0o600); err != nil {
		t.Fatal(err)
	}
	g.launch(app, dir, []string{"ISSUER=" + g.Issuer, "BASE_URL=" + app, "SESSION_SECRET=" + random(32), "CLIENT_SECRET=" + secret},
		"node", "app.mjs")
	b := g.browse(t)
	b.open(app + "/orders")
	g.signInAda(b)
	b.reaches(app + "/orders")
	var who struct {
		wantAda
		Token string
	}
	got := b.text("body")
	if !who.is(got) || json.Unmarshal([]byte(got), &who) != nil || !strings.HasPrefix(who.Token, "ghat_") {
		t.Fatalf("at %s the shop shows %s", b.location(), got)
	}
	g.secret("access token of the shop", who.Token)
}

// TestNextStart runs the options of docs/start/nextjs.md in next-auth, without Next.js around it, and signs in.
func TestNextStart(t *testing.T) {
	t.Parallel()
	g, app := followApp(t, "../docs/start/nextjs.md", "http://localhost:3000")
	secret := g.register("shop")
	dir := t.TempDir()
	g.save(dir)
	options := filepath.Join(dir, "lib", "auth.mjs") // outside of Next.js the name says that it is a module
	if err := os.Rename(filepath.Join(dir, "lib", "auth.js"), options); err != nil {
		t.Fatal(err)
	}
	settings := strings.Split(strings.TrimSpace(strings.ReplaceAll(read(t, filepath.Join(dir, ".env.local")), "CLIENT_SECRET=…",
		"CLIENT_SECRET="+secret)), "\n")
	for i, s := range settings {
		settings[i] = strings.ReplaceAll(s, "=…", "="+random(32))
	}
	g.launch(app, ".", append(settings, "OPTIONS="+options), "node", "node/next-auth.mjs")

	b := g.browse(t)
	b.open(app + "/api/auth/signin")
	b.click(`form[action$="/signin/gatehouse"] button`)
	g.signInAda(b)
	b.reaches(app)
	b.open(app + "/")
	var session struct{ User json.RawMessage }
	var who wantAda
	if got := b.text("body"); json.Unmarshal([]byte(got), &session) != nil || !who.is(string(session.User)) {
		t.Fatalf("at %s the session is %s", b.location(), got)
	}
}

// TestDjangoStart runs the application in docs/start/django.md and signs in and out.
func TestDjangoStart(t *testing.T) {
	t.Parallel()
	g, app := followApp(t, "../docs/start/django.md", "http://localhost:8000")
	secret := g.register("shop")
	dir := t.TempDir()
	g.save(dir)
	_, port, _ := strings.Cut(app, "localhost:")
	g.launch(app, dir, []string{"ISSUER=" + g.Issuer, "CLIENT_SECRET=" + secret}, "/usr/bin/python3", "shop.py", "runserver",
		"--noreload", "localhost:"+port)

	b := g.browse(t)
	b.open(app + "/")
	g.signInAda(b)
	var who wantAda
	if got := b.text("body"); !who.is(got) {
		t.Fatalf("at %s the shop shows %s", b.location(), got)
	}
	b.open(app + "/logout") // and back to /, which asks for a sign-in
	if !b.has("#password") || b.has("[value=allow]") {
		t.Errorf("after the sign-out the browser is at %s, want to be asked for the password", b.location())
	}
}

// demo serves Caddyfile.example for a guide of docs/start, and returns the command with which the guide runs its
// application there, for an address that stands for that of the guide.
func demo(t *testing.T, document, address string) (g *guide, here, command string) {
	t.Helper()
	example := read(t, "../Caddyfile.example")
	moved := move(t, example)
	here = fmt.Sprintf("http://localhost:%d", freePorts(t, 1)[0])
	_, from, _ := strings.Cut(address, "localhost:")
	_, to, _ := strings.Cut(here, "localhost:")
	g = &guide{server: &server{t: t, dir: t.TempDir(), secrets: map[string]string{}}, blocks: blocksOf(read(t, document))}
	g.local = strings.NewReplacer(address, here, "runserver "+from, "runserver --noreload localhost:"+to, "http://localhost:8420",
		moved("http://localhost:8420"))
	g.write(strings.Replace(g.local.Replace(moved(example)), "{\n", fmt.Sprintf("{\n\tadmin localhost:%d\n", freePorts(t, 1)[0]), 1))
	g.Issuer = moved("http://localhost:8420")
	g.run(filepath.Join(g.dir, "Caddyfile"), g.dir)
	g.await(g.Issuer + "/healthz")
	commands := g.asks("ISSUER=http://localhost:8420 ")
	if len(commands) != 1 {
		t.Fatalf("%s runs the application on localhost by %q, want one command", document, commands)
	}
	return g, here, commands[0]
}

// TestStartsOnLocalhost runs the applications of docs/start as the guides say after make run, with what
// Caddyfile.example has.
func TestStartsOnLocalhost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		address, run string                                   // run: the words of the command that start it
		prepare      func(g *guide, dir string) (with string) // what is in place of them here
		open         func(b *tab, app string)
	}{
		"go": {"http://localhost:3000", "go run main.go", func(g *guide, dir string) string {
			return g.goBuild(filepath.Join(dir, "main.go"))
		}, func(b *tab, app string) {
			b.open(app + "/")
			b.click(`a[href="/login"]`)
		}},
		"express": {"http://localhost:3000", "", func(g *guide, dir string) string {
			modules(g.t, dir)
			return ""
		}, func(b *tab, app string) { b.open(app + "/orders") }},
		"nextjs": {"http://localhost:3000", "npx next dev", func(g *guide, dir string) string {
			here, err := filepath.Abs("node/next-auth.mjs")
			options := filepath.Join(dir, "lib", "auth.mjs") // outside of Next.js the name says that it is a module
			if err := errors.Join(err, os.Rename(filepath.Join(dir, "lib", "auth.js"), options)); err != nil {
				g.t.Fatal(err)
			}
			return "env OPTIONS=" + options + " node " + here
		}, func(b *tab, app string) {
			b.open(app + "/api/auth/signin")
			b.click(`form[action$="/signin/gatehouse"] button`)
		}},
		"django": {"http://localhost:8000", "python3", func(*guide, string) string {
			return "/usr/bin/python3"
		}, func(b *tab, app string) { b.open(app + "/") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g, app, command := demo(t, "../docs/start/"+name+".md", tt.address)
			dir := t.TempDir()
			g.save(dir)
			with := tt.prepare(g, dir)
			if tt.run != "" {
				command = strings.Replace(command, tt.run, with, 1)
			}
			g.launch(app, dir, nil, "bash", "-c", command)
			b := g.browse(t)
			tt.open(b, app)
			b.signIn("demo@example.com", "open-the-gate")
			b.click("button[value=allow]")
			b.reaches(app)
			b.open(app + map[string]string{"express": "/orders"}[name])
			b.until(`document.body.innerText.includes("Demo Person") && document.body.innerText.includes("demo@example.com") && document.body.innerText.includes("staff")`)
		})
	}
}
