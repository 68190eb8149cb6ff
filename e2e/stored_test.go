package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"flag"
	"html"
	"image"
	"image/png"
	"io"
	"math/big"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/faults/lab"
)

var store = flag.Bool("store", false, "write the stored directory and database that later versions have to open, before a release")

// storedVersion names the files of the newest version. Those of earlier versions stay, and are opened too.
const storedVersion = "testdata/stored-v0.1.0"

// kept are the secrets of a stored directory or database, and contents that a later version must find. They open
// nothing else.
type kept struct {
	Key, Password, ShopSecret, OpsSecret, ClientSecret, RefreshToken, PersonID, SetByAPI string
}

// bed is the storage of a server.
type bed struct {
	line   string // of the Caddyfile
	env    []string
	keep   func(name string) error // writes the records into a file, after the server has ended
	unpack func(t *testing.T, s *server, name string)
}

// engines are the kinds of storage, with what a stored version of theirs is called behind its name.
var engines = map[string]struct {
	suffix string
	bed    func(t *testing.T, s *server) bed
}{
	"badger":   {"-badger.", directory},
	"postgres": {"-postgres.", database},
}

// TestStored opens what each earlier version has written, in a directory and in a database, and finds every kind of
// record that people and programs rely on. Until the release -store writes those of the newest version again where
// records change, and never after it.
func TestStored(t *testing.T) {
	t.Parallel()
	for engine, e := range engines {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			if *store {
				t.Run("write", func(t *testing.T) { keepStored(t, storedVersion+e.suffix, e.bed) })
			}
			names, err := filepath.Glob("testdata/stored-v*" + e.suffix + "json")
			if err != nil || len(names) == 0 {
				t.Fatalf("no stored version (%v)", err)
			}
			for _, name := range names {
				t.Run(filepath.Base(name), func(t *testing.T) { openStored(t, strings.TrimSuffix(name, "json"), e.bed) })
			}
		})
	}
}

// openStored starts a server of now on the records of a version.
func openStored(t *testing.T, name string, where func(*testing.T, *server) bed) {
	t.Helper()
	var was kept
	if err := json.Unmarshal([]byte(read(t, name+"json")), &was); err != nil {
		t.Fatal(err)
	}
	s := newStored(&was)
	b := placeStored(t, s, where)
	b.unpack(t, s, name)
	s.serve()

	if got := must(t, s, "person", "show", "ada", "--json"); !strings.Contains(got, was.PersonID) || !strings.Contains(got, `"readers"`) {
		t.Errorf("ada is %s, want the id %s and the group readers", got, was.PersonID)
	}
	resp := s.form("/oauth/token", "shop", was.ShopSecret, url.Values{"grant_type": {"refresh_token"}, "refresh_token": {was.RefreshToken}})
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the stored refresh token gets %s", resp.Status)
	}
	resp = s.form("/oauth/token", "job", was.ClientSecret, url.Values{"grant_type": {"client_credentials"}})
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the stored client gets %s", resp.Status)
	}
	for what, args := range map[string][]string{
		"ben@example.com": {"person", "list"}, `"readers"`: {"group", "list", "--json"}, `"ada"`: {"session", "list", "--json"},
		"announced": {"key-pair", "list"}, "person.PersonCreatedEvent": {"events", "list", "--json"},
		"The blog": {"client", "show", "blog"}, "I write the plans": {"access", "list"}, "Git on a laptop": {"person", "show", "ada"},
		"recovery code": {"person", "show", "eva@example.com"},
	} {
		if got := must(t, s, args...); !strings.Contains(got, what) {
			t.Errorf("caddy gatehouse %v prints no %s:\n%s", args, what, got)
		}
	}
	must(t, s, "events", "verify")
	for path, want := range map[string]string{
		"/v2/config/certificates": `"partner"`, "/api/v2/config/policies/office": "archive", "/api/v2/config/redirects": was.SetByAPI,
		"/api/storage/" + was.PersonID + "/theme": `"dark"`, "/api/persons/" + was.PersonID + "/assurance": "case 4711",
		"/api/v2/config/custom-messages": "Welcome to the reading room",
	} {
		if status, got := s.configure(http.MethodGet, path, ""); status != http.StatusOK || !strings.Contains(got, want) {
			t.Errorf("GET %s = %d %s, want %s", path, status, got, want)
		}
	}
	for _, name := range []string{"ada", person} {
		v := s.visit(t, name, was.Password)
		if back := v.authorize(s.askFor("shop")); back.values.Get("code") == "" {
			t.Errorf("%s comes back with %v", name, back.values)
		}
		if name == "ada" { // the page of the sign-in has the logo
			v = s.visit(t, name, was.Password)
		}
		logo := regexp.MustCompile(`<img class="logo" src="([^"]+)"`).FindStringSubmatch(v.shown(s.askFor("blog")))
		if logo == nil {
			t.Error("the sign-in page has no logo of the blog")
			continue
		}
		if resp := v.get(s.Issuer + logo[1]); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "image/png" {
			t.Errorf("the logo of the blog: %s, %s", resp.Status, resp.Header.Get("Content-Type"))
		}
	}
}

