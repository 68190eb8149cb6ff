package console

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/gif"
	"image/jpeg"
	"image/png"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/authz/client"
	"github.com/gatehouse-id/gatehouse/authz/clientstore"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/logo"
)

const setLogo = "/admin/applications/wiki/set-logo"

// pngOf returns a picture of this size.
func pngOf(t *testing.T, w, h int) string {
	t.Helper()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, w, h))); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// claiming returns a small PNG that claims to have this many pixels on each side.
func claiming(t *testing.T, side uint32) string {
	t.Helper()
	raw := []byte(pngOf(t, 1, 1))
	binary.BigEndian.PutUint32(raw[16:], side)
	binary.BigEndian.PutUint32(raw[20:], side)
	binary.BigEndian.PutUint32(raw[29:], crc32.ChecksumIEEE(raw[12:29]))
	return string(raw)
}

var logoImage = regexp.MustCompile(`<img class="logo" src="(/assets/(?:app|idp)[^"]+)" alt="" width="([0-9]+)" height="([0-9]+)">`)

// logoOn returns the path of the stored logo on a page, or "".
func logoOn(a *answer) string {
	if m := logoImage.FindStringSubmatch(a.form()); m != nil {
		return m[1]
	}
	return ""
}

// asset opens a file of the pages.
func (h *harness) asset(path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.pages.Assets().ServeHTTP(w, httptest.NewRequest(http.MethodGet, issuer+path, nil))
	return w
}

// TestLogoOfApplication: a logo is on every page that names the application, under a path of its content, until it is
// replaced or removed.
func TestLogoOfApplication(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.application("wiki")
	authorize := "/oauth/authorize?" + url.Values{
		"client_id": {"wiki"}, "redirect_uri": {"https://wiki.example.com/cb?a=1,2"}, "response_type": {"code"}, "scope": {"openid"},
		"state": {strings.Repeat("s", 22)}, "code_challenge": {strings.Repeat("c", 43)}, "code_challenge_method": {"S256"},
	}.Encode()
	b := h.as("operator@example.com")
	if a := b.get("/admin/applications/wiki"); logoOn(a) != "" || strings.Contains(a.form(), "remove-logo") {
		t.Errorf("an application without a logo has one, or one to remove:\n%s", a.form())
	}
	before := len(h.allEvents(t.Context()))
	picture := pngOf(t, 120, 60)
	if a := b.upload(setLogo, "@logo", picture); a.Code != http.StatusSeeOther {
		t.Fatalf("POST %s = %d\n%s", setLogo, a.Code, a.form())
	}
	events := h.allEvents(t.Context())[before:]
	if len(events) != 1 || events[0].Type != "client.ClientUpdatedEvent" || events[0].ClientID != "wiki" || events[0].Reason != "logo" {
		t.Errorf("events of a logo = %+v, want one of the change", events)
	}
	page := b.get("/admin/applications/wiki")
	path := logoOn(page)
	if path == "" || !strings.Contains(page.form(), "remove-logo") {
		t.Fatalf("the application has no logo, or none to remove:\n%s", page.form())
	}
	for name, a := range map[string]*answer{
		"the list": b.get("/admin/applications"), "the sign-in page": h.browser().get(authorize), "the consent page": b.get(authorize),
	} {
		if logoOn(a) != path {
			t.Errorf("%s has the logo %q, want %q:\n%s", name, logoOn(a), path, a.form())
		}
	}
	w := h.asset(path)
	if w.Code != http.StatusOK || w.Body.String() != picture || w.Header().Get("Content-Type") != "image/png" ||
		!strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
		t.Errorf("GET %s = %d %v, want the picture, kept forever", path, w.Code, w.Header())
	}
	// The page of a consent leads to the account, which lists the application with its logo.
	b.submit(b.get(authorize), "decision", "allow")
	if a := b.get("/account/applications"); logoOn(a) != path {
		t.Errorf("the account has the logo %q, want %q:\n%s", logoOn(a), path, a.form())
	}

	// another one has another path, and the old path leads to it without being kept
	second := pngOf(t, 60, 60)
	b.upload(setLogo, "@logo", second)
	now := logoOn(b.get("/admin/applications/wiki"))
	if w := h.asset(path); now == path || w.Body.String() != second || w.Header().Get("Cache-Control") != "no-cache" {
		t.Errorf("the path of the logo before = %d %v, now %s", w.Code, w.Header(), now)
	}
	if a := b.acts("/admin/applications/wiki/remove-logo"); logoOn(a) != "" || h.asset(now).Code != http.StatusNotFound {
		t.Errorf("a logo is there after its removal:\n%s", a.form())
	}
	// The next application of the same id has none.
	b.upload(setLogo, "@logo", picture)
	h.must(h.az.Clients().Remove(t.Context(), "wiki", audit.Actor{}))
	if w := h.asset(path); w.Code != http.StatusNotFound {
		t.Errorf("GET %s of a removed application = %d", path, w.Code)
	}
	h.application("wiki")
	if a := b.get("/admin/applications/wiki"); logoOn(a) != "" {
		t.Errorf("an application has the logo of one that was removed:\n%s", a.form())
	}
}

