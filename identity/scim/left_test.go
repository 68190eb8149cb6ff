package scim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/internal/audit/eventtest"
	"github.com/gatehouse-id/gatehouse/storage"
)

// TestLeftOut: one value that cannot be kept does not refuse the person. It is left out, and named in the answer and in
// the event.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	one := func(attribute string, v any) m { return m{attribute: v} }
	value := func(v any) []any { return []any{m{"type": "work", "value": v}} }
	for name, tt := range map[string]struct {
		says m
		left string // the header
		at   []any  // path of the value that is kept
		want string
	}{
		"empty number":    {one("phoneNumbers", value("")), "", []any{"phoneNumbers"}, ""},
		"extension alone": {one("phoneNumbers", value("x1234")), "phoneNumbers", []any{"phoneNumbers"}, ""},
		"words":           {one("phoneNumbers", value("ask reception")), "phoneNumbers", []any{"phoneNumbers"}, ""},
		"no-break space": {
			one("phoneNumbers", value("+44\u00a020 7946 0000")), "",
			[]any{"phoneNumbers", 0, "value"},
			"+44 20 7946 0000",
		},
		"dash and mark": {
			one("phoneNumbers", value("\u202a+44 20 7946\u20130000\u202c")), "",
			[]any{"phoneNumbers", 0, "value"},
			"+44 20 7946-0000",
		},
		"one of two numbers": {
			one("phoneNumbers", []any{m{"value": "x1", "primary": true}, m{"value": "+31 20 123 4567"}}), "phoneNumbers",
			[]any{"phoneNumbers", 0, "value"},
			"+31 20 123 4567",
		},
		"number as a number": {one("phoneNumbers", value(442079460000)), "", []any{"phoneNumbers", 0, "value"}, "442079460000"},
		"locale of Windows":  {one("locale", "English (United States)"), "locale", []any{"locale"}, ""},
		"intranet":           {one("profileUrl", "intranet/people/o2"), "profileUrl", []any{"profileUrl"}, ""},
		"script":             {one("profileUrl", "javascript:alert(1)"), "profileUrl", []any{"profileUrl"}, ""},
		"line break":         {one("displayName", "Jane\nDoe"), "", []any{"displayName"}, "Jane Doe"},
		"spaces":             {one("title", "  Engineer "), "", []any{"title"}, "Engineer"},
		"direction":          {one("nickName", "a\u202eb"), "nickName", []any{"nickName"}, ""},
		"too long":           {one("title", strings.Repeat("x", 300)), "title", []any{"title"}, ""},
		"work and home": {
			one("emails",
				[]any{m{"type": "work", "value": "a@example.com", "primary": true}, m{"type": "home", "value": "a@example.com"}}), "emails",
			[]any{"emails", 0, "type"},
			"work",
		},
		"home is primary": {
			one("emails",
				[]any{m{"type": "work", "value": "a@example.com"}, m{"type": "home", "value": "A@example.com", "primary": true}}), "emails",
			[]any{"emails", 0, "type"},
			"home",
		},
		"odd secondary address": {
			one("emails", []any{m{"value": "n/a"}, m{"value": "a@example.com"}}), "emails",
			[]any{"emails", 0, "value"},
			"a@example.com",
		},
		"empty address":           {one("emails", value(" ")), "", []any{"emails"}, ""},
		"space around an address": {one("emails", value(" a@example.com ")), "", []any{"emails", 0, "value"}, "a@example.com"},
		"two primary addresses": {
			one("emails",
				[]any{m{"value": "a@example.com", "primary": true}, m{"value": "b@example.com", "primary": true}}), "emails",
			[]any{"emails", 1, "primary"},
			"",
		},
		"display of an address": {
			one("emails", []any{m{"value": "a@example.com", "display": "Jane"}}), "emails.display",
			[]any{"emails", 0, "value"},
			"a@example.com",
		},
		"country in words": {
			one("addresses", []any{m{"locality": "Boston", "country": "United States"}}), "addresses.country",
			[]any{"addresses", 0, "locality"},
			"Boston",
		},
		"country of three": {
			one("addresses", []any{m{"locality": "Boston", "country": "USA"}}), "",
			[]any{"addresses", 0, "country"},
			"US",
		},
		"street of two lines": {
			one("addresses", []any{m{"streetAddress": "1 Main St\r\nSuite 5"}}), "",
			[]any{"addresses", 0, "streetAddress"},
			"1 Main St Suite 5",
		},
		"empty address of a house": {one("addresses", []any{m{"type": "work"}}), "", []any{"addresses"}, ""},
		"extension of others":      {one("urn:okta:staff:1.0:user:custom", m{"a": "b"}), "urn:okta:staff:1.0:user:custom", []any{"title"}, ""},
		"own attribute":            {one("costCode", "7"), "costCode", []any{"costCode"}, ""},
		"own in a name":            {one("name", m{"givenName": "Jane", "pet": "Rex"}), "name.pet", []any{"name", "givenName"}, "Jane"},
		"object for a text":        {one("title", m{"value": "x"}), "title", []any{"title"}, ""},
		"list for a text":          {one("title", []any{"x", "y"}), "title", []any{"title"}, ""},
		"text for objects":         {one("addresses", "Boston"), "addresses", []any{"addresses"}, ""},
		"no name":                  {one("x y\r\nz", "7"), "(a name that cannot be repeated)", []any{"title"}, ""},
		"photo without a host":     {one("photos", value("photo.png")), "photos", []any{"photos"}, ""},
		"gender and birth": {
			one(ours, m{"gender": "female", "dateOfBirth": "2090-01-01"}), ours + ":dateOfBirth",
			[]any{ours, "gender"},
			"F",
		},
		"custom attributes": {
			one(ours,
				m{"customAttributes": []any{m{"name": "shoe size", "value": "1"}, m{"name": "pet", "value": "cat"}, m{"value": "x"}}}),
			ours + ".customAttributes, " + ours + ":customAttributes",
			[]any{ours, "customAttributes", 0, "value"},
			"cat",
		},
		"employee number": {
			one(enterprise, m{"employeeNumber": 701984, "costCode": "7"}), enterprise + ".costCode",
			[]any{enterprise, "employeeNumber"},
			"701984",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			tt.says["schemas"], tt.says["userName"] = []string{coreUser}, "jane"
			made := h.want(http.StatusCreated, "POST", "/Users", tt.says)
			if got := made.header.Get("Gatehouse-Left-Out"); got != tt.left {
				t.Errorf("POST left out %q, want %q", got, tt.left)
			}
			if got := made.at(tt.at...); got != tt.want {
				t.Errorf("POST keeps %v = %q, want %q: %s", tt.at, got, tt.want, made.raw)
			}
			if reason := h.lastReason(); (tt.left != "") != strings.Contains(reason, "left out: ") {
				t.Errorf("the event says %q, and %q was left out", reason, tt.left)
			}
			put := h.want(http.StatusOK, "PUT", "/Users/"+made.at("id"), tt.says)
			if got := put.header.Get("Gatehouse-Left-Out"); got != tt.left || put.at(tt.at...) != tt.want {
				t.Errorf("PUT left out %q and keeps %q, want %q and %q", got, put.at(tt.at...), tt.left, tt.want)
			}
		})
	}
}

