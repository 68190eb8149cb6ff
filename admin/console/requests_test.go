package console

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/access"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// request has someone ask for access, with the reason. It returns the id.
func (h *harness) request(username string, reason ...string) string {
	h.t.Helper()
	const site = "https://wiki.example.com"
	id := h.personID(username)
	err := h.access.Ask(h.t.Context(), site, strings.Join(append(reason, "for the audit"), " "), audit.Actor{ID: id, Name: username})
	if !errors.Is(err, access.ErrOpen) && !errors.Is(err, access.ErrTooSoon) {
		h.must(err)
	}
	r, err := h.access.Find(h.t.Context(), id, site)
	h.must(err)
	return r.ID
}

// TestRequests: what people ask for is granted for a while, refused or taken back, each with its event; no one grants
// themselves anything.
func TestRequests(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.request("nobody@example.com")
	path, me := "/admin/requests/"+id, h.personID("operator@example.com")
	b := h.as("operator@example.com")
	see := func(a *answer, status int, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if a.Code != status || !strings.Contains(a.form(), want) {
				t.Errorf("%s = %d, want %d and %q:\n%s", a.url, a.Code, status, want, a.form())
			}
		}
	}
	see(b.get("/admin/requests"), 200, `href="`+path+`"`, "for the audit", "Open", `href="/admin/requests/waiting"`)
	see(b.get("/admin/requests"), 200, `href="`+path+`/grant"`, `href="`+path+`/refuse"`) // in the row
	if a := h.as("viewer@example.com").get("/admin/requests"); strings.Contains(a.form(), "/grant") || strings.Contains(a.form(), "/refuse") {
		t.Errorf("a viewer is offered to decide:\n%s", a.form())
	}
	see(b.get("/admin/requests?state=granted"), 200, "Nothing matches")
	see(b.acts(path+"/grant", "hours", "many"), 422, "This value isn")
	see(b.acts(path+"/grant", "hours", "100000"), 422, "365 days")
	h.actHasEvent(b, me, path+"/grant", "access.AccessGrantedEvent", "hours", "8", "uses", "3", "note", "until tonight")
	see(b.get(path), 200, "Granted", "3/3", "until tonight", path+"/revoke-access")
	if ok, _, err := h.access.Holds(t.Context(), h.personID("nobody@example.com"), "https://wiki.example.com"); !ok || err != nil {
		t.Errorf("what was granted does not hold: %t, %v", ok, err)
	}
	h.actHasEvent(b, me, path+"/revoke-access", "access.AccessRevokedEvent")
	see(b.acts(path+"/refuse"), 422, "Someone else changed this")
	h.actHasEvent(b, me, "/admin/requests/"+h.request("two.nobody@example.com")+"/refuse",
		"access.AccessRefusedEvent", "note", "ask your team")
	for _, username := range []string{"operator@example.com", "two.owner@example.com"} {
		if a := b.get("/admin/requests/" + h.request(username) + "/grant"); a.Code != http.StatusForbidden {
			t.Errorf("an operator grants %s access: %d", username, a.Code)
		}
	}
	if a := b.get("/admin/requests/nothing"); a.Code != http.StatusNotFound {
		t.Errorf("an unknown request: %d", a.Code)
	}
}

// TestRefusalIsMended: the page of a refusal leads those who may to a group of the site, and to the grant of a request.
func TestRefusalIsMended(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	nobody := h.personID("nobody@example.com")
	_, err := h.id.Person.AddGroup(t.Context(), person.GroupChange{Name: "board"}, audit.Actor{})
	h.must(err)
	for i := range h.sites {
		if h.sites[i].ID == "wiki.example.com" {
			h.sites[i].Gates[0].Asks = append(h.sites[i].Gates[0].Asks, "groups board gatehouse-owner")
		}
	}
	join, grant := personPath(nobody)+"/join?group=board", "/admin/requests/"+h.request("nobody@example.com")+"/grant"
	for role, want := range map[string]bool{"viewer": false, "helpdesk": false, "operator": true, "owner": true} {
		page := h.as(role + "@example.com").get("/admin/refusals/" + h.ref).form()
		if got := strings.Contains(page, `href="`+join+`"`) && strings.Contains(page, "Add nobody@example.com to board") &&
			strings.Contains(page, `href="`+grant+`"`); got != want {
			t.Errorf("%s is offered to let the person in: %t, want %t\n%s", role, got, want, page)
		}
		if got := strings.Contains(page, "join?group=gatehouse-owner"); got != (role == "owner") {
			t.Errorf("%s is offered to make an owner: %t", role, got)
		}
	}
	b := h.as("operator@example.com")
	if a := b.get(join); a.Code != http.StatusOK || !strings.Contains(a.form(), `value="board"`) {
		t.Errorf("GET %s = %d\n%s", join, a.Code, a.form())
	}
	b.acts(personPath(nobody)+"/join", "group", "board")
	if page := b.get("/admin/refusals/" + h.ref).form(); strings.Contains(page, "join?group=board") {
		t.Errorf("someone in the group is to be added to it\n%s", page)
	}
	b.acts(grant, "hours", "1")
	if page := b.get("/admin/refusals/" + h.ref).form(); strings.Contains(page, grant) {
		t.Errorf("a request that is granted is to be granted\n%s", page)
	}
}