// TestLogosOfEachKind: JPEG and GIF are taken as well, whatever a file is called.
func TestLogosOfEachKind(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.application("wiki")
	b := h.as("operator@example.com")
	var jpg, anim bytes.Buffer
	h.must(jpeg.Encode(&jpg, image.NewGray(image.Rect(0, 0, 9, 9)), nil))
	h.must(gif.Encode(&anim, image.NewPaletted(image.Rect(0, 0, 9, 9), color.Palette{color.Black, color.White}), nil))
	for kind, raw := range map[string]string{"image/jpeg": jpg.String(), "image/gif": anim.String(), "image/png": pngOf(t, 2048, 1)} {
		if a := b.upload(setLogo, "@logo", raw); a.Code != http.StatusSeeOther {
			t.Errorf("%s: POST = %d\n%s", kind, a.Code, a.form())
		}
		if w := h.asset(logoOn(b.get("/admin/applications/wiki"))); w.Header().Get("Content-Type") != kind || w.Body.String() != raw {
			t.Errorf("the logo is %d %v, want %s", w.Code, w.Header(), kind)
		}
	}
}

// TestLogosWrong: what is wrong with a file is said at the field, in the language of the page, and a file that is too
// large is read to its end.
func TestLogosWrong(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.application("wiki")
	b := h.as("operator@example.com")
	for name, tt := range map[string]struct{ file, want string }{
		"nothing": {"", "Choose a PNG, JPEG or GIF picture."}, "a text": {"hello", "Choose a PNG, JPEG or GIF picture."},
		"too large":       {pngOf(t, 1, 1) + strings.Repeat("x", 64<<10), "This picture is larger than 64 KiB."},
		"much too large":  {strings.Repeat("x", 9<<20), "This picture is larger than 64 KiB."},
		"beyond all":      {strings.Repeat("x", layout.MaxPictureUpload+(1<<20)), "This picture is larger than 64 KiB."},
		"too many pixels": {pngOf(t, 2049, 1), "This picture is larger than 2048 pixels."},
		"cut":             {pngOf(t, 90, 90)[:60], "This picture is broken."},
	} {
		a := b.upload(setLogo, "@logo", tt.file)
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), tt.want) ||
			!strings.Contains(a.form(), `aria-invalid="true"`) {
			t.Errorf("%s: POST = %d, want %q at the field\n%s", name, a.Code, tt.want, a.form())
		}
	}
	if a := b.upload(setLogo); a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), "Choose a PNG") {
		t.Errorf("a form without a file: POST = %d\n%s", a.Code, a.form())
	}
	for id, want := range map[string]error{"shop": clientstore.ErrDeclared, "unknown": clientstore.ErrUnknown} {
		if err := h.az.Clients().SetLogo(t.Context(), id, []byte(pngOf(t, 1, 1)), audit.Actor{}); !errors.Is(err, want) {
			t.Errorf("SetLogo(%q) = %v, want %v", id, err, want)
		}
		if err := h.az.Clients().RemoveLogo(t.Context(), id, audit.Actor{}); !errors.Is(err, want) {
			t.Errorf("RemoveLogo(%q) = %v, want %v", id, err, want)
		}
	}
}

// door is a place where a picture is uploaded.
type door struct {
	page, list string
	act        string // the last part of the paths
	kind       string // in the paths of its pictures
	by         string // the lowest role that can do it
	sealed     string // the page of one that stands in the configuration
}

var doors = map[string]door{
	"application": {"/admin/applications/wiki", "/admin/applications", "logo", "app", "operator@example.com", "/admin/applications/shop"},
	"provider":    {"/admin/providers/corp", "/admin/providers", "icon", "idp", "owner@example.com", "/admin/providers/declared"},
}

func (d *door) set() string { return d.page + "/set-" + d.act }

// eachDoor runs a test at each of them, in a harness that has what the pictures are of.
func eachDoor(t *testing.T, test func(t *testing.T, h *harness, d door)) {
	t.Helper()
	for name, d := range doors {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			h.application("wiki")
			h.addProvider("corp", "Corp")
			test(t, h, d)
		})
	}
}