// askFor is the address at which an application asks for a sign-in.
func (s *server) askFor(client string) string {
	return s.Issuer + "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {client}, "redirect_uri": {s.Callback}, "scope": {"openid profile"}, "state": {"x"},
	}.Encode()
}

// shown returns the page to which an address leads.
func (v *visitor) shown(address string) string {
	v.t.Helper()
	for range 10 {
		resp := v.navigate(address)
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			v.t.Fatal(err)
		}
		to, err := resp.Location()
		if err != nil { // it leads nowhere
			return string(raw)
		}
		address = to.String()
	}
	v.t.Fatalf("%s: no page", address)
	return ""
}

// newStored returns a server that is not started, with the secrets of a stored version.
func newStored(was *kept) *server {
	return &server{
		Callback: "http://127.0.0.1:1/callback", Echo: "127.0.0.1:1", Password: was.Password, Key: was.Key,
		ShopSecret: was.ShopSecret, ReportsSecret: random(32), OpsSecret: was.OpsSecret,
	}
}

// placeStored gives the server its storage. What it stores lasts for ten years.
func placeStored(t *testing.T, s *server, where func(*testing.T, *server) bed) bed {
	t.Helper()
	var b bed
	s.edit = func(caddyfile string) string {
		const long = "3660d" // the longest that there is
		for old, changed := range map[string]string{
			"storage badger " + s.dir + "/data": b.line,
			"apis introspection":                "apis introspection configuration policies persons storage assurance",
			"scopes openid profile email " + apiScope: "scopes openid profile email " + apiScope +
				"\n\t\t\tlifetimes {\n\t\t\t\trefresh_token " + long + "\n\t\t\t\trefresh_chain " + long + "\n\t\t\t}",
			"\t\tlogin\n\t}\n": "\t\tlogin\n\t\tgroups readers\n\t\trequest_access on\n\t\taccept app_passwords\n\t}\n",
			"identity {": "identity {\n\t\t\tadmin ada {\n\t\t\t\tlevel 1\n\t\t\t}\n\t\t\tsession {\n\t\t\t\tidle " + long +
				"\n\t\t\t\tabsolute " + long + "\n\t\t\t}",
		} {
			if strings.Count(caddyfile, old) != 1 {
				t.Errorf("the Caddyfile has not once %q", old)
			}
			caddyfile = strings.Replace(caddyfile, old, changed, 1)
		}
		return caddyfile
	}
	s.place(t)
	b = where(t, s)
	s.more = b.env
	s.write(s.caddyfile())
	return b
}

// must runs a command of caddy gatehouse at the server.
func must(t *testing.T, s *server, args ...string) string {
	t.Helper()
	out, err := s.gatehouse("", append(append([]string{"gatehouse"}, args...), "--address", s.Admin)...)
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return out
}

