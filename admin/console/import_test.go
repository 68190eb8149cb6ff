package console

import (
	"bytes"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/importer"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// danHash is a hash of the password that everybody has here.
const danHash = "$apr1$saltsalt$bBFZJOdqmeHkX5sAJRgXJ0"

// upload sends the form of a page with files. Fields are pairs of name and value; those that begin with @ are files.
func (b *browser) upload(target string, fields ...string) *answer {
	b.h.t.Helper()
	page := b.get(target)
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	action := formAction.FindStringSubmatch(page.form())
	if action == nil {
		b.h.t.Fatalf("GET %s: status %d, no form:\n%s", target, page.Code, page.Body)
	}
	if !strings.Contains(page.form(), `enctype="multipart/form-data"`) {
		b.h.t.Errorf("the form of %s takes no files:\n%s", target, page.form())
	}
	b.h.must(w.WriteField("csrf", page.csrf()))
	for i := 0; i+1 < len(fields); i += 2 {
		name, file := strings.CutPrefix(fields[i], "@")
		if !file {
			b.h.must(w.WriteField(name, fields[i+1]))
			continue
		}
		part, err := w.CreateFormFile(name, "export")
		b.h.must(err)
		_, err = io.WriteString(part, fields[i+1])
		b.h.must(err)
	}
	b.h.must(w.Close())
	return b.send(action[1], w.FormDataContentType(), &body)
}

// send posts a body to a page of the console.
func (b *browser) send(target, kind string, body io.Reader) *answer {
	r := httptest.NewRequest(http.MethodPost, issuer+target, body)
	r.RemoteAddr = "203.0.113.7:4711"
	r.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
	r.Header.Set("Content-Type", kind)
	r.Header.Set("Sec-Fetch-Site", b.site)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	w := httptest.NewRecorder()
	b.console.ServeHTTP(w, r)
	return &answer{w, target}
}

const importPath = layout.Root + "/persons/import"

// imports uploads a file and has it read. It returns the page of the work, and the path of it.
func (b *browser) imports(kind, file string, fields ...string) (*answer, string) {
	b.h.t.Helper()
	a := b.upload(importPath, append(append([]string{"kind", kind}, fields...), "@file", file, "@hashes", "")...)
	if a.Code != http.StatusSeeOther {
		b.h.t.Fatalf("upload of %s: status %d\n%s", kind, a.Code, a.form())
	}
	path, _, _ := strings.Cut(a.Header().Get("Location"), "?")
	b.h.must(b.h.console.Manage.WorkOff(b.h.t.Context()))
	return b.get(path), path
}

// works does what a page asks about, and the work that follows.
func (b *browser) works(target string) {
	b.h.t.Helper()
	b.acts(target)
	b.h.must(b.h.console.Manage.WorkOff(b.h.t.Context()))
}

// lateLines is an htpasswd file of so many people, from late<first> on.
func lateLines(first, n int) (lines string) {
	for i := range n {
		lines += fmt.Sprintf("late%03d:%s\n", first+i, danHash)
	}
	return lines
}

// exists reports whether there is a person of a username.
func (h *harness) exists(username string) bool {
	_, err := h.id.Person.Person(h.t.Context(), username)
	return err == nil
}

// kept returns all that is stored of a table, as it is.
func (h *harness) kept(contains string) (n int) {
	h.t.Helper()
	h.must(h.store.View(h.t.Context(), func(tx storage.Tx) error {
		n = 0
		for rec, err := range tx.Scan(storage.Range{}) {
			if err != nil {
				return err
			}
			if bytes.Contains(rec.Value, []byte(contains)) || bytes.Contains(rec.Key, []byte(contains)) {
				n++
			}
		}
		return nil
	}))
	return n
}

// TestImport: a file is looked at before anybody comes, the persons come with their passwords, and nothing of the file
// is left.
func TestImport(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	const file = "# of the proxy\ndan.moved:" + danHash + "\nold.moved:rqXexS6ZhobKA\nnobody@example.com:" + danHash + "\n"
	b := h.as("operator@example.com")
	a, path := b.imports("htpasswd", file)
	for _, want := range []string{"dan.moved", "Will be created", "DES", "<span>3</span>", "Not imported", "Exists", path + "/run-import"} {
		if !strings.Contains(a.form(), want) {
			t.Errorf("the page of the dry run does not have %q:\n%s", want, a.form())
		}
	}
	if h.exists("dan.moved") || strings.Contains(h.events(), "BulkChange") {
		t.Errorf("the dry run has created somebody, or has begun:\n%s", h.events())
	}
	if only := b.get(path + "?only=remarks"); strings.Contains(only.form(), "dan.moved") || !strings.Contains(only.form(), "DES") {
		t.Errorf("the page of what does not come:\n%s", only.form())
	}
	if n := h.kept("saltsalt"); n != 0 {
		t.Errorf("attack: the hash of the file lies in %d records in clear", n)
	}
	if n := h.kept("manage_import_whom"); n != 1 {
		t.Errorf("%d parts wait, want 1", n)
	}
	report := b.submit(b.get(path + "/import-report"))
	if !strings.HasPrefix(report.Header().Get("Content-Disposition"), "attachment") ||
		!strings.Contains(report.Body.String(), "2,dan.moved,created") || strings.Contains(report.Body.String(), "saltsalt") {
		t.Errorf("the report is:\n%s", report.Body)
	}

	a = b.acts(path + "/run-import")
	if a.Code != http.StatusOK || !strings.Contains(a.form(), "In progress") || a.Header().Get("Refresh") == "" {
		t.Errorf("after the question: %d\n%s", a.Code, a.form())
	}
	h.must(h.console.Manage.WorkOff(t.Context()))
	if a = b.get(path); !strings.Contains(a.form(), "Done") || !strings.Contains(a.form(), "Created") ||
		strings.Contains(a.form(), "/run-import") {
		t.Errorf("the page of what has come:\n%s", a.form())
	}
	created := 0
	for _, e := range h.allEvents(t.Context()) {
		switch {
		case e.Type == "console.BulkChangeStartedEvent" && (e.Actor != h.personID("operator@example.com") || e.Reason != "import"):
			t.Errorf("the event of the import is %+v", e)
		case e.Type == "person.PersonCreatedEvent" && e.PersonID == h.personID("dan.moved"):
			if created++; e.Actor != h.personID("operator@example.com") || e.ClientIP != "203.0.113.7" {
				t.Errorf("the event of the person is %+v", e)
			}
		}
	}
	if created != 1 {
		t.Errorf("%d events about the person", created)
	}
	own := h.browser()
	if a := own.submit(own.get("/account"), "username", "dan.moved", "password", password); a.Code != http.StatusSeeOther {
		t.Errorf("dan does not sign in with the old password: %d\n%s", a.Code, a.form())
	}
	own = h.browser()
	if a := own.submit(own.get("/account"), "username", "nobody@example.com", "password", password); a.Code != http.StatusSeeOther {
		t.Errorf("who existed does not sign in any more: %d", a.Code)
	}
	for _, table := range []string{"manage_import_whom", "manage_import_file", "manage_job_open"} {
		if n := h.kept(table); n != 0 {
			t.Errorf("%d records of %s are left", n, table)
		}
	}
	if a := b.acts(path + "/run-import"); !strings.Contains(a.form(), "no longer exists") && a.Code != http.StatusUnprocessableEntity {
		t.Errorf("a second run: %d\n%s", a.Code, a.form())
	}
	if a := b.get(layout.Root + "/persons"); !strings.Contains(a.form(), path) {
		t.Errorf("the list of people does not lead to the import:\n%s", a.form())
	}
}

// TestImportKinds: every kind of the command is read here too.
func TestImportKinds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	const ldif = "dn: uid=eve,ou=people,dc=example,dc=com\nobjectClass: inetOrgPerson\nuid: eve.moved\ncn: Eve\nsn: Moved\nmail: eve@ldif.example\n\n" +
		"dn: cn=wiki,ou=groups,dc=example,dc=com\nobjectClass: groupOfNames\ncn: wiki\nmember: uid=eve,ou=people,dc=example,dc=com\n"
	files := map[string][2]string{
		"ldif": {ldif, "eve.moved"},
		"csv":  {"username,given_name,email,groups\nsue.moved,Sue,sue@csv.example,\"wiki;staff\"\n", "sue.moved"},
	}
	for kind, f := range map[string][2]string{
		"keycloak": {"realm.json", "ada.moved"}, "authelia": {"users_database.yml", ".moved"},
		"htpasswd": {"htpasswd", "dan.moved"}, "auth0": {"auth0.ndjson", "moved"}, "dex": {"dex.yaml", "moved"},
		"authentik": {"authentik.yaml", "gil.moved"},
	} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "caddymodule", "cli", "testdata", "movein", f[0]))
		h.must(err)
		files[kind] = [2]string{string(raw), f[1]}
	}
	for _, kind := range importer.Kinds() {
		f, ok := files[kind]
		if !ok {
			t.Errorf("nothing tries %s", kind)
			continue
		}
		a, path := b.imports(kind, f[0])
		if !strings.Contains(a.form(), f[1]) || !strings.Contains(a.form(), "Will be created") || strings.Contains(a.Body.String(), "planted") {
			t.Errorf("the dry run of %s:\n%s", kind, a.form())
		}
		b.works(path + "/run-import")
	}
	for name, groups := range map[string]string{"eve.moved": "wiki", "sue.moved": "staff wiki"} {
		p, err := h.id.Person.Person(t.Context(), name)
		h.must(err)
		if slices.Sort(p.Groups); strings.Join(p.Groups, " ") != groups {
			t.Errorf("%s is in %v, want %s", name, p.Groups, groups)
		}
	}
	if a, _ := b.imports("csv", "username,shoe\nx,1\n"); !strings.Contains(a.form(), "column 2 of the first line is not known; known are") {
		t.Errorf("an unknown column of CSV is not named:\n%s", a.form())
	}
}