// lastReason is the reason of the last event.
func (h *harness) lastReason() (reason string) {
	h.t.Helper()
	err := h.store.View(h.t.Context(), func(tx storage.Tx) error {
		for e, err := range eventtest.All(tx) { // the newest first
			if err != nil {
				return err
			}
			reason = e.Reason
			break
		}
		return nil
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return reason
}

// TestRefusedStill: what makes a person unusable is refused as before.
func TestRefusedStill(t *testing.T) {
	t.Parallel()
	type m = map[string]any
	h := newHarness(t)
	for name, says := range map[string]m{
		"username":           {"userName": "a b"},
		"username as a list": {"userName": []any{"a", "b"}},
		"primary address":    {"userName": "jane", "emails": []any{m{"value": "n/a", "primary": true}, m{"value": "a@example.com"}}},
		"the only address":   {"userName": "jane", "emails": []any{m{"value": "n/a"}}},
		"active":             {"userName": "jane", "active": "perhaps"},
		"password":           {"userName": "jane", "password": m{}},
	} {
		says["schemas"] = []string{coreUser}
		if a := h.do("POST", "/Users", says); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400", name, a.status, a.raw)
		}
	}
}

// TestPatchLeavesOut: an operation that cannot be kept does not refuse the others.
func TestPatchLeavesOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := "/Users/" + h.add("jane", nil)
	for name, tt := range map[string]struct {
		path  any
		value any
		left  string
	}{
		"own attribute":       {coreUser + ":costCode", "7", coreUser + ":costCode"},
		"own of several":      {`costCode[type eq "work"].value`, "7", "costCode.value"},
		"sub-attribute":       {`phoneNumbers[type eq "work"].display`, "Jane", "phoneNumbers.display"},
		"in an extension":     {enterprise + ":costCode", "7", enterprise + ":costCode"},
		"extension of others": {"urn:okta:staff:1.0:user:a.b", "7", "urn:okta:staff:1.0:user:a.b"},
		"without a path":      {"", map[string]any{"costCode": "7", "nickName": "jj"}, "costCode"},
		"number":              {`phoneNumbers[type eq "work"].value`, "x1234", "phoneNumbers"},
		"locale":              {"locale", "English (United States)", "locale"},
		"wrong type":          {"title", map[string]any{"a": "b"}, "title"},
		"name of other times": {"urn:scim:schemas:extension:enterprise:2.0:costCode", "7", "urn:scim:schemas:extension:enterprise:2.0:costCode"},
	} {
		a := h.want(http.StatusOK, "PATCH", at, patch("replace", "displayName", "Jane "+name, "replace", tt.path, tt.value))
		if got := a.header.Get("Gatehouse-Left-Out"); got != tt.left {
			t.Errorf("%s: left out %q, want %q", name, got, tt.left)
		}
		if a.at("displayName") != "Jane "+name {
			t.Errorf("%s: displayName = %q", name, a.at("displayName"))
		}
	}
	for name, body := range map[string]any{
		"active":    patch("replace", "displayName", "x", "replace", "active", "perhaps"),
		"username":  patch("replace", "displayName", "x", "replace", "userName", map[string]any{}),
		"read only": patch("replace", "displayName", "x", "replace", "id", "7"),
		"broken":    patch("replace", "displayName", "x", "replace", `emails[type eq`, "7"),
	} {
		if a := h.do("PATCH", at, body); a.status != http.StatusBadRequest {
			t.Errorf("%s: %d %s, want 400", name, a.status, a.raw)
		}
	}
	if a := h.want(http.StatusOK, "GET", at, nil); a.at("displayName") == "x" {
		t.Error("a PATCH that was refused has changed something")
	}
}

