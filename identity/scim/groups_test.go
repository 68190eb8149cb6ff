package scim_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// groupsOf are the names of a person's groups as tokens tell them.
func (h *harness) groupsOf(id string) string {
	h.t.Helper()
	var sub authn.Subject
	err := h.store.View(h.t.Context(), func(tx storage.Tx) (err error) {
		sub, err = h.identity.Person.Get(tx, id)
		return err
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.Join(sub.Groups, " ")
}

// memberNames are the names of a group's members, sorted.
func (h *harness) memberNames(group string) string {
	h.t.Helper()
	a := h.want(http.StatusOK, "GET", "/Groups/"+group, nil)
	list, _ := a.body["members"].([]any)
	var out []string
	for i := range list {
		out = append(out, a.at("members", i, "display"))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestGroups(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	anna, ben, carl := h.add("anna", nil), h.add("ben", nil), h.add("carl", nil)
	made := h.want(http.StatusCreated, "POST", "/Groups", map[string]any{
		"schemas": []string{coreGroup, oursGroup}, "displayName": "staff", "externalId": "g1",
		"members": []any{map[string]any{"value": anna, "type": "User"}},
		oursGroup: map[string]any{"permissions": []string{"read", "write"}},
	})
	id := made.at("id")
	if made.at("members", 0, "$ref") != issuer+"/scim/v2/Users/"+anna || made.at("members", 0, "display") != "anna" ||
		made.at("externalId") != "g1" {
		t.Errorf("POST: %s", made.raw)
	}
	if h.groupsOf(anna) != "staff" {
		t.Errorf("groups of anna = %q, want staff", h.groupsOf(anna))
	}
	if got := h.want(200, "GET", "/Users/"+anna, nil); got.at("groups", 0, "value") != id || got.at("groups", 0, "display") != "staff" {
		t.Errorf("groups of the user: %s", got.at("groups"))
	}
	err := h.store.View(t.Context(), func(tx storage.Tx) error {
		p, err := h.identity.Person.Permissions(tx, audit.DefaultPartition, []string{"staff", "unknown"})
		if got := fmt.Sprint(p); got != "map[staff:[read write] unknown:[]]" {
			t.Errorf("Permissions = %s", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	at := "/Groups/" + id
	for _, step := range []struct {
		body any
		want string
	}{
		{patch("add", "members", []any{map[string]any{"value": ben}, map[string]any{"value": anna}}), "anna ben"},
		{patch("Add", "members", map[string]any{"value": carl}), "anna ben carl"},
		{patch("remove", `members[value eq "`+ben+`"]`, nil), "anna carl"},
		{patch("remove", "members", []any{map[string]any{"value": carl}}), "anna"},
		{patch("remove", `members[value eq "nobody"]`, nil), "anna"},
		{patch("replace", "members", []any{map[string]any{"value": ben}, map[string]any{"value": carl}}), "ben carl"},
		{patch("remove", `members[display sw "b"]`, nil), "carl"},
		{patch("add", "", map[string]any{"members": []any{map[string]any{"value": anna}}, "externalId": "g2"}), "anna carl"},
		{patch("remove", "members", nil), ""},
		{patch("add", "members", []any{map[string]any{"value": ben}}, "remove", `members[value eq "`+ben+`"]`, nil, "add", "members",
			map[string]any{"value": anna}), "anna"},
	} {
		h.want(204, "PATCH", at, step.body)
		if got := h.memberNames(id); got != step.want {
			t.Errorf("members after %v are %q, want %q", step.body, got, step.want)
		}
	}
	if got := h.want(200, "GET", at, nil); got.at("externalId") != "g2" || got.at(oursGroup, "permissions") != `["read","write"]` {
		t.Errorf("after patches: %s", got.raw)
	}
	a := h.want(200, "PATCH", at+"?attributes=displayName", patch("replace", "displayName", "crew"))
	if a.at("displayName") != "crew" || a.at("members") != "" {
		t.Errorf("PATCH that asks for the name = %s", a.raw)
	}
	a = h.want(204, "PATCH", at, patch("replace", "externalId", "g3"))
	if tag := h.want(200, "GET", at, nil).header.Get("ETag"); a.raw != "" || a.header.Get("ETag") != tag {
		t.Errorf("PATCH that asks for nothing = %q with ETag %q, want nothing with %q", a.raw, a.header.Get("ETag"), tag)
	}
	if h.groupsOf(anna) != "crew" {
		t.Errorf("groups of anna after the group's new name = %q, want crew", h.groupsOf(anna))
	}
	h.want(200, "PUT", at, map[string]any{
		"schemas": []string{coreGroup}, "displayName": "crew",
		"members": []any{map[string]any{"value": carl}},
	})
	if h.groupsOf(anna) != "" || h.groupsOf(carl) != "crew" {
		t.Errorf("after PUT anna is in %q, carl in %q", h.groupsOf(anna), h.groupsOf(carl))
	}
	h.want(201, "POST", "/Groups", map[string]any{"schemas": []string{coreGroup}, "displayName": "staff"}) // the old name is free
	h.want(204, "DELETE", at, nil)
	h.refused(404, "", "GET", at, nil)
	if h.groupsOf(carl) != "" {
		t.Errorf("carl is in %q after the group is gone", h.groupsOf(carl))
	}
	if fresh := h.addGroup("crew"); h.memberNames(fresh) != "" {
		t.Error("a new group of the old name has members")
	}
}

func TestGroupErrors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	anna := h.add("anna", nil)
	id, other := h.addGroup("staff", anna), h.addGroup("other")
	h.refused(409, "uniqueness", "POST", "/Groups", `{"schemas":["`+coreGroup+`"],"displayName":"staff"}`)
	h.refused(409, "uniqueness", "PATCH", "/Groups/"+other, patch("replace", "displayName", "staff"))
	h.refused(404, "", "GET", "/Groups/"+anna, nil)
	h.refused(404, "", "PATCH", "/Groups/"+anna, patch("add", "externalId", "x"))
	h.refused(404, "", "DELETE", "/Groups/"+anna, nil)
	for scimType, bodies := range map[string][]any{
		"invalidValue": {
			patch("add", "members", []any{map[string]any{"value": id}}),
			patch("add", "members", []any{map[string]any{"value": anna, "type": "Group"}}),
			patch("replace", "displayName", "a\nb"), patch("replace", "displayName", " "), patch("remove", "displayName", nil),
			patch("add", "members", []any{map[string]any{"display": "x"}}),
			patch("replace", oursGroup+":permissions", []any{strings.Repeat("x", 300)}),
		},
		"mutability":  {patch("replace", `members[value eq "`+anna+`"].value`, "x"), patch("replace", "members.value", "x")},
		"invalidPath": {patch("add", `members[value eq "x"]`, map[string]any{"value": anna})},
	} {
		for _, body := range bodies {
			got := h.do("PATCH", "/Groups/"+id, body)
			if want := scimType; got.status != 400 || got.at("scimType") != want && !(want == "invalidValue" && got.at("scimType") == "mutability") {
				t.Errorf("PATCH %v: %d %s, want 400 %s", body, got.status, got.at("scimType"), want)
			}
		}
	}
	list := []any{}
	for i := range 501 {
		list = append(list, map[string]any{"value": fmt.Sprintf("00000000-0000-4000-8000-%012d", i)})
	}
	h.refused(413, "", "PATCH", "/Groups/"+id, patch("add", "members", list))
	if h.memberNames(id) != "anna" || h.groupsOf(anna) != "staff" {
		t.Errorf("after refused changes: members %q, groups %q", h.memberNames(id), h.groupsOf(anna))
	}
}

func TestGroupLists(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	anna, ben := h.add("anna", nil), h.add("ben", nil)
	a := h.addGroup("alpha", anna)
	h.addGroup("beta", ben)
	h.addGroup("Gamma", anna, ben)
	for query, want := range map[string]string{
		"": "Gamma alpha beta",
		"sortBy=displayName&sortOrder=descending":                                      "beta alpha Gamma",
		"filter=" + url.QueryEscape(`displayName eq "beta"`):                           "beta",
		"filter=" + url.QueryEscape(`displayName eq "BETA"`):                           "",
		"filter=" + url.QueryEscape(`id eq "`+a+`"`):                                   "alpha",
		"filter=" + url.QueryEscape(`members.value eq "`+anna+`"`):                     "Gamma alpha",
		"filter=" + url.QueryEscape(`members[display eq "ben"]`):                       "Gamma beta",
		"filter=" + url.QueryEscape(`displayName co "a" and not (displayName sw "b")`): "Gamma alpha",
		"count=1&startIndex=2":                                                         "alpha",
		"startIndex=9":                                                                 "",
	} {
		if got := h.want(200, "GET", "/Groups?"+query, nil).names(); got != want {
			t.Errorf("GET /Groups?%s = %q, want %q", query, got, want)
		}
	}
	if got := h.want(200, "GET", "/Groups?excludedAttributes=members", nil); strings.Contains(got.raw, anna) {
		t.Errorf("excluded members: %s", got.raw)
	}
	h.want(200, "POST", "/Groups/.search",
		map[string]any{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:SearchRequest"}, "filter": "displayName pr"})
	h.refused(400, "invalidFilter", "GET", "/Groups?filter=userName+pr", nil)
}

// TestLargeGroup renames and removes a group of more members than one transaction changes.
func TestLargeGroup(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var ids []string
	for i := range 450 {
		p, err := h.identity.Person.AddPerson(t.Context(), person.NewPerson{Username: fmt.Sprintf("p%d", i), Groups: []string{"crowd"}},
			audit.Actor{})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, p.ID)
	}
	group := h.want(200, "GET", `/Groups?filter=displayName+eq+"crowd"&excludedAttributes=members`, nil).at("Resources", 0, "id")
	h.want(204, "PATCH", "/Groups/"+group, patch("replace", "displayName", "mass"))
	for _, id := range ids {
		if got := h.groupsOf(id); got != "mass" {
			t.Fatalf("groups of a member = %q, want mass", got)
		}
	}
	h.want(204, "DELETE", "/Groups/"+group, nil)
	for _, id := range ids {
		if got := h.groupsOf(id); got != "" {
			t.Fatalf("groups of a member = %q, want none", got)
		}
	}
	if got := h.want(200, "GET", "/Groups", nil).names(); got != "" {
		t.Errorf("groups = %q, want none", got)
	}
}
