package console

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-id/gatehouse/identity/passkey"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/storage"
)

// passkeySets are the passkeys of people.
var passkeySets = storage.NewTable[passkey.Set]("identity_passkey_set")

// TestChecklist: the overview of a new installation says what it still needs, to those who can do it, and no more once
// it is done.
func TestChecklist(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	operator := h.as("operator@example.com")
	open := func() (out []string) {
		page := operator.get("/admin").form()
		for _, path := range []string{
			"/account/security", "/admin/messages/queue", "/admin/applications/add", "/admin/persons/invite", "/admin/storage/backup-now",
		} {
			if strings.Contains(page, `<a class="row" href="`+path+`"`) {
				out = append(out, path)
			}
		}
		return out
	}
	if got := strings.Join(open(), " "); got != "/account/security /admin/storage/backup-now" {
		t.Errorf("left are %s", got)
	}
	if page := h.as("viewer@example.com").get("/admin").form(); strings.Contains(page, "Getting started") {
		t.Error("a viewer is asked to set things up")
	}
	h.console.Mails = false
	if got := strings.Join(open(), " "); !strings.Contains(got, "/admin/messages/queue") {
		t.Errorf("without e-mail left are %s", got)
	}
	h.console.Mails = true
	id, err := h.console.Upkeep.Backups.Begin(t.Context(), "elsewhere", audit.Actor{ID: "test"})
	h.must(err)
	if got := strings.Join(open(), " "); got != "/account/security /admin/storage/backup-now" {
		t.Errorf("while a backup is made left are %s", got)
	}
	h.must(h.console.Upkeep.Backups.Finish(t.Context(), id, "", audit.Actor{ID: "test"}))
	if got := strings.Join(open(), " "); got != "/account/security" {
		t.Errorf("after a backup left are %s", got)
	}
	h.must(h.store.Update(t.Context(), func(tx storage.Tx) error {
		return passkeySets.Put(tx, h.personID("owner@example.com"), passkey.Set{Keys: []passkey.Passkey{{Name: "Laptop"}}}, time.Time{})
	}))
	if page := operator.get("/admin").form(); strings.Contains(page, "Getting started") {
		t.Errorf("the list stays when all is done\n%s", page)
	}
}
