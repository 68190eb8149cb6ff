package scim_test

import (
	"net/http"
	"sort"
	"strings"
	"testing"
)

func sorted(of []string) string { sort.Strings(of); return strings.Join(of, " ") }

func TestPatch(t *testing.T) {
	t.Parallel()
	work := map[string]any{"value": "w@b.example", "type": "work", "primary": true}
	home := map[string]any{"value": "h@b.example", "type": "home"}
	for name, c := range map[string]struct {
		ops  []any
		path []any
		want string
	}{
		"add a text":                       {[]any{"add", "title", "Boss"}, []any{"title"}, "Boss"},
		"replace a text that is not there": {[]any{"replace", "nickName", "Nick"}, []any{"nickName"}, "Nick"},
		"remove a text":                    {[]any{"add", "title", "Boss", "remove", "title", nil}, []any{"title"}, ""},
		"null is no value":                 {[]any{"add", "title", "Boss", "replace", "", map[string]any{"title": nil}}, []any{"title"}, ""},
		"a sub-attribute":                  {[]any{"add", "name.givenName", "Ann"}, []any{"name"}, `{"familyName":"Berg","givenName":"Ann"}`},
		"others stay": {
			[]any{"replace", "name", map[string]any{"givenName": "Ann"}},
			[]any{"name"},
			`{"familyName":"Berg","givenName":"Ann"}`,
		},
		"remove a sub-attribute":  {[]any{"remove", "name.familyName", nil}, []any{"name"}, ""},
		"no path":                 {[]any{"add", "", map[string]any{"title": "Boss", "NICKNAME": "Nick"}}, []any{"nickName"}, "Nick"},
		"no path, a path as name": {[]any{"replace", "", map[string]any{"name.givenName": "Ann"}}, []any{"name", "givenName"}, "Ann"},
		"read-only without a path": {
			[]any{"replace", "", map[string]any{"id": "x", "groups": []any{}, "title": "Boss"}},
			[]any{"title"},
			"Boss",
		},
		"an extension's": {[]any{"add", enterprise + ":department", "Sales"}, []any{enterprise, "department"}, "Sales"},
		"an extension": {
			[]any{"add", "", map[string]any{enterprise: map[string]any{"department": "Sales"}}},
			[]any{enterprise, "department"},
			"Sales",
		},
		"an extension's complex": {
			[]any{"add", enterprise + ":manager", map[string]any{"value": "m-1"}},
			[]any{enterprise, "manager", "value"},
			"m-1",
		},
		"a sub-attribute of that": {[]any{"add", enterprise + ":manager.value", "m-2"}, []any{enterprise, "manager", "value"}, "m-2"},
		"a manager as a text":     {[]any{"add", enterprise + ":manager", "m-3"}, []any{enterprise, "manager", "value"}, "m-3"},
		"no manager": {
			[]any{"add", enterprise + ":manager", "m-3", "replace", enterprise + ":manager", ""},
			[]any{enterprise},
			"",
		},
		"nothing of an extension": {
			[]any{"add", enterprise + ":department", "x", "remove", enterprise + ":department", nil},
			[]any{enterprise},
			"",
		},
		"one more value":                {[]any{"add", "emails", []any{home}}, []any{"emails", 1, "type"}, "home"},
		"one more value, not in a list": {[]any{"add", "emails", home}, []any{"emails", 1, "type"}, "home"},
		"a value that is there":         {[]any{"add", "emails", work}, []any{"emails", 1}, ""},
		"all values":                    {[]any{"replace", "emails", []any{home}}, []any{"emails", 0, "type"}, "home"},
		"no values":                     {[]any{"replace", "emails", []any{}}, []any{"emails"}, ""},
		"remove all values":             {[]any{"remove", "emails", nil}, []any{"emails"}, ""},
		"a new primary one": {
			[]any{"add", "emails", map[string]any{"value": "n@b.example", "primary": true}},
			[]any{"emails", 0, "primary"},
			"",
		},
		"one of the values": {
			[]any{"add", "emails", home, "replace", `emails[type eq "home"].value`, "new@b.example"},
			[]any{"emails", 1, "value"},
			"new@b.example",
		},
		"the whole of one value": {
			[]any{"replace", `emails[type eq "work"]`, map[string]any{"value": "new@b.example"}},
			[]any{"emails", 0},
			`{"primary":true,"type":"work","value":"new@b.example"}`,
		},
		"one that is not there is made": {
			[]any{"add", `emails[type eq "other"].value`, "o@b.example"},
			[]any{"emails", 1},
			`{"type":"other","value":"o@b.example"}`,
		},
		"remove one of the values": {
			[]any{"add", "emails", home, "remove", `emails[type eq "work"]`, nil},
			[]any{"emails", 0, "type"},
			"home",
		},
		"remove what is not there": {[]any{"remove", `emails[type eq "pager"]`, nil}, []any{"emails", 0, "type"}, "work"},
		"remove values by value": {
			[]any{"add", "emails", home, "remove", "emails", []any{map[string]any{"value": "w@b.example"}}},
			[]any{"emails", 0, "type"},
			"home",
		},
		"remove a value's sub-attribute": {
			[]any{"remove", `emails[type eq "work"].type`, nil},
			[]any{"emails", 0},
			`{"primary":true,"value":"w@b.example"}`,
		},
		"sub-attribute of all": {[]any{"replace", "emails.type", "other"}, []any{"emails", 0, "type"}, "other"},
		"path with the schema": {[]any{"add", coreUser + ":title", "Boss"}, []any{"title"}, "Boss"},
		"condition with and": {
			[]any{"replace", `emails[type eq "work" and primary eq true].value`, "x@b.example"},
			[]any{"emails", 0, "value"},
			"x@b.example",
		},
		"custom attributes": {
			[]any{"add", ours + ":customAttributes", []any{map[string]any{"name": "floor", "value": "3"}}},
			[]any{ours, "customAttributes", 0, "value"},
			"3",
		},
		"one of the custom attributes": {
			[]any{"add", ours + `:customAttributes[name eq "floor"].value`, "4"},
			[]any{ours, "customAttributes", 0, "value"},
			"4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHarness(t)
			id := h.add("anna", map[string]any{"name": map[string]any{"familyName": "Berg"}, "emails": []any{work}})
			if got := h.want(http.StatusOK, "PATCH", "/Users/"+id, patch(c.ops...)).at(c.path...); got != c.want {
				t.Errorf("%v is %s, want %s", c.path, got, c.want)
			}
		})
	}
}