// TestIconOfProvider: an icon is on the pages of the console under a path of its content, until it is replaced or
// removed, or the provider is gone.
func TestIconOfProvider(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.addProvider("corp", "Corp")
	d, b := doors["provider"], h.as("owner@example.com")
	if a := b.get(d.page); logoOn(a) != "" || strings.Contains(a.form(), "remove-icon") {
		t.Errorf("a provider without an icon has one, or one to remove:\n%s", a.form())
	}
	before := len(h.allEvents(t.Context()))
	picture := pngOf(t, 48, 48)
	if a := b.upload(d.set(), "@logo", picture); a.Code != http.StatusSeeOther {
		t.Fatalf("POST %s = %d\n%s", d.set(), a.Code, a.form())
	}
	events := h.allEvents(t.Context())[before:]
	if len(events) != 1 || events[0].Type != "configuration.ConfigurationUpdatedEvent" || events[0].Reason != "login_methods.logo of corp" ||
		events[0].Actor != h.personID("owner@example.com") {
		t.Errorf("events of an icon = %+v, want one of the change", events)
	}
	path := logoOn(b.get(d.page))
	if w := h.asset(path); path == "" || w.Body.String() != picture || logoOn(b.get(d.list)) != path {
		t.Fatalf("the provider has the icon %q, the list %q", path, logoOn(b.get(d.list)))
	}
	second := pngOf(t, 60, 60)
	b.upload(d.set(), "@logo", second)
	if now := logoOn(b.get(d.page)); now == path || h.asset(path).Body.String() != second {
		t.Errorf("the icon at %s and at %s is the one before", now, path)
	}
	h.addProvider("corp", "Another name") // it stays when something else changes
	if logoOn(b.get(d.page)) == "" {
		t.Error("the icon is gone after a change of the name")
	}
	if a := b.acts(d.page + "/remove-icon"); logoOn(a) != "" || h.asset(path).Code != http.StatusNotFound {
		t.Errorf("an icon is there after its removal:\n%s", a.form())
	}
	b.upload(d.set(), "@logo", picture)
	b.acts(d.page + "/remove-provider")
	if w := h.asset(path); w.Code != http.StatusNotFound {
		t.Errorf("GET %s of a removed provider = %d", path, w.Code)
	}
	if a := b.get("/admin/providers/declared"); strings.Contains(a.form(), "set-icon") {
		t.Errorf("a provider of the Caddyfile offers an icon:\n%s", a.form())
	}
}