// keepStored writes records of every kind by this version.
func keepStored(t *testing.T, name string, where func(*testing.T, *server) bed) {
	t.Helper()
	was := kept{
		Key: base64.StdEncoding.EncodeToString([]byte(random(24))), Password: random(12), ShopSecret: random(32), OpsSecret: random(32),
		SetByAPI: "https://www.example.com/start",
	}
	s := newStored(&was)
	b := placeStored(t, s, where)
	t.Cleanup(func() { // after the server has ended
		raw, err := json.MarshalIndent(was, "", "\t")
		if err == nil {
			err = errors.Join(b.keep(name), os.WriteFile(name+"json", append(raw, '\n'), 0o600))
		}
		if err != nil {
			t.Error(err)
		}
	})
	s.serve()
	must(t, s, "group", "add", "readers")
	must(t, s, "group", "join", "readers", "ada")
	out, err := s.gatehouse(was.Password+"\n", "gatehouse", "person", "passwd", "ada", "--address", s.Admin)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	id := regexp.MustCompile(`"id": ?"([0-9a-f-]{36})"`).FindStringSubmatch(must(t, s, "person", "show", "ada", "--json"))
	secret := regexp.MustCompile(`(?m)^secret (\S+)$`).FindStringSubmatch(
		must(t, s, "client", "add", "job", "--grants", "client_credentials", "--scopes", apiScope, "--default-scopes", apiScope))
	must(t, s, "client", "add", "blog", "--name", "The blog", "--grants", "authorization_code", "--redirect-uris", s.Callback,
		"--scopes", "openid,profile")
	if id == nil || secret == nil {
		t.Fatal("the commands print no id or no secret")
	}
	was.PersonID, was.ClientSecret = id[1], secret[1]
	must(t, s, "key-pair", "announce")
	for _, c := range []struct{ method, path, body string }{
		{http.MethodPost, "/scim/v2/Users", `{"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User"], "userName": "ben@example.com", "emails": [{"value": "ben@example.com", "primary": true}]}`},
		{http.MethodPost, "/v2/config/certificates", `{"key_pair": {"name": "partner", "key_type": "EC", ` + keyPair(t) + `}}`},
		{http.MethodPut, "/api/v2/config/policies/office", `{"allow": [{"name": "archive", "need": {"groups": ["readers"]}}]}`},
		{http.MethodPost, "/api/v2/config/redirects", `{"url_after_login": "` + was.SetByAPI + `"}`},
		{http.MethodPut, "/api/v2/config/custom-messages/en/batch", `{"sign_in.title": "Welcome to the reading room"}`},
		{http.MethodPut, "/api/storage/" + was.PersonID + "/theme", `{"dark": true}`},
		{
			http.MethodPost, "/api/persons/" + was.PersonID + "/identity-card",
			`{"result": "VALIDATED", "document_type": "idcard", "identity_assurance_level": 3, "reference": "case 4711"}`,
		},
	} {
		if status, got := s.configure(c.method, c.path, c.body); status/100 != 2 {
			t.Fatalf("%s %s = %d %s", c.method, c.path, status, got)
		}
	}
	v := s.visit(t, "ada", was.Password)
	back := v.authorize(s.askFor("shop"))
	tokens := body[struct {
		RefreshToken string `json:"refresh_token"`
	}](t, s.form("/oauth/token", "shop", was.ShopSecret, url.Values{
		"grant_type": {"authorization_code"}, "code": {back.values.Get("code")}, "redirect_uri": {s.Callback},
	}))
	was.RefreshToken = tokens.RefreshToken
	if was.RefreshToken == "" {
		t.Fatal("the shop gets no refresh token")
	}
	v.upload(s.Issuer+"/admin/applications/blog/set-logo", "logo")
	v.send(s.Issuer, v.shown(s.Issuer+"/admin/storage/backup-schedule"), "every", "every", "weekly", "weekday", "1", "hour", "2", "keep", "5")
	v.send(s.Issuer, v.shown(s.Issuer+"/account/security/app-passwords"), "name",
		"name", "Git on a laptop", "site-0", s.Wiki, "days", "365")

	v = s.visit(t, person, was.Password)
	v.authorize(s.askFor("shop"))
	ask := regexp.MustCompile(`href="([^"]*/access[^"]*)"`).FindStringSubmatch(v.shown(s.Wiki + "/plans"))
	if ask == nil {
		t.Fatalf("the wiki offers nobody to ask for access: %s", v.shown(s.Wiki+"/plans"))
	}
	v.send(s.Wiki, v.shown(s.Wiki+html.UnescapeString(ask[1])), "reason", "reason", "I write the plans")
	must(t, s, "access", "grant", person, s.Wiki, "--uses", "3")

	if out, err := s.gatehouse(was.Password+"\n", "gatehouse", "person", "add", "eva@example.com", "--address", s.Admin); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	v = s.visit(t, "eva@example.com", was.Password) // who is asked for a second factor from now on
	v.authorize(s.askFor("shop"))
	secrets := regexp.MustCompile(`(?:[A-Z2-7]{4} ){7}[A-Z2-7]{4}`)
	page := v.shown(s.Issuer + "/account/security/authenticator")
	v.send(s.Issuer, page, "code", "code", appCode(t, strings.ReplaceAll(secrets.FindString(page), " ", ""), 0))
}

