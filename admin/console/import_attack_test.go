package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// readerFunc is a reader that is a function.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestImportAttacks: what a file could do that its sender may not.
func TestImportAttacks(t *testing.T) {
	t.Parallel()
	t.Run("attack 811: a file that gives roles", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		for _, role := range []string{"operator", "owner"} {
			b := h.as(role + "@example.com")
			user := "mallory." + role
			a, path := b.imports("keycloak",
				fmt.Sprintf(`{"users":[{"username":%q,"groups":["/gatehouse-owner","gatehouse-helpdesk","/writers"]}]}`, user))
			if !strings.Contains(a.form(), "gives a role") {
				t.Errorf("the dry run says:\n%s", a.form())
			}
			b.works(path + "/run-import")
			p, err := h.id.Person.Person(t.Context(), user)
			h.must(err)
			if strings.Join(p.Groups, " ") != "writers" {
				t.Errorf("attack: a file has put somebody into %v", p.Groups)
			}
		}
	})
	t.Run("attack 812: a file that changes someone of equal or higher rank, oneself, or a password", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.as("operator@example.com")
		_, err := h.id.Person.AddPerson(t.Context(), person.NewPerson{Username: "passkey.alone"}, audit.Actor{})
		h.must(err)
		users, may := "", map[string]bool{
			"owner@example.com": false, "two.operator@example.com": false, "operator@example.com": false,
			"viewer@example.com": false, "passkey.alone": true,
		}
		for name := range may {
			users += fmt.Sprintf(`{"username":%q,"firstName":"Mallory","email":"mallory-%s@example.com","emailVerified":true,"credentials":[{"type":"password","secretData":"{\"value\":\"04961CKXHgV0d9gMl9CFwnvHx4ZqGdqu1v62qnkZ/Go=\",\"salt\":\"c2FsdHNhbHRzYWx0c2FsdA==\"}","credentialData":"{\"hashIterations\":1000,\"algorithm\":\"pbkdf2-sha256\"}"}]},`, name, strings.TrimSuffix(name, "@example.com"))
		}
		file := `{"users":[` + strings.TrimSuffix(users, ",") + `]}`
		for _, update := range []bool{false, true} {
			var fields []string
			if update {
				fields = []string{"update", "yes"}
			}
			_, path := b.imports("keycloak", file, fields...)
			b.works(path + "/run-import")
			for name, may := range may {
				p, err := h.id.Person.Person(t.Context(), name)
				h.must(err)
				if changed := p.GivenName == "Mallory"; changed != (may && update) {
					t.Errorf("attack: with update %t a file changes %s: %t", update, name, changed)
				}
			}
		}
		// An address makes someone else of them where applications and links go by it.
		addresses := func(name string) string {
			d, _ := h.details(h.personID(name))
			return fmt.Sprint(d.Profile.EmailAddresses, d.Profile.PhoneNumbers, d.Username)
		}
		before := map[string]string{}
		csv := "username,email,email_verified,phone,external_id\n"
		for _, role := range []string{"viewer", "helpdesk", "operator", "owner"} {
			before["two."+role+"@example.com"] = addresses("two." + role + "@example.com")
			csv += "two." + role + "@example.com,evil-" + role + "@example.com,true,+31612345678,evil-" + role + "\n"
		}
		a, path := b.imports("csv", csv, "update", "yes")
		if n := strings.Count(a.form(), "a role that only an owner changes"); n != 4 {
			t.Errorf("the preview leaves out %d people with a role, want 4:\n%s", n, a.form())
		}
		b.works(path + "/run-import")
		for name, was := range before {
			if now := addresses(name); now != was {
				t.Errorf("attack: an operator's import makes %s of %s, which was %s", now, name, was)
			}
		}
		owner := h.as("owner@example.com")
		_, path = owner.imports("csv", "username,email\ntwo.viewer@example.com,moved@example.com\n", "update", "yes")
		owner.works(path + "/run-import")
		if now := addresses("two.viewer@example.com"); !strings.Contains(now, "moved@example.com") {
			t.Errorf("an owner's import leaves two.viewer@example.com with %s", now)
		}
		if d, _ := h.details(h.personID("passkey.alone")); d.HasPassword {
			t.Errorf("attack: a file has given a password to somebody who exists")
		}
		own := h.browser()
		if a := own.submit(own.get("/account"), "username", "viewer@example.com", "password", password); a.Code != http.StatusSeeOther {
			t.Errorf("attack: a file has changed a password")
		}
	})
	t.Run("attack 813: names that are markup or formulas", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.as("operator@example.com")
		a, path := b.imports("htpasswd", "<img/src=x>:"+danHash+"\n=cmd|'/c'!a1:"+danHash+"\n")
		if strings.Contains(a.Body.String(), "<img/src") || !strings.Contains(a.form(), "&lt;img/src=x&gt;") {
			t.Errorf("the report shows:\n%s", a.form())
		}
		if text := b.submit(b.get(path + "/import-report")).Body.String(); strings.Contains(text, ",=cmd") || !strings.Contains(text, "'=cmd") {
			t.Errorf("attack: the report computes:\n%s", text)
		}
	})
	t.Run("attack 814: files that are too large, or larger than they look", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.as("operator@example.com")
		for name, c := range map[string]struct{ kind, file string }{
			"too large":           {"htpasswd", strings.Repeat("# nothing\n", admin.MaxImport/10+1)},
			"far too large":       {"htpasswd", strings.Repeat("# nothing\n", admin.MaxImport/10+100_000)},
			"too large as a tree": {"authelia", "users:\n" + strings.Repeat("  # nothing\n", 2<<20/12+1)},
		} {
			if a := b.upload(importPath, "kind", c.kind, "@file", c.file); a.Code != http.StatusUnprocessableEntity ||
				!strings.Contains(a.form(), "too large") {
				t.Errorf("%s: %d\n%s", name, a.Code, a.form())
			}
		}
		bomb := "users:\n  a: &a {groups: [x,x,x,x,x,x,x,x,x]}\n"
		for c := 'b'; c < 'l'; c++ {
			bomb += fmt.Sprintf("  %c: &%c [%s]\n", c, c, strings.TrimSuffix(strings.Repeat("*"+string(c-1)+",", 9), ","))
		}
		for name, c := range map[string]struct{ kind, file, want string }{
			"nested JSON": {"keycloak", `{"users":[` + strings.Repeat("[", 1<<20), "Unreadable"},
			"nested attributes": {
				"auth0",
				`{"user_id":"x","email":"a@example.com","user_metadata":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + "}",
				"is not as Auth0 writes it",
			},
			"a line of a MB":     {"htpasswd", strings.Repeat("a", 1<<20), "Unreadable"},
			"YAML of references": {"authelia", bomb, ""},
			"another kind":       {"keycloak", "dan:" + danHash, "Unreadable"},
			"a picture":          {"ldif", "\x89PNG\r\n\x1a\n\x00\x00", ""},
			"half a file":        {"keycloak", `{"users":[{"username":"ann"},{"usern`, "Unreadable"},
		} {
			begun := time.Now()
			a, path := b.imports(c.kind, c.file)
			if a.Code != http.StatusOK || !strings.Contains(a.form(), c.want) || time.Since(begun) > time.Minute {
				t.Errorf("%s: %d after %s\n%s", name, a.Code, time.Since(begun), a.form())
			}
			if c.want == "Unreadable" && (strings.Contains(a.form(), "/run-import") || h.kept("manage_import_file") != 0) {
				t.Errorf("%s: it can be imported, or is kept\n%s", name, a.form())
			}
			if strings.Contains(a.form(), path+"/stop-job") {
				b.works(path + "/stop-job")
			}
		}
		if h.kept("manage_import_file") != 0 || h.kept("manage_import_whom") != 0 {
			t.Errorf("something of the files is left")
		}
	})
	t.Run("attack 815: forged uploads", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b, other := h.as("operator@example.com"), h.as("two.operator@example.com")
		form := func(parts ...string) (string, io.Reader) {
			var body strings.Builder
			for _, p := range parts {
				body.WriteString("--b\r\n" + p + "\r\n")
			}
			body.WriteString("--b--\r\n")
			return "multipart/form-data; boundary=b", strings.NewReader(body.String())
		}
		field := func(name, value string) string {
			return `Content-Disposition: form-data; name="` + name + "\"\r\n\r\n" + value
		}
		file := "Content-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\ndan:" + danHash
		own, another := b.get(importPath).csrf(), b.get(layout.Root+"/persons/create").csrf()
		for name, c := range map[string]struct {
			parts []string
			want  int
		}{
			"no token":                   {[]string{field("kind", "htpasswd"), file}, 403},
			"the token of somebody else": {[]string{field("csrf", other.get(importPath).csrf()), field("kind", "htpasswd"), file}, 403},
			"the token of another form":  {[]string{field("csrf", another), field("kind", "htpasswd"), file}, 403},
			"the token behind the file":  {[]string{field("kind", "htpasswd"), file, field("csrf", own)}, 403},
			"a field behind the file":    {[]string{field("csrf", own), field("kind", "htpasswd"), file, field("update", "yes")}, 422},
			"two kinds":                  {[]string{field("csrf", own), field("kind", "htpasswd"), field("kind", "dex"), file}, 400},
			"two files":                  {[]string{field("csrf", own), field("kind", "htpasswd"), file, file}, 422},
			"no file":                    {[]string{field("csrf", own), field("kind", "htpasswd")}, 422},
			"no kind":                    {[]string{field("csrf", own), field("kind", "hydra"), file}, 422},
			"many fields": {append([]string{field("csrf", own)},
				strings.Split(strings.Repeat(field("x", "y")+"\x00", 40), "\x00")[:40]...), 400},
			"a field that is larger": {[]string{field("csrf", own), field("kind", strings.Repeat("x", 100_000)), file}, 413},
		} {
			kind, body := form(c.parts...)
			if a := b.send(importPath, kind, body); a.Code != c.want {
				t.Errorf("%s: %d, want %d\n%s", name, a.Code, c.want, a.form())
			}
		}
		kind, body := form(field("csrf", own), field("kind", "htpasswd"), file)
		if a := h.as("helpdesk@example.com").send(importPath, kind, body); a.Code != http.StatusForbidden {
			t.Errorf("attack: the helpdesk imports: %d", a.Code)
		}
		b.site = "cross-site"
		kind, body = form(field("csrf", own), field("kind", "htpasswd"), file)
		if a := b.send(importPath, kind, body); a.Code != http.StatusForbidden {
			t.Errorf("attack: another site uploads: %d", a.Code)
		}
		if h.kept("manage_job_open") != 0 {
			t.Errorf("attack: a forged upload is read")
		}
	})
	t.Run("attack 872: uploads that are broken off", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		for range 2 {
			ctx, leave := context.WithCancel(t.Context())
			_, err := h.console.Manage.StartImport(ctx, admin.NewImport{Kind: importer.Htpasswd, Next: func() (io.Reader, error) {
				return io.MultiReader(strings.NewReader(strings.Repeat("# nothing\n", 100_000)), readerFunc(func([]byte) (int, error) {
					leave()
					return 0, io.ErrClosedPipe
				})), nil
			}})
			if err == nil {
				t.Error("half a file is taken")
			}
		}
		if n := h.kept("manage_import_file"); n != 0 {
			t.Errorf("attack: %d pieces of files are kept", n)
		}
	})
	t.Run("attack 816: an import goes on after the role is lost", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		b := h.as("operator@example.com")
		a, path := b.imports("htpasswd", lateLines(0, 120))
		if !strings.Contains(a.form(), "late049") || strings.Contains(a.form(), "late050") ||
			!strings.Contains(b.get(path+"?after=1").form(), "late050") {
			t.Errorf("the report is not in pages of 50:\n%s", a.form())
		}
		b.acts(path + "/run-import")
		h.must(h.id.Person.EndSessions(t.Context(), h.personID("operator@example.com"), audit.Actor{ID: "test"}))
		h.must(h.console.Manage.WorkOff(t.Context()))
		if h.exists("late000") || h.kept("manage_import_whom") != 0 {
			t.Errorf("attack: the import goes on without its operator")
		}
		if a := h.as("owner@example.com").get(path); !strings.Contains(a.form(), "lost the role") {
			t.Errorf("the page says:\n%s", a.form())
		}
	})
}