// TestBulkLeavesOut: the answer to a Bulk names what its operations leave out.
func TestBulkLeavesOut(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	a := h.want(http.StatusOK, "POST", "/Bulk",
		map[string]any{"schemas": []string{"urn:ietf:params:scim:api:messages:2.0:BulkRequest"}, "Operations": []any{map[string]any{
			"method": "POST", "path": "/Users", "bulkId": "a",
			"data": map[string]any{"schemas": []string{coreUser}, "userName": "jane", "locale": "Klingon (Kronos)"},
		}}})
	if a.at("Operations", 0, "status") != "201" || a.header.Get("Gatehouse-Left-Out") != "locale" {
		t.Errorf("POST = %s, left out %q", a.raw, a.header.Get("Gatehouse-Left-Out"))
	}
}

// TestOldSchemaNames: the schemas as SCIM 1.1 and drafts named them, which OneLogin sends.
func TestOldSchemaNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for i, core := range []string{
		"urn:scim:schemas:core:2.0", "urn:scim:schemas:core:1.0", "urn:scim:schemas:core:2.0:User",
		"urn:ietf:params:scim:schemas:core:2.0", strings.ToUpper(coreUser),
	} {
		old := "urn:scim:schemas:extension:enterprise:2.0"
		name := fmt.Sprintf("jane%d", i)
		user := map[string]any{
			"schemas": []string{core, old}, "userName": name, "name": map[string]any{"familyName": "Doe"},
			old:      map[string]any{"department": "Sales"},
			"emails": []any{map[string]any{"value": name + "@example.com", "type": "work", "primary": true}},
		}
		made := h.want(http.StatusCreated, "POST", "/Users", user)
		if made.at(enterprise, "department") != "Sales" || made.header.Get("Gatehouse-Left-Out") != "" {
			t.Errorf("POST with %s = %s", core, made.raw)
		}
		h.want(http.StatusOK, "PUT", "/Users/"+made.at("id"), user)
		a := h.want(http.StatusOK, "PATCH", "/Users/"+made.at("id"), patch("replace", old+":department", "Support"))
		if a.at(enterprise, "department") != "Support" {
			t.Errorf("PATCH of %s:department = %s", old, a.raw)
		}
		group := map[string]any{"schemas": []string{strings.Replace(core, "User", "Group", 1), old}, "displayName": "staff" + name}
		if i < 4 {
			g := h.want(http.StatusCreated, "POST", "/Groups", group)
			h.want(http.StatusOK, "PUT", "/Groups/"+g.at("id"), group)
		}
	}
	if a := h.do("POST", "/Users",
		map[string]any{"schemas": []string{coreUser, coreGroup}, "userName": "x"}); a.status != http.StatusBadRequest {
		t.Errorf("a user that is a group = %d, want 400", a.status)
	}
	if a := h.do("POST", "/Users",
		map[string]any{"schemas": []string{"urn:scim:schemas:core:2.0:Group"}, "userName": "x"}); a.status != http.StatusBadRequest {
		t.Errorf("a group at /Users = %d, want 400", a.status)
	}
}

