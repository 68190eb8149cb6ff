package scim_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const bulkURN = "urn:ietf:params:scim:api:messages:2.0:BulkRequest"

func bulk(ops ...map[string]any) map[string]any {
	return map[string]any{"schemas": []string{bulkURN}, "Operations": ops}
}

func op(method, path, bulkID string, data any) map[string]any {
	o := map[string]any{"method": method, "path": path}
	if bulkID != "" {
		o["bulkId"] = bulkID
	}
	if data != nil {
		o["data"] = data
	}
	return o
}

func userData(name string) map[string]any {
	return map[string]any{"schemas": []string{coreUser}, "userName": name}
}

func TestBulk(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	old := h.add("old", nil)
	group := map[string]any{
		"schemas": []string{coreGroup}, "displayName": "staff",
		"members": []any{map[string]any{"type": "User", "value": "bulkId:a"}, map[string]any{"value": "bulkId:b"}},
	}
	a := h.want(http.StatusOK, "POST", "/Bulk", bulk(
		op("POST", "/Groups", "g", group), // names what comes later
		op("POST", "/Users", "a", userData("anna")),
		op("POST", "/Users", "b", userData("ben")),
		op("PATCH", "/Users/bulkId:a", "", patch("add", "title", "Boss")),
		op("PATCH", "/Groups/bulkId:g", "", patch("remove", `members[value eq "bulkId:b"]`, nil)),
		op("PUT", "/Users/"+old, "", userData("older")),
		op("POST", "/Users", "c", userData("ANNA")),
		op("DELETE", "/Users/"+old, "", nil),
		op("DELETE", "/Users/"+old, "", nil),
	))
	var got []string
	list, _ := a.body["Operations"].([]any)
	for i := range list {
		got = append(got, a.at("Operations", i, "method")+" "+a.at("Operations", i, "bulkId")+" "+a.at("Operations", i, "status")+" "+
			a.at("Operations", i, "response", "scimType"))
	}
	want := "POST a 201 |POST b 201 |POST g 201 |PATCH  200 |PATCH  204 |PUT  200 |POST c 409 uniqueness|DELETE  204 |DELETE  404 "
	if strings.Join(got, "|") != want {
		t.Errorf("bulk:\n%s\nwant\n%s", strings.Join(got, "|"), want)
	}
	if !strings.HasPrefix(a.at("Operations", 0, "location"), issuer+"/scim/v2/Users/") || a.at("Operations", 0, "version") == "" {
		t.Errorf("bulk: %s", a.raw)
	}
	if got := h.want(200, "GET", `/Users?filter=groups.display+eq+"staff"`, nil); got.names() != "anna" ||
		got.at("Resources", 0, "title") != "Boss" {
		t.Errorf("after bulk: %s", got.raw)
	}
}

func TestBulkStops(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	body := bulk(op("POST", "/Users", "a", userData("bad name")), op("POST", "/Users", "b", userData("anna")),
		op("POST", "/Users", "c", userData("anna")), op("POST", "/Users", "d", userData("ben")))
	body["failOnErrors"] = 2
	a := h.want(http.StatusOK, "POST", "/Bulk", body)
	if list, _ := a.body["Operations"].([]any); len(list) != 3 {
		t.Errorf("failOnErrors 2: %d answers, want 3: %s", len(list), a.raw)
	}
	if got := h.want(200, "GET", "/Users", nil).names(); got != "anna" {
		t.Errorf("users = %q, want anna", got)
	}
	circle := h.want(http.StatusOK, "POST", "/Bulk", bulk(
		op("PATCH", "/Users/bulkId:y", "x", patch("add", "title", "a")),
		op("PATCH", "/Users/bulkId:x", "y", patch("add", "title", "a")),
		op("PATCH", "/Users/bulkId:nobody", "", patch("add", "title", "a")),
		op("POST", "/Users", "z", userData("carl")),
	))
	for i := range 4 {
		want := "409"
		if circle.at("Operations", i, "bulkId") == "z" {
			want = "201"
		}
		if got := circle.at("Operations", i, "status"); got != want {
			t.Errorf("operations that name each other: %s, want %s: %s", got, want, circle.raw)
		}
	}
}