// TestLogoAttacks: what a file, its name, its type and the paths of pictures cannot do, of applications and of
// providers.
func TestLogoAttacks(t *testing.T) {
	t.Parallel()
	const script = "<script>alert(1)</script>"
	t.Run("attack 9412: a logo that is something else too", func(t *testing.T) {
		t.Parallel()
		eachDoor(t, func(t *testing.T, h *harness, d door) {
			t.Helper()
			b := h.as(d.by)
			for name, raw := range map[string]string{
				"SVG": `<svg xmlns="http://www.w3.org/2000/svg">` + script + `</svg>`, "HTML": "<!doctype html>" + script,
				"SVG after a declaration": `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`,
				"HTML after a picture":    pngOf(t, 9, 9) + script, "HTML before a picture": script + pngOf(t, 9, 9),
				"a zip after a picture":         pngOf(t, 9, 9) + "PK\x05\x06" + strings.Repeat("\x00", 18),
				"a picture of 50,000 by 50,000": claiming(t, 50_000), "one of four thousand million": claiming(t, 1<<31-1),
				"one that is smaller than it says": claiming(t, 2000), "GIF89a and a script": "GIF89a/*" + script + "*/=1;",
			} {
				for _, kind := range []string{"image/png", "image/svg+xml", "text/html"} {
					if a := b.sendPicture(d.set(), "wiki.png", kind, raw); a.Code != http.StatusUnprocessableEntity {
						t.Errorf("attack: %s as %s = %d\n%s", name, kind, a.Code, a.form())
					}
				}
			}
			if a := b.get(d.page); logoOn(a) != "" {
				t.Errorf("attack: there is the picture %s", logoOn(a))
			}
		})
	})
	t.Run("attack 9413: the name and type of a logo's file, and its path", func(t *testing.T) {
		t.Parallel()
		eachDoor(t, func(t *testing.T, h *harness, d door) {
			t.Helper()
			b := h.as(d.by)
			picture := pngOf(t, 9, 9)
			for _, name := range []string{"../../gatehouse.css", `"><script>.html`, "logo.svg", "C:\\logo.exe", "\u202egnp.html"} {
				if a := b.sendPicture(d.set(), name, "text/html; charset=utf-7", picture); a.Code != http.StatusSeeOther {
					t.Fatalf("POST of %q = %d\n%s", name, a.Code, a.form())
				}
				path := logoOn(b.get(d.page))
				if !regexp.MustCompile(`^/assets/` + d.kind + `[0-9a-f]{32}-[0-9a-f]{12}\.png$`).MatchString(path) {
					t.Errorf("attack: the path of the file %q is %q", name, path)
				}
				w := h.asset(path)
				for header, want := range map[string]string{
					"Content-Type": "image/png", "X-Content-Type-Options": "nosniff", "Cross-Origin-Resource-Policy": "same-origin",
					"Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
				} {
					if got := w.Header().Get(header); got != want {
						t.Errorf("attack: %s of the file %q = %q, want %q", header, name, got, want)
					}
				}
				stem, _, _ := strings.Cut(path, "-")
				key := strings.TrimPrefix(stem, "/assets/")
				// Another ending does not make another type of it, and is not kept.
				for _, other := range []string{stem + "-000000000000.html", stem + "-.svg", stem} {
					if w := h.asset(other); w.Header().Get("Content-Type") != "image/png" || w.Header().Get("Cache-Control") != "no-cache" {
						t.Errorf("attack: GET %s = %d %v", other, w.Code, w.Header())
					}
				}
				another := map[string]string{"app": "idp", "idp": "app"}[d.kind]
				for _, other := range []string{
					"/assets/" + strings.ToUpper(key), stem + "/x", stem + "%00", "/assets/" + d.kind, "/assets/" + d.kind + "-",
					"/assets/" + d.kind + "wiki", "/assets/ext/" + key, "/assets/../admin/applications/" + stem,
					"/assets/" + another + strings.TrimPrefix(key, d.kind),
				} {
					if w := h.asset(other); strings.HasPrefix(w.Header().Get("Content-Type"), "image/") {
						t.Errorf("attack: GET %s = %d %v", other, w.Code, w.Header())
					}
				}
			}
		})
	})
	t.Run("attack 9414: a logo by someone who cannot edit the application", func(t *testing.T) {
		t.Parallel()
		eachDoor(t, func(t *testing.T, h *harness, d door) {
			t.Helper()
			owner := h.as("owner@example.com")
			form := owner.get(d.set())
			for _, username := range []string{"nobody@example.com", "viewer@example.com", "helpdesk@example.com", "operator@example.com"} {
				if username == d.by {
					continue
				}
				b := h.as(username)
				if a := b.get(d.set()); a.Code != http.StatusForbidden {
					t.Errorf("attack: GET %s as %s = %d", d.set(), username, a.Code)
				}
				for _, target := range []string{d.set(), d.page + "/remove-" + d.act} {
					if a := b.sendForm(target, form.csrf(), "logo.png", "image/png", pngOf(t, 9, 9)); a.Code != http.StatusForbidden {
						t.Errorf("attack: POST %s as %s = %d", target, username, a.Code)
					}
				}
			}
			b := h.as(d.by)
			picture := pngOf(t, 9, 9)
			for name, token := range map[string]string{
				"no token": "", "that of another session": h.as("two.owner@example.com").get(d.set()).csrf(),
				"that of another form": b.get(map[string]string{"logo": d.page + "/edit-client", "icon": d.page + "/edit-provider"}[d.act]).csrf(),
			} {
				if a := b.sendForm(d.set(), token, "logo.png", "image/png", picture); a.Code != http.StatusForbidden {
					t.Errorf("attack: a form with %s = %d", name, a.Code)
				}
			}
			token := b.get(d.set()).csrf()
			if b.site = "cross-site"; b.sendForm(d.set(), token, "logo.png", "image/png", picture).Code != http.StatusForbidden {
				t.Errorf("attack: another site has sent the form")
			}
			if a := owner.get(d.page); logoOn(a) != "" {
				t.Errorf("attack: there is the picture %s", logoOn(a))
			}
			a := owner.sendForm(d.sealed+"/set-"+d.act, form.csrf(), "logo.png", "image/png", picture)
			if a.Code != http.StatusForbidden {
				t.Errorf("attack: a form for one of the configuration = %d", a.Code)
			}
		})
		h := newHarness(t)
		h.application("directory", "scim")
		h.must(h.az.Clients().SetLogo(t.Context(), "directory", []byte(pngOf(t, 9, 9)), audit.Actor{}))
		b := h.as("operator@example.com")
		for _, act := range []string{"set-logo", "remove-logo"} {
			if a := b.get("/admin/applications/directory/" + act); a.Code != http.StatusForbidden {
				t.Errorf("attack: an operator opens %s of an application that provisions people: %d", act, a.Code)
			}
		}
		// The service itself demands the rights of an owner, and a method that is stored.
		h.addProvider("corp", "Corp")
		picture := []byte(pngOf(t, 9, 9))
		for _, rights := range []settings.Rights{settings.Ordinary, settings.SignIn} {
			if err := h.settings.SetLogo(settings.WithRights(t.Context(), rights), "corp", picture, audit.Actor{}); err == nil {
				t.Errorf("attack: rights %d give a provider an icon", rights)
			}
		}
		owner := settings.WithRights(t.Context(), settings.Owner)
		for _, id := range []string{"declared", settings.OwnMethod, "unknown", ""} {
			if err := h.settings.SetLogo(owner, id, picture, audit.Actor{}); !errors.Is(err, settings.ErrNoMethod) {
				t.Errorf("attack: SetLogo(%q) = %v, want %v", id, err, settings.ErrNoMethod)
			}
			if err := h.settings.RemoveLogo(owner, id, audit.Actor{}); !errors.Is(err, settings.ErrNoMethod) {
				t.Errorf("attack: RemoveLogo(%q) = %v, want %v", id, err, settings.ErrNoMethod)
			}
		}
	})
	t.Run("attack 9415: the logo of an application on another one", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.application("wiki")
		h.addProvider("corp", "Corp")
		by, picture := audit.Actor{}, []byte(pngOf(t, 9, 9))
		h.must(h.az.Clients().SetLogo(t.Context(), "wiki", picture, by))
		h.must(h.settings.SetLogo(settings.WithRights(t.Context(), settings.Owner), "corp", picture, by))
		// A picture is at no other id, also not at one that looks alike, nor at the same id of the other kind.
		owner := h.as("owner@example.com")
		for _, id := range []string{"wiki2", "Wiki", "corp"} {
			_, err := h.az.Clients().Add(t.Context(), client.Client{
				ID: id, Name: "The wiki", RedirectURIs: []string{"https://wiki.example.net/cb"}, Grants: []string{"authorization_code"},
				Scopes: []string{"openid"},
			}, by)
			h.must(err)
			if a := owner.get("/admin/applications/" + id); logoOn(a) != "" {
				t.Errorf("attack: the application %s has the picture %s", id, logoOn(a))
			}
		}
		for _, id := range []string{"corp2", "Corp", "wiki"} {
			h.addProvider(id, "Corp")
			if a := owner.get("/admin/providers/" + id); logoOn(a) != "" {
				t.Errorf("attack: the provider %s has the picture %s", id, logoOn(a))
			}
		}
		// A later provider of the same id has none, and neither has one of the configuration.
		owner.acts("/admin/providers/corp/remove-provider")
		h.addProvider("corp", "Corp")
		if a := owner.get("/admin/providers/corp"); logoOn(a) != "" {
			t.Errorf("attack: a provider has the icon of one that was removed: %s", logoOn(a))
		}
		h.must(h.settings.SetLogo(settings.WithRights(t.Context(), settings.Owner), "corp", picture, by))
		corp := settings.LoginMethod{ID: "corp", Name: "Corp", Type: settings.TypeSAML}
		later, err := settings.New(t.Context(), settings.Config{Fixed: []settings.LoginMethod{corp}},
			settings.Deps{Store: h.store, Keyring: h.keyring})
		h.must(err)
		declared := logo.Shown{Store: h.store, Declares: func(id string) bool { return id == "wiki" }, Providers: later.PageLogos}
		one, err := declared.ClientLogo(t.Context(), "wiki")
		all, failed := declared.ProviderLogos(t.Context())
		if err != nil || failed != nil || one != nil || all["corp"] != nil {
			t.Errorf("attack: owners of the configuration have the stored pictures %v, %v: %v %v", one, all, err, failed)
		}
	})
}

// sendPicture sends the form of a logo with a file of this name and type.
func (b *browser) sendPicture(target, name, kind, content string) *answer {
	b.h.t.Helper()
	return b.sendForm(target, b.get(target).csrf(), name, kind, content)
}

func (b *browser) sendForm(target, token, name, kind, content string) *answer {
	b.h.t.Helper()
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	b.h.must(w.WriteField("csrf", token))
	header := textproto.MIMEHeader{"Content-Type": {kind}}
	header.Set("Content-Disposition", `form-data; name="logo"; filename="`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)+`"`)
	part, err := w.CreatePart(header)
	b.h.must(err)
	_, err = part.Write([]byte(content))
	b.h.must(err)
	b.h.must(w.Close())
	return b.send(target, w.FormDataContentType(), &body)
}