func TestBadPatches(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("anna", map[string]any{"title": "Boss", "emails": []any{map[string]any{"value": "w@b.example", "type": "work"}}})
	before := h.want(http.StatusOK, "GET", "/Users/"+id, nil).raw
	for name, c := range map[string]struct {
		scimType string
		body     any
	}{
		"no operations": {"invalidSyntax", patch()},
		"no schema": {
			"invalidSyntax",
			map[string]any{"Operations": []any{map[string]any{"op": "add", "path": "title", "value": "x"}}},
		},
		"unknown op": {"invalidSyntax", patch("move", "title", "x")},
		"unknown member": {
			"invalidSyntax",
			map[string]any{
				"schemas":    []string{patchOp},
				"Operations": []any{map[string]any{"op": "add", "path": "title", "value": "x", "from": "y"}},
			},
		},
		"too many":                {"invalidSyntax", patch(many("add", "title", "x", 1001)...)},
		"no value":                {"invalidValue", patch("add", "title", nil)},
		"remove without a path":   {"noTarget", patch("remove", "", nil)},
		"remove what is required": {"mutability", patch("remove", "userName", nil)},
		"an empty userName":       {"invalidValue", patch("replace", "userName", "")},
		"read-only id":            {"mutability", patch("replace", "id", "x")},
		"read-only groups":        {"mutability", patch("add", "groups", []any{map[string]any{"value": "x"}})},
		"read-only meta":          {"mutability", patch("replace", "meta.created", "2020-01-01T00:00:00Z")},
		"read-only verified":      {"mutability", patch("replace", ours+":emailVerified", true)},
		"read-only state":         {"mutability", patch("replace", ours+":state", "ACTIVE")},
		"brackets at a text":      {"invalidPath", patch("add", `title[value eq "x"]`, "x")},
		"brackets not closed":     {"invalidPath", patch("add", `emails[type eq "work"`, "x")},
		"a bad condition":         {"invalidFilter", patch("add", `emails[type is "work"].value`, "x")},
		"more after the path":     {"invalidPath", patch("add", "title or", "x")},
		"nothing meets it":        {"noTarget", patch("replace", `emails[type eq "home"]`, map[string]any{"value": "x@b.example"})},
		"nothing to make it of":   {"noTarget", patch("add", `emails[type ne "work"].value`, "x@b.example")},
		"no value whose type":     {"noTarget", patch("add", "phoneNumbers.type", "x")},
		"wrong type":              {"invalidValue", patch("replace", "active", 1)},
		"a text for the resource": {"invalidValue", patch("replace", "", "x")},
		"path is no text": {
			"invalidPath",
			map[string]any{"schemas": []string{patchOp}, "Operations": []any{map[string]any{"op": "add", "path": 7, "value": "x"}}},
		},
		"the second fails": {
			"invalidValue",
			patch("replace", "title", "Lost", "replace", "emails", []any{map[string]any{"value": "nobody"}}),
		},
		"a short password": {"invalidValue", patch("replace", "password", "short")},
		"path bomb":        {"invalidPath", patch("add", strings.Repeat("emails[", 2000), "x")},
	} {
		t.Run(name, func(t *testing.T) { h.refused(400, c.scimType, "PATCH", "/Users/"+id, c.body) })
	}
	if after := h.want(http.StatusOK, "GET", "/Users/"+id, nil).raw; after != before {
		t.Errorf("refused patches changed the user:\n%s\n%s", before, after)
	}
}

func many(op, path, value string, n int) (out []any) {
	for range n {
		out = append(out, op, path, value)
	}
	return out
}