func TestBadBulks(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	var large []map[string]any
	for i := range 501 {
		large = append(large, op("POST", "/Users", fmt.Sprintf("b%d", i), userData(fmt.Sprintf("p%d", i))))
	}
	h.refused(413, "", "POST", "/Bulk", bulk(large...))
	for name, body := range map[string]any{
		"none":      bulk(),
		"no schema": map[string]any{"Operations": []any{op("POST", "/Users", "a", userData("x"))}},
		"failOnErrors": map[string]any{
			"schemas": []string{bulkURN}, "failOnErrors": -1,
			"Operations": []any{op("POST", "/Users", "a", userData("x"))},
		},
		"failOnErrors 1.5": map[string]any{
			"schemas": []string{bulkURN}, "failOnErrors": 1.5,
			"Operations": []any{op("POST", "/Users", "a", userData("x"))},
		},
	} {
		if a := h.do("POST", "/Bulk", body); a.status != 400 {
			t.Errorf("%s: status %d, want 400: %s", name, a.status, a.raw)
		}
	}
	// A malformed operation is refused alone: those before and after it are done.
	made := 0
	for name, ops := range map[string][]map[string]any{
		"GET":            {op("GET", "/Users", "", nil)},
		"elsewhere":      {op("POST", "/Bulk", "a", nil)},
		"outside":        {op("DELETE", "/../../oauth/token", "a", nil)},
		"query":          {op("DELETE", "/Users/x?y", "a", nil)},
		"deeper":         {op("DELETE", "/Users/x/y", "a", nil)},
		"POST of one":    {op("POST", "/Users/x", "a", nil)},
		"PUT of all":     {op("PUT", "/Users", "a", nil)},
		"no bulkId":      {op("POST", "/Users", "", userData("x"))},
		"a long bulkId":  {op("POST", "/Users", strings.Repeat("x", 65), userData("x"))},
		"bulkId twice":   {op("POST", "/Users", "a", userData("x")), op("POST", "/Users", "a", userData("y"))},
		"unknown member": {{"method": "POST", "path": "/Users", "bulkId": "a", "headers": map[string]any{"X": "y"}}},
		"nothing":        {{}},
	} {
		before, behind := op("POST", "/Users", "first", userData(fmt.Sprintf("first%d", made))),
			op("POST", "/Users", "last", userData(fmt.Sprintf("last%d", made)))
		a := h.want(200, "POST", "/Bulk", bulk(append(append([]map[string]any{before}, ops...), behind)...))
		for i := range len(ops) + 2 {
			want := "400"
			if i == 0 || i == len(ops)+1 {
				want = "201"
				made++
			}
			if got := a.at("Operations", i, "status"); got != want {
				t.Errorf("%s: operation %d has the status %s, want %s: %s", name, i, got, want, a.raw)
			}
		}
	}
	if n := h.want(200, "GET", "/Users", nil).at("totalResults"); n != fmt.Sprint(made) {
		t.Errorf("there are %s users, want %d", n, made)
	}
	if a := h.want(200, "POST", "/Bulk",
		map[string]any{
			"schemas": []string{bulkURN}, "failOnErrors": 1,
			"Operations": []any{7, op("POST", "/Users", "a", userData("x"))},
		}); a.at("Operations", 0, "status") != "400" ||
		a.at("Operations", 1) != "" {
		t.Errorf("failOnErrors with a malformed operation: %s", a.raw)
	}
	// A search is no operation, and what Users/.search would do is not done by DELETE.
	if a := h.want(200, "POST", "/Bulk", bulk(op("DELETE", "/Users/.search", "", nil))); a.at("Operations", 0, "status") != "405" {
		t.Errorf("DELETE of .search: %s", a.raw)
	}
	for _, path := range []string{"/Users/.", "/Users/..", "/Groups/..", "/Users/x%2F..%2F..", "/Users/%2e%2e", "/Users/%00"} {
		a := h.want(200, "POST", "/Bulk", bulk(op("DELETE", path, "", nil)))
		if got := a.at("Operations", 0, "status"); got != "400" && got != "404" {
			t.Errorf("DELETE of %s: status %s, want 400 or 404: %s", path, got, a.raw)
		}
	}
	if n := h.want(200, "GET", "/Users", nil).at("totalResults"); n != fmt.Sprint(made) {
		t.Errorf("refused bulks made users: %s instead of %d", n, made)
	}
}