// TestStaleMember: the answer names the members that do not exist, and nothing changes.
func TestStaleMember(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	anna := h.add("anna", nil)
	group := h.want(http.StatusCreated, "POST", "/Groups", map[string]any{"schemas": []string{coreGroup}, "displayName": "staff"}).at("id")
	const stale, older = "00000000-0000-4000-8000-000000000000", "00000000-0000-4000-8000-000000000001"
	members := []any{
		map[string]any{"value": stale},
		map[string]any{"value": anna},
		map[string]any{"value": older},
		map[string]any{"value": "CN=x"},
	}
	for name, a := range map[string]answer{
		"PATCH": h.do("PATCH", "/Groups/"+group, patch("add", "members", members)),
		"PUT":   h.do("PUT", "/Groups/"+group, map[string]any{"schemas": []string{coreGroup}, "displayName": "staff", "members": members}),
		"POST":  h.do("POST", "/Groups", map[string]any{"schemas": []string{coreGroup}, "displayName": "crew", "members": members}),
	} {
		detail := a.at("detail")
		if a.status != http.StatusBadRequest || !strings.Contains(detail, stale) || !strings.Contains(detail, older) ||
			strings.Contains(detail, anna) || strings.Contains(detail, "CN=x") {
			t.Errorf("%s = %d %s, want 400 with the two unknown ids", name, a.status, a.raw)
		}
	}
	alone := patch("add", "members", []any{map[string]any{"value": anna}, map[string]any{"value": "CN=x"}})
	if a := h.do("PATCH", "/Groups/"+group, alone); a.status != http.StatusBadRequest ||
		!strings.Contains(a.at("detail"), "1 of the values cannot be an id") {
		t.Errorf("PATCH with a value that cannot be an id = %d %s, want 400 with their number", a.status, a.raw)
	}
	if got := h.memberNames(group); got != "" {
		t.Errorf("members = %q after refusals", got)
	}
}

// TestGroupNames: directories call groups as they like.
func TestGroupNames(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	anna := h.add("anna", nil)
	for _, name := range []string{"Sales, EMEA", "Trainees ", " Leads", "Trainees", `Dept\Sales`, "A;B|C", "\u00dcbung \U0001F393"} {
		a := h.want(http.StatusCreated, "POST", "/Groups",
			map[string]any{"schemas": []string{coreGroup}, "displayName": name, "members": []any{map[string]any{"value": anna}}})
		if a.at("displayName") != name {
			t.Errorf("POST %q made %q", name, a.at("displayName"))
		}
		h.want(http.StatusOK, "PUT", "/Groups/"+a.at("id"), map[string]any{"schemas": []string{coreGroup}, "displayName": name})
	}
	for _, name := range []string{" ", "", "a\nb", "a\x00b", strings.Repeat("x", 257)} {
		if a := h.do("POST", "/Groups", map[string]any{"schemas": []string{coreGroup}, "displayName": name}); a.status != http.StatusBadRequest {
			t.Errorf("POST %q = %d, want 400", name, a.status)
		}
	}
}
