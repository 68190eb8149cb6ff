package console

import (
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestInvitationsThatAreOff: it is said before someone has filled in a form, and a form that is open already is
// refused.
func TestInvitationsThatAreOff(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("helpdesk@example.com")
	made, err := h.id.Invitation.Invite(t.Context(), invitation.NewInvitation{Email: "new@example.com"}, audit.Actor{ID: "test"})
	h.must(err)
	pages := map[string][]string{
		"/admin/persons/invite":                             {"addresses", "other@example.com"},
		"/admin/persons/" + made.PersonID + "/invite-again": nil,
	}
	open := map[string]*answer{}
	for at := range pages {
		open[at] = b.get(at)
	}
	h.more = func(u *settings.Units) { u.Features.AcceptingInvitationEnabled = false }
	for at, fields := range pages {
		if a := b.get(at); a.Code != http.StatusOK || strings.Count(a.form(), "Invitations are off.") != 1 ||
			strings.Contains(a.form(), "<form") || !strings.Contains(a.form(), `href="/admin/settings"`) {
			t.Errorf("GET %s = %d, want no form and the reason\n%s", at, a.Code, a.form())
		}
		if a := b.submit(open[at], fields...); a.Code != http.StatusUnprocessableEntity || strings.Count(a.form(), "Invitations are off.") != 1 {
			t.Errorf("the form of %s = %d, want 422 and the reason once\n%s", at, a.Code, a.form())
		}
	}
}

// TestHeadOfAPerson: the page of a person has their name as its title and the username below, and shows sign-in methods
// and sessions side by side. Someone without a name is known by the username alone.
func TestHeadOfAPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("operator@example.com")
	named, unnamed := h.personID("nobody@example.com"), h.personID("two.nobody@example.com")
	b.acts("/admin/persons/"+unnamed+"/edit", "username", "two.nobody@example.com", "name", "")
	for name, tt := range map[string]struct{ id, title, sub string }{
		"with a name":    {named, "Nobody Example", `<p class="sub">nobody@example.com</p>`},
		"without a name": {unnamed, "two.nobody@example.com", ""},
	} {
		page := b.get("/admin/persons/" + tt.id).form()
		if !strings.Contains(page, ` id="about">`+tt.title+"</h1>") || !strings.Contains(page, tt.sub) ||
			tt.sub == "" && strings.Contains(page, `class="sub"`) {
			t.Errorf("%s: the page is not titled %q over %q:\n%s", name, tt.title, tt.sub, page)
		}
		_, rest, _ := strings.Cut(page, `<section class="half" aria-labelledby="methods">`)
		if _, next, found := strings.Cut(rest, "<section"); !found || !strings.HasPrefix(next, ` class="half" aria-labelledby="sessions">`) {
			t.Errorf("%s: sign-in methods and sessions are not side by side:\n%s", name, page)
		}
	}
}

// TestInitials: people are shown with their initials in lists, in the search and on their page, and other things are
// not.
func TestInitials(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	b := h.as("owner@example.com")
	_, err := h.id.Person.AddPerson(t.Context(), person.NewPerson{Username: "zoë@example.com", Name: "zoë van der <Berg>"}, audit.Actor{})
	h.must(err)
	_, err = h.id.Person.AddPerson(t.Context(), person.NewPerson{Username: "nameless"}, audit.Actor{})
	h.must(err)
	const mark = `<span class="initials" aria-hidden="true">`
	for _, c := range []struct{ path, want string }{
		{"/admin/persons", mark + "Z&lt;</span>"},
		{"/admin/persons", mark + "N</span>"},
		{"/admin/persons/" + h.personID("zoë@example.com"), mark + "Z&lt;</span><h1"},
		{"/admin/search?q=nameless", mark + "N</span>"},
		{"/admin/groups/" + h.groupID("staff"), mark + "NE</span>"},
	} {
		if a := b.get(c.path); !strings.Contains(a.form(), c.want) {
			t.Errorf("%s lacks %s:\n%s", c.path, c.want, a.form())
		}
	}
	if a := b.get("/admin/groups"); strings.Contains(a.form(), mark) {
		t.Errorf("groups have initials:\n%s", a.form())
	}
}

// TestZoneSaysWhatIsAtStake: the zone of what takes something away says in numbers what that is, to those who see it.
func TestZoneSaysWhatIsAtStake(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.as("nobody@example.com")
	h.as("nobody@example.com")
	owner, viewer := h.as("owner@example.com"), h.as("viewer@example.com")
	for path, want := range map[string]string{
		personPath(h.personID("nobody@example.com")):     "Active now: 2 sessions, no tokens or app passwords.",
		personPath(h.personID("two.nobody@example.com")): "Active now: no sessions, no tokens or app passwords.",
		groupPath(h.groupID("staff")):                    "10 members lose the access that staff gives. Their accounts stay.",
		groupPath(h.newGroup("cleaners")):                "cleaners has no members.",
		applicationPath("shop"):                          "Active now: no sessions.",
	} {
		_, zone, _ := strings.Cut(owner.get(path).form(), `id="zone"`)
		if !strings.Contains(zone, want) {
			t.Errorf("the zone of %s is %q, want %q", path, zone, want)
		}
		if a := viewer.get(path); strings.Contains(a.form(), want) {
			t.Errorf("%s says %q to those who can take nothing away", path, want)
		}
	}
}
