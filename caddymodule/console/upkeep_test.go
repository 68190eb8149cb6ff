package console

import (
	"context"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/caddymodule/backup"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/caddymodule/console/upkeep"
	"github.com/gatehouse-id/gatehouse/identity/session"
	"github.com/gatehouse-id/gatehouse/internal/event"
	"github.com/gatehouse-id/gatehouse/storage"
	"github.com/gatehouse-id/gatehouse/storage/transfer"
)

// The rows of the table of rights about the screens of package upkeep.
func init() {
	maps.Copy(rights, map[string][4]string{
		"/storage":                {"+", "+", "+", "+"},
		"/storage/backup-now":     operator,
		"/storage/end-everything": {"-", "-", "-", "+"},
	})
}

// backed is the store of the harness with the backups of its engine.
type backed struct {
	storage.Store
	storage.Backuper
}

// upkeep is what the screens of package upkeep work with here.
func (h *harness) upkeep(raw storage.Backuper) upkeep.Deps {
	h.t.Helper()
	h.backups = &backup.Service{Store: backed{h.store, raw}, Recorder: h.recorder, Dir: filepath.Join(h.t.TempDir(), "backups"), Host: "node-1", Log: zap.NewNop()}
	h.t.Cleanup(func() { h.must(h.backups.Close()) })
	return upkeep.Deps{
		Identity: h.id, Store: h.store, Backups: h.backups, Engine: "badger", Place: "/var/lib/gatehouse/store",
		PlaceOf: func(option string) string { return map[string]string{"storage": "Caddyfile:3"}[option] },
		Size:    func() (int64, error) { return 3 << 20, nil }, Free: func() uint64 { return 5 << 30 },
		EndEverything: func(ctx context.Context, by event.Actor) error {
			return h.az.RevokeEverything(ctx, by, session.EndAllSessions)
		},
	}
}

// upkeepPaths writes a payload into what the screens of package upkeep show, and returns their paths.
func (h *harness) upkeepPaths(payload, q string, by event.Actor) (out []string) {
	h.t.Helper()
	h.must(h.backups.Copy(h.t.Context(), io.Discard, payload, by))
	for _, path := range []string{"/storage?" + q, "/storage/backup-now?" + q} {
		out = append(out, frame.Root+path)
	}
	return out
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
	shows("before", "/var/lib/gatehouse/store", "Caddyfile:3", "3.0 MiB", "5.0 GiB", "No backup has been made yet", `href="/admin/storage/backup-now"`, "caddy gatehouse restore")
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
	h.must(h.backups.Copy(t.Context(), io.Discard, "/mnt/nightly.backup", event.Actor{ID: "admin", Name: "admin API"}))
	shows("afterwards", "Complete", "Read again", list[0], "/mnt/nightly.backup", "admin API", "node-1", h.backups.Dir)
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
	refused("enough room")
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
