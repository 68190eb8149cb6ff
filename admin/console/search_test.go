package console

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

var foundRow = regexp.MustCompile(`<a class="row" href="([^"]+)"`)

// TestSearch: the box on every page finds people by any word of their name or address, applications, sites, groups,
// refusals, settings and commands, as far as the role may begin them.
func TestSearch(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_, err := h.id.Person.AddPerson(t.Context(),
		person.NewPerson{Username: "ada.byron@example.org", GivenName: "Ada", FamilyName: "King Lovelace"}, audit.Actor{})
	h.must(err)
	ada := personPath(h.personID("ada.byron@example.org"))
	h.listPersons()
	viewer, operator := h.as("viewer@example.com"), h.as("operator@example.com")
	search := func(b *browser, q string) []string {
		var out []string
		for _, m := range foundRow.FindAllStringSubmatch(b.get("/admin/search?"+url.Values{"q": {q}}.Encode()).form(), -1) {
			out = append(out, m[1])
		}
		return out
	}
	for q, want := range map[string]string{
		"ada":               ada,
		"Lovelace":          ada, // the end of a name
		"king":              ada, // the middle of one
		"example.org":       ada, // of an address
		"byron":             ada,
		"the shop":          "/admin/applications/shop",
		"SHOP":              "/admin/applications/shop",
		"wiki":              "/admin/sites/wiki.example.com",
		"staff":             groupPath(h.groupID("staff")),
		h.ref:               "/admin/refusals/" + h.ref,
		"min_length":        "/admin/settings/password_policy",
		"minimum length":    "/admin/settings/password_policy",
		"add application":   "/admin/applications/add",
		"invite":            "/admin/persons/invite",
		"keys":              "/admin/keys",
		" sign-in provider": "/admin/providers",
	} {
		if got := search(operator, q); q != "" && !slices.ContainsFunc(got, func(at string) bool { return strings.HasPrefix(at, want) }) {
			t.Errorf("search for %q finds %q, want %q", q, got, want)
		}
	}
	if got := search(viewer, "add application"); len(got) > 0 {
		t.Errorf("a viewer is offered %q", got)
	}
	if a := viewer.get("/admin/search?q=zzz"); !strings.Contains(a.form(), "Nothing found") || len(search(viewer, "zzz")) > 0 {
		t.Errorf("a search for nothing shows\n%s", a.form())
	}
	if got := search(operator, ""); !slices.Contains(got, "/admin/applications/add") || slices.Contains(got, "/admin/keys") {
		t.Errorf("without words there are the commands %q", got)
	}
	for _, path := range []string{"/admin", "/admin/persons", "/admin/search?q=ada"} {
		if page := viewer.get(path).Body.String(); !strings.Contains(page, `action="/admin/search"`) || !strings.Contains(page, "/assets/find-") {
			t.Errorf("%s has no search box", path)
		}
	}
	if page := viewer.get("/account").Body.String(); strings.Contains(page, "/admin/search") {
		t.Error("the page of an account searches the console")
	}
}
