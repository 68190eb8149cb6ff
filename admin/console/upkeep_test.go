package console

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/admin/backup"
	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/maintenance"
	"github.com/gatehouse-id/gatehouse/identity/challenge"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// The rows of the table of rights about the screens of package upkeep.
func init() {
	maps.Copy(rights, map[string][4]string{
		"/requests/waiting":                 {"+", "+", "+", "+"},
		"/requests/blocked":                 {"+", "+", "+", "+"},
		"/requests/blocked/unblock-address": operator,
		"/storage":                          {"+", "+", "+", "+"},
		"/storage/backup-now":               operator,
		"/storage/backup-schedule":          operator,
		"/storage/test-restore":             operator,
		"/storage/end-everything":           {"-", "-", "-", "+"},
	})
}

// backed is the store of the harness with the backups of its engine.
type backed struct {
	storage.Store
	storage.Backuper
}

// upkeep returns the dependencies of the screens of package upkeep in this test.
func (h *harness) upkeep(raw storage.Backuper) maintenance.Deps {
	h.t.Helper()
	h.backups = &backup.Service{
		Store: backed{h.store, raw}, Recorder: h.recorder, Dir: filepath.Join(h.t.TempDir(), "backups"),
		Host: "node-1", Log: zap.NewNop(),
	}
	h.t.Cleanup(func() { h.must(h.backups.Close()) })
	return maintenance.Deps{
		Backups: h.backups, Engine: "badger", Place: "/var/lib/gatehouse/store",
		PlaceOf: func(option string) string { return map[string]string{"storage": "Caddyfile:3"}[option] },
		Size:    func() (int64, error) { return 3 << 20, nil }, Free: func() uint64 { return 5 << 30 },
		EndEverything: func(ctx context.Context, by audit.Actor) error {
			return h.az.RevokeEverything(ctx, by, session.EndAllSessions)
		},
	}
}

// upkeepPaths writes a payload into what the screens of package upkeep show, and returns their paths.
func (h *harness) upkeepPaths(payload, q string, by audit.Actor) (out []string) {
	h.t.Helper()
	h.copyTo(payload, by)
	for _, path := range []string{
		"/requests/waiting?" + q, "/requests/blocked?" + q, "/requests/blocked/unblock-address?" + q,
		"/storage?" + q, "/storage/backup-now?" + q, "/storage/backup-schedule?" + q, "/storage/test-restore?" + q,
	} {
		out = append(out, layout.Root+path)
	}
	return out
}

// TestBackupSchedule: the schedule is set on the page, which says when the next backup is due, what has become of the
// last one, and of a test of a restore.
func TestBackupSchedule(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.backups.Restore = func(_ context.Context, _ string, r io.Reader, after func(storage.Tx) error) error {
		if _, err := io.Copy(io.Discard, r); err != nil {
			return err
		}
		return h.store.View(t.Context(), after)
	}
	me := h.personID("operator@example.com")
	shows := func(b *browser, what string, want ...string) {
		t.Helper()
		body := b.get("/admin/storage").form()
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: the page lacks %q\n%s", what, w, body)
			}
		}
	}
	b := h.as("operator@example.com")
	shows(b, "before", "Off", "No backup has been tested yet")
	if a := b.get("/admin/storage/backup-schedule"); !strings.Contains(a.form(), ">Backups to keep<") || strings.Contains(a.form(), "secret") {
		t.Errorf("the form of the schedule has no field for the number of backups\n%s", a.form())
	}
	for name, value := range map[string]string{"every": "hourly", "hour": "24", "keep": "0", "weekday": "x"} {
		fields := []string{"every", "daily", "hour", "2", "keep", "3", "weekday", "0", name, value}
		if a := b.acts("/admin/storage/backup-schedule", fields...); a.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s=%s: status %d, want 422", name, value, a.Code)
		}
	}
	h.actHasEvent(b, me, "/admin/storage/backup-schedule", "storage.BackupScheduleChangedEvent", "every", "weekly", "weekday", "4",
		"hour", "2", "keep", "3")
	shows(b, "a schedule", "Every week", "Thursday", "02:00 UTC", "22 November 2035")
	if a := b.acts("/admin/storage/test-restore"); a.Code != http.StatusUnprocessableEntity ||
		!strings.Contains(a.Body.String(), "no complete backup") {
		t.Errorf("a test without a backup: status %d\n%s", a.Code, a.form())
	}
	h.clock.Advance(14 * time.Hour)
	h.must(h.backups.Due(t.Context()))
	h.backups.Wait()
	b = h.as("operator@example.com")
	shows(b, "one was made", "29 November 2035", "22 November 2035", "Complete")
	h.actHasEvent(b, me, "/admin/storage/test-restore", "storage.BackupTestedEvent")
	h.backups.Wait()
	shows(b, "a test", " records restored")
	h.backups.Room = func() bool { return false }
	h.clock.Advance(7 * 24 * time.Hour)
	h.must(h.backups.Due(t.Context()))
	shows(h.as("viewer@example.com"), "a failure", "not enough room")
}