// TestImportStops: an import that is stopped leaves those who have come, and nothing of the others. One that no one
// confirms is gone after a day.
func TestImportStops(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	_, path := b.imports("htpasswd", lateLines(0, 120))
	b.acts(path + "/run-import")
	writes := 0
	var count func()
	count = func() {
		if writes++; writes < 70 {
			h.meanwhile.set(count)
			return
		}
		h.must(h.console.Manage.StopJob(t.Context(), strings.TrimPrefix(path, "/admin/jobs/"), audit.Actor{ID: "test"}))
	}
	h.meanwhile.set(count)
	h.must(h.console.Manage.WorkOff(t.Context()))
	if !h.exists("late000") || h.exists("late119") || h.kept("manage_import_whom") != 0 {
		t.Errorf("the first has come: %t, the last: %t, and %d parts are left", h.exists("late000"), h.exists("late119"),
			h.kept("manage_import_whom"))
	}
	if a := b.get(path); !strings.Contains(a.form(), "Stopped") {
		t.Errorf("the page says:\n%s", a.form())
	}

	_, path = b.imports("htpasswd", "day.after:"+danHash+"\n")
	h.clock.Advance(25 * time.Hour)
	b = h.as("operator@example.com")
	if a := b.get(path); strings.Contains(a.form(), "/run-import") {
		t.Errorf("after a day it can be imported:\n%s", a.form())
	}
	b.works(path + "/run-import")
	if h.exists("day.after") {
		t.Errorf("a file is imported after the day for which it is kept")
	}
}
