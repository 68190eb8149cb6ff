package scim_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
)

const entraGroup = "http://schemas.microsoft.com/2006/11/ResourceManagement/ADSCIM/2.0/Group"

// TestEntraProvisions: the requests of Microsoft Entra's provisioning service.
func TestEntraProvisions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	made := h.want(http.StatusCreated, "POST", "/Users", `{"schemas":["`+coreUser+`","`+enterprise+`","urn:ietf:params:scim:schemas:extension:Site:2.0:User"],
		"externalId":"0a21f0f2-8d2a-4f8e-bf98-7363c4aed4ef","userName":"ines@example.com","active":true,"displayName":"Ines Perez","title":null,"roles":[],
		"emails":[{"primary":true,"type":"work","value":"ines@example.com"}],"meta":{"resourceType":"User"},
		"name":{"formatted":"Ines Perez","familyName":"Perez","givenName":"Ines"},
		"urn:ietf:params:scim:schemas:extension:Site:2.0:User":{"badge":"7"},
		"`+enterprise+`":{"department":"Sales","manager":[{"$ref":"https://hr.example/Users/1","value":"m-1"}]}}`)
	id := made.at("id")
	if made.at(enterprise, "manager", "value") != "m-1" || strings.Contains(made.raw, "badge") {
		t.Errorf("POST of a user: %s", made.raw)
	}
	for i, body := range []any{
		patch("Replace", enterprise+":manager", []any{map[string]any{"$ref": "https://hr.example/Users/2", "value": "m-2"}}),
		patch("Add", "urn:ietf:params:scim:schemas:extension:Site:2.0:User:badge", "8", "Replace", enterprise+":manager", "m-2"),
		patch("Replace", "", map[string]any{"urn:x:Site:badge": "9", enterprise + ":manager": []any{map[string]any{"value": "m-2"}}}),
	} {
		if got := h.want(http.StatusOK, "PATCH", "/Users/"+id, body); got.at(enterprise, "manager", "value") != "m-2" {
			t.Errorf("PATCH %d: %s", i, got.raw)
		}
	}
	if got := h.want(http.StatusOK, "PATCH", "/Users/"+id, patch("Replace", enterprise+":manager", []any{"m-1", "m-3"})); got.at(enterprise,
		"manager", "value") != "m-2" {
		t.Errorf("PATCH with two managers: %s", got.raw)
	}
	group := h.want(http.StatusCreated, "POST", "/Groups",
		`{"schemas":["`+coreGroup+`","`+entraGroup+
			`"],"externalId":"8aa1a0c0","displayName":"Sales","members":[],"meta":{"resourceType":"Group"}}`)
	if got := group.at("schemas"); strings.Contains(got, "microsoft") {
		t.Errorf("schemas of the group = %s, want ours alone", got)
	}
	h.want(http.StatusNoContent, "PATCH", "/Groups/"+group.at("id"), patch("Add", "members", []any{map[string]any{"$ref": nil, "value": id}}))
	if got := h.memberNames(group.at("id")); got != "Ines Perez" {
		t.Errorf("members = %q", got)
	}
	for _, schemas := range []string{
		`"` + coreUser + `"`, `"` + coreGroup + `","` + coreUser + `"`, `"` + coreGroup + `","no uri"`,
		`"` + coreGroup + `",7`,
	} {
		if a := h.do("POST", "/Groups", `{"schemas":[`+schemas+`],"displayName":"x"}`); a.status != 400 {
			t.Errorf("a group of the schemas %s: status %d, want 400", schemas, a.status)
		}
	}
	for _, a := range []answer{
		h.want(http.StatusOK, "PUT", "/Users/"+id, user(`"userName":"ines@example.com","`+ours+`:initials":"X"`)),
		h.want(http.StatusOK, "PATCH", "/Users/"+id, patch("add", enterprise+":salary", "1")),
	} {
		if a.header.Get("Gatehouse-Left-Out") == "" || a.at(ours, "initials") != "" {
			t.Errorf("what is not known is kept, or not named: %s", a.raw)
		}
	}
}

func TestFilterByValuePath(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	mail := func(kind, value string) any { return map[string]any{"type": kind, "value": value} }
	h.add("anna", map[string]any{"emails": []any{mail("work", "anna@example.com"), mail("home", "a@home.example")}})
	h.add("ben", map[string]any{"emails": []any{mail("home", "ben@example.com")}})
	h.add("carla", map[string]any{ours: map[string]any{"customAttributes": []any{map[string]any{"name": "floor", "value": "3"}}}})
	for filter, want := range map[string]string{
		`emails[type eq "work"].value eq "ANNA@example.com"`:              "anna",
		`emails[type eq "work"].value eq "ben@example.com"`:               "",
		`emails[type eq "home"].value eq "anna@example.com"`:              "",
		`emails[type eq "work"].value ne "anna@example.com"`:              "ben carla",
		`emails[type eq "work"].value pr`:                                 "anna",
		`emails[type eq "work"].value eq null`:                            "ben carla",
		`emails[type eq "home"].value ne null`:                            "anna ben",
		`not (emails[type eq "work"].value pr)`:                           "ben carla",
		`(emails[type eq "home"].value sw "ben") and userName eq "ben"`:   "ben",
		`emails[type eq "work" or type eq "home"].value co "home"`:        "anna",
		ours + `:customAttributes[name eq "floor"].value eq "3"`:          "carla",
		`userName eq "x" or emails[type eq "home"].value ew "ME.EXAMPLE"`: "anna",
	} {
		if got := h.want(http.StatusOK, "GET", "/Users?filter="+url.QueryEscape(filter), nil).names(); got != want {
			t.Errorf("filter %s finds %q, want %q", filter, got, want)
		}
	}
	for _, filter := range []string{
		`emails[type eq "work"].`, `emails[type eq "work"].nothing eq "x"`, `emails[type eq "work"].value`, `emails[type eq "work"].value is "x"`,
		`emails[type eq "work"]value eq "x"`, `emails[type eq "work"].value.x eq "x"`, `emails[type eq "work"].value[type eq "x"]`,
		`emails[type eq "work"].primary gt true`,
	} {
		h.refused(400, "invalidFilter", "GET", "/Users?filter="+url.QueryEscape(filter), nil)
	}
}

// TestValuePathUsesTheIndex: the question that Entra asks before each person does not wait for a scan of everybody.
func TestValuePathUsesTheIndex(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.add("anna", map[string]any{"emails": []any{map[string]any{"type": "work", "value": "anna@example.com"}}})
	h.NoScans()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	filter := url.QueryEscape(`emails[type eq "work"].value eq "anna@example.com"`)
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, issuer+"/scim/v2/Users?filter="+filter, nil)
	r.Header.Set("Authorization", "Bearer good")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"totalResults":1`) {
		t.Errorf("status %d %s, want one person", w.Code, w.Body)
	}
}