// TestStorageScreen: the page says what there is, a backup that is made there is whole, and it is listed with those of
// the command.
func TestStorageScreen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b, by := h.as("operator@example.com"), h.personID("operator@example.com")
	shows := func(what string, want ...string) {
		t.Helper()
		body := b.get("/admin/storage").form()
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: the page lacks %q\n%s", what, w, body)
			}
		}
	}
	shows("before", "/var/lib/gatehouse/store", "Caddyfile:3", "3.0 MiB", "5.0 GiB", "No backup has been made yet",
		`href="/admin/storage/backup-now"`, "caddy gatehouse restore")
	h.actHasEvent(b, by, "/admin/storage/backup-now", "storage.BackupStartedEvent")
	list := h.wholeBackups()
	if len(list) != 1 {
		t.Fatalf("files = %q, want one", list)
	}
	if n, err := transfer.CheckFile(list[0]); err != nil || n == 0 {
		t.Errorf("the backup has %d records: %v", n, err)
	}
	if info, err := os.Stat(list[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file has the mode %v, %v; want 0600", info.Mode(), err)
	}
	h.copyTo("/mnt/nightly.backup", audit.Actor{ID: "admin", Name: "admin API"})
	shows("afterwards", "Complete", "records verified", list[0], "/mnt/nightly.backup", "admin API", "node-1", h.backups.Dir)
}

// copyTo makes a backup as the command does, which keeps it in a file.
func (h *harness) copyTo(file string, by audit.Actor) {
	h.t.Helper()
	id, err := h.backups.Begin(h.t.Context(), file, by)
	h.must(err)
	h.must(h.backups.Copy(h.t.Context(), io.Discard, id, by))
	h.must(h.backups.Finish(h.t.Context(), id, "", by))
}

// wholeBackups waits until no backup is under way, and returns the files.
func (h *harness) wholeBackups() []string {
	h.t.Helper()
	h.backups.Wait()
	list, err := filepath.Glob(filepath.Join(h.backups.Dir, "*.backup"))
	h.must(err)
	return list
}

// TestBackupsThatDoNotBegin: what stands in the way of a backup is said, and nothing is written.
func TestBackupsThatDoNotBegin(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	refused := func(want string) {
		t.Helper()
		a := b.acts("/admin/storage/backup-now")
		if a.Code != http.StatusUnprocessableEntity || !strings.Contains(a.form(), want) {
			t.Errorf("status %d, want 422 with %q\n%s", a.Code, want, a.form())
		}
	}
	h.backups.Room = func() bool { return false }
	refused("enough disk space")
	h.backups.Room = nil
	h.must(os.MkdirAll(h.backups.Dir, 0o700))
	for i := range backup.MostFiles {
		h.must(os.WriteFile(filepath.Join(h.backups.Dir, string(rune('a'+i))+".backup"), nil, 0o600))
	}
	refused("20 backups")
}

// TestEndEverything: an owner ends all sessions, the own one included, and the event says who did it.
func TestEndEverything(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	owner, other := h.as("owner@example.com"), h.as("nobody@example.com")
	asked := owner.get("/admin/storage/end-everything")
	if !strings.Contains(asked.form(), "Sessions") {
		t.Errorf("the page does not say what ends:\n%s", asked.form())
	}
	n := len(h.allEvents(t.Context()))
	if a := owner.submit(asked); a.Code != http.StatusSeeOther {
		t.Fatalf("POST = %d\n%s", a.Code, a.form())
	}
	found := false
	for _, e := range h.allEvents(t.Context())[n:] {
		found = found || e.Type == "token.EverythingRevokedEvent" && e.Actor == h.personID("owner@example.com")
	}
	if !found {
		t.Errorf("no event: %s", typesOf(h.allEvents(t.Context())[n:]))
	}
	for name, b := range map[string]*browser{"the owner": owner, "somebody else": other} {
		if a := b.do(http.MethodGet, "/account", ""); !strings.HasPrefix(a.Header().Get("Location"), "/sign-in") {
			t.Errorf("%s is still signed in: %d", name, a.Code)
		}
	}
}