// send fills in the form with a field on a page of an origin, and sends it.
func (v *visitor) send(origin, page, field string, values ...string) {
	v.t.Helper()
	for _, m := range formTag.FindAllStringSubmatch(page, -1) {
		if !strings.Contains(m[2], `name="`+field+`"`) {
			continue
		}
		form := hiddenFields(m[2])
		for i := 0; i < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		resp := v.postFrom(origin, origin+html.UnescapeString(m[1]), form)
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode >= 400 {
			v.t.Fatalf("%s: %s, %v: %s", m[1], resp.Status, err, raw)
		}
		return
	}
	v.t.Fatalf("no form with %s: %s", field, page)
}

// upload sends a picture by the form of a page.
func (v *visitor) upload(address, field string) {
	v.t.Helper()
	page := v.shown(address)
	m := formTag.FindStringSubmatch(page)
	for _, f := range regexp.MustCompile(`(?s)<form method="post" action="([^"]*)"[^>]*enctype[^>]*>(.*?)</form>`).FindAllStringSubmatch(page, -1) {
		m = f
	}
	if m == nil {
		v.t.Fatalf("%s has no form: %s", address, page)
	}
	var form, picture bytes.Buffer
	w := multipart.NewWriter(&form)
	err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 64, 64)))
	for _, h := range hiddenTag.FindAllStringSubmatch(m[2], -1) {
		err = errors.Join(err, w.WriteField(html.UnescapeString(h[1]), html.UnescapeString(h[2])))
	}
	part, err2 := w.CreateFormFile(field, "logo.png")
	if err := errors.Join(err, err2); err != nil {
		v.t.Fatal(err)
	}
	_, err = part.Write(picture.Bytes())
	if err := errors.Join(err, w.Close()); err != nil {
		v.t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(v.t.Context(), http.MethodPost, v.issuer+html.UnescapeString(m[1]), &form)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Content-Type", w.FormDataContentType())
	req.Header.Set("Origin", v.issuer)
	resp := v.do(req)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSeeOther {
		raw, _ := io.ReadAll(resp.Body) // for the message
		v.t.Fatalf("%s: %s: %s", address, resp.Status, raw)
	}
}

// keyPair returns a key and its certificate, as members that the configuration API takes.
func keyPair(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "partner"}, NotBefore: now, NotAfter: now.AddDate(20, 0, 0),
	}
	raw, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := func(kind string, raw []byte) string {
		return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}))
	}
	return `"private_key": "` + text("PRIVATE KEY", private) + `", "public_key": "` + text("CERTIFICATE", raw) + `"`
}

// directory is the storage in a directory of the server.
func directory(_ *testing.T, s *server) bed {
	return bed{
		line:   "storage badger " + s.dir + "/data",
		keep:   func(name string) error { return packStored(s.dir+"/data", name+"tar.gz") },
		unpack: func(t *testing.T, s *server, name string) { unpackStored(t, name+"tar.gz", s.dir+"/data") },
	}
}

// database is the storage in a PostgreSQL of its own.
func database(t *testing.T, _ *server) bed {
	t.Helper()
	p, err := lab.NewPostgres()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Remove)
	return bed{
		line: "storage postgres {env.TEST_DATABASE}",
		env:  []string{"TEST_DATABASE=postgres://gatehouse@" + p.Address() + "/gatehouse?sslmode=disable"},
		keep: func(name string) error {
			statements, err := p.Dump()
			if err != nil {
				return err
			}
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, err = io.WriteString(z, statements)
			return errors.Join(err, z.Close(), os.WriteFile(name+"sql.gz", packed.Bytes(), 0o600))
		},
		unpack: func(t *testing.T, _ *server, name string) {
			t.Helper()
			statements, err := io.ReadAll(unzipped(t, name+"sql.gz"))
			if err := errors.Join(err, p.Restore(string(statements))); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// packStored writes the directory of a server that has ended.
func packStored(dir, name string) error {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	w := tar.NewWriter(z)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), z.Close()); err != nil {
		return err
	}
	return os.WriteFile(name, packed.Bytes(), 0o600)
}

// unzipped returns the content of a file of testdata.
func unzipped(t *testing.T, name string) io.Reader {
	t.Helper()
	raw, err := os.ReadFile(name) //nolint:gosec // of this repository
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// unpackStored unpacks the stored directory.
func unpackStored(t *testing.T, packed, dir string) {
	t.Helper()
	for r := tar.NewReader(unzipped(t, packed)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(dir, filepath.FromSlash(h.Name)) //nolint:gosec // of this repository
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(name, 0o700)
		} else if err = os.MkdirAll(filepath.Dir(name), 0o700); err == nil {
			var raw []byte
			if raw, err = io.ReadAll(r); err == nil {
				err = os.WriteFile(name, raw, 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