// TestImportsThatWait: a bounded number of files of one operator is kept until someone confirms or stops the import.
func TestImportsThatWait(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	file := func(i int) string { return lateLines(i, 1) }
	refused := func(what string) {
		t.Helper()
		pieces, jobs := h.kept("manage_import_file"), h.kept("manage_job")
		a := b.upload(importPath, "kind", "htpasswd", "@file", strings.Repeat(file(99), 10_000), "@hashes", "")
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), "You can have at most 5 pending imports.") {
			t.Errorf("%s: %d\n%s", what, a.Code, a.form())
		}
		if pieces == 0 || h.kept("manage_import_file") != pieces || h.kept("manage_job") != jobs {
			t.Errorf("%s: something of it is kept", what)
		}
	}
	t.Run("attack 888: one after the other", func(*testing.T) {
		var paths []string
		for i := range admin.MaxImportsWaiting {
			_, path := b.imports("htpasswd", file(i))
			paths = append(paths, path)
			h.clock.Advance(time.Minute)
		}
		b = h.as("operator@example.com") // with a young sign-in
		refused("a sixth one")
		form := b.get(importPath).form()
		for i, path := range paths {
			if at := strings.Index(form, `href="`+path+`"`); at < 0 || i > 0 && at < strings.Index(form, `href="`+paths[i-1]+`"`) {
				t.Errorf("the form does not list the import %d in its place:\n%s", i, form)
			}
		}
		other := h.as("owner@example.com")
		if strings.Contains(other.get(importPath).form(), paths[0]) {
			t.Error("somebody else is told that these are theirs")
		}
		if a, _ := other.imports("htpasswd", file(98)); !strings.Contains(a.form(), "late098") {
			t.Errorf("somebody else cannot import:\n%s", a.form())
		}

		b.works(paths[1] + "/stop-job")
		b.imports("htpasswd", file(10))
		refused("after one was stopped and another one has come")
		other.acts(paths[2] + "/run-import") // whose slot is that of who has uploaded it
		h.must(h.console.Manage.WorkOff(t.Context()))
		if !h.exists("late002") {
			t.Error("the import of another operator has not come")
		}
		b.imports("htpasswd", file(11))
		refused("after one was imported and another one has come")
		b.acts(paths[0] + "/stop-job")
		if a, _ := b.imports("keycloak", "{"); !strings.Contains(a.form(), "couldn’t be read") {
			t.Errorf("a broken file:\n%s", a.form())
		}
		b.imports("htpasswd", file(12)) // what cannot be read does not wait
		refused("after one could not be read and another one has come")
		h.clock.Advance(25 * time.Hour)
		b = h.as("operator@example.com")
		if form := b.get(importPath).form(); strings.Contains(form, "/admin/jobs/") {
			t.Errorf("what is a day old is said to wait:\n%s", form)
		}
		b.imports("htpasswd", file(13))
	})
	t.Run("attack 888: at once", func(t *testing.T) {
		h := newHarness(t)
		by := admin.Requester{ID: h.personID("operator@example.com"), Role: int(layout.Operator)}
		var taken, refused atomic.Int64
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() {
				left := []io.Reader{strings.NewReader(file(i))}
				next := func() (io.Reader, error) {
					if len(left) == 0 {
						return nil, io.EOF
					}
					in := left[0]
					left = nil
					return in, nil
				}
				switch _, err := h.console.Manage.StartImport(t.Context(), admin.NewImport{Kind: importer.Htpasswd, By: by, Next: next}); {
				case err == nil:
					taken.Add(1)
				case errors.Is(err, admin.ErrImportsWait):
					refused.Add(1)
				default:
					t.Error(err)
				}
			})
		}
		all.Wait()
		if taken.Load() != admin.MaxImportsWaiting || refused.Load() != 20-admin.MaxImportsWaiting ||
			h.kept("manage_import_file") != admin.MaxImportsWaiting {
			t.Errorf("%d are taken, %d refused, %d pieces kept", taken.Load(), refused.Load(), h.kept("manage_import_file"))
		}
	})
}