// TestBlockedAddresses: an address that has made too many attempts is listed with until when, an operator unblocks it,
// and it is not in the list any more. The account that it has tried is listed, too, and unlocked on its own page.
func TestBlockedAddresses(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	operator, by := h.as("operator@example.com"), h.personID("operator@example.com")
	attempt := func(n int, username func(int) string, from string) {
		t.Helper()
		for i := range n {
			_, err := h.id.Proof.BeginAttempt(t.Context(), person.Holder{}, username(i), challenge.Source{Address: from})
			h.must(err)
		}
	}
	attempt(110, func(i int) string { return "stranger" + strconv.Itoa(i) }, "198.51.100.9")
	attempt(110, func(i int) string { return "stranger" + strconv.Itoa(i) }, "2001:db8::7")
	attempt(10, func(int) string { return "one name" }, "198.51.100.10")
	page := operator.get("/admin/requests/blocked").form()
	for _, want := range []string{
		"198.51.100.9", "2001:db8::/64", "Sign-ins from an address", "198.51.100.10", "An unknown username",
		"/admin/requests/blocked/unblock-address?address=198.51.100.9",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q\n%s", want, page)
		}
	}
	if viewed := h.as("viewer@example.com").get("/admin/requests/blocked").form(); !strings.Contains(viewed, "198.51.100.9") ||
		strings.Contains(viewed, "unblock-address") {
		t.Errorf("a viewer sees\n%s", viewed)
	}
	h.actHasEvent(operator, by, "/admin/requests/blocked/unblock-address?address=2001:db8::%2F64", "login.FailuresForgottenEvent")
	if page := operator.get("/admin/requests/blocked").form(); strings.Contains(page, "2001:db8::/64") ||
		!strings.Contains(page, "198.51.100.9") {
		t.Errorf("after the network was unblocked:\n%s", page)
	}
	if a := operator.acts("/admin/requests/blocked/unblock-address?address=203.0.113.99"); a.Code != http.StatusUnprocessableEntity {
		t.Errorf("an address that is not blocked = %d", a.Code)
	}
	h.clock.Advance(2 * time.Hour)
	if page := h.as("operator@example.com").get("/admin/requests/blocked").form(); !strings.Contains(page, "No one is rate-limited") {
		t.Errorf("after the wait:\n%s", page)
	}
}

// TestBlockedAreListedInParts: a list of many is read part by part, each counter once.
func TestBlockedAreListedInParts(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i := range 12 {
		for range 20 {
			_, err := h.id.Proof.BeginAttempt(t.Context(), person.Holder{}, "name"+strconv.Itoa(i),
				challenge.Source{Address: "198.51.100." + strconv.Itoa(i)})
			h.must(err)
		}
	}
	seen, after := map[string]int{}, ""
	for range 100 {
		var list []challenge.Block
		next := ""
		h.must(h.store.View(t.Context(), func(tx storage.Tx) (err error) {
			list, next, err = h.id.Proof.Blocks(tx, after, 5, h.clock.Now())
			return err
		}))
		for _, b := range list {
			seen[b.Address]++
		}
		after = next
		if after == "" {
			break
		}
	}
	for i := range 12 {
		if a := "198.51.100." + strconv.Itoa(i); seen[a] != 1 {
			t.Errorf("%s is listed %d times", a, seen[a])
		}
	}
}

// TestWaitingPeople: invitations and sign-ups that wait are listed with what is done about them, for those who may.
func TestWaitingPeople(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for role, want := range map[string][]bool{"viewer": {false, false}, "helpdesk": {true, false}, "operator": {true, true}} {
		b := h.as(role + "@example.com")
		if role == "helpdesk" {
			b.acts("/admin/persons/invite", "addresses", "new@example.com")
		}
		if role == "viewer" {
			h.as("owner@example.com").acts("/admin/persons/invite", "addresses", "first@example.com")
		}
		page := b.get("/admin/requests/waiting").form()
		if got := strings.Contains(page, "/invite-again"); got != want[0] && strings.Contains(page, "@example.com") {
			t.Errorf("%s is shown the way to invite again: %t\n%s", role, got, page)
		}
		if got := strings.Contains(page, "/remove"); got != want[1] && strings.Contains(page, "@example.com") {
			t.Errorf("%s is shown the way to remove: %t\n%s", role, got, page)
		}
	}
	b := h.as("helpdesk@example.com")
	if page := b.get("/admin/requests/waiting").form(); !strings.Contains(page, "new@example.com") ||
		!strings.Contains(page, "first@example.com") {
		t.Errorf("the list lacks somebody:\n%s", page)
	}
	h.must(h.id.Person.SetState(t.Context(), "nobody@example.com", person.Inactive, audit.Actor{ID: "test"}))
	if page := b.get("/admin/requests/waiting?state=INACTIVE").form(); !strings.Contains(page, "nobody@example.com") ||
		!strings.Contains(page, "/unblock") {
		t.Errorf("somebody who has signed up is not listed:\n%s", page)
	}
}
