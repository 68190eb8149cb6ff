package scim_test

import (
	"net/http"
	"testing"
)

func TestDiscovery(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	c := h.want(http.StatusOK, "GET", "/ServiceProviderConfig", nil)
	for _, feature := range []string{"patch", "bulk", "filter", "changePassword", "sort", "etag"} {
		if c.at(feature, "supported") != "true" {
			t.Errorf("%s: %s", feature, c.at(feature))
		}
	}
	types := h.want(http.StatusOK, "GET", "/ResourceTypes", nil)
	if types.at("totalResults") != "2" || types.at("Resources", 0, "schema") != coreUser || types.at("Resources", 1, "endpoint") != "/Groups" {
		t.Errorf("ResourceTypes: %s", types.raw)
	}
	if one := h.want(http.StatusOK, "GET", "/ResourceTypes/User", nil); one.at("schemaExtensions", 0, "schema") != enterprise {
		t.Errorf("ResourceTypes/User: %s", one.raw)
	}
	schemas := h.want(http.StatusOK, "GET", "/Schemas", nil)
	list, _ := schemas.body["Resources"].([]any)
	if len(list) != 5 {
		t.Errorf("%d schemas, want 5", len(list))
	}
	for i := range list {
		id := schemas.at("Resources", i, "id")
		one := h.want(http.StatusOK, "GET", "/Schemas/"+id, nil)
		attributes, _ := one.body["attributes"].([]any)
		for k := range attributes {
			for _, member := range []string{"name", "type", "multiValued", "required", "mutability", "returned"} {
				if one.at("attributes", k, member) == "" {
					t.Errorf("schema %s: attribute %d has no %s", id, k, member)
				}
			}
		}
	}
	u := h.want(http.StatusOK, "GET", "/Schemas/"+coreUser, nil)
	list, _ = u.body["attributes"].([]any)
	for i := range list {
		if u.at("attributes", i, "name") == "password" &&
			(u.at("attributes", i, "returned") != "never" || u.at("attributes", i, "mutability") != "writeOnly") {
			t.Errorf("password: %s", u.at("attributes", i))
		}
	}
	h.refused(403, "", "GET", "/Schemas?filter=x", nil)
	h.refused(403, "", "GET", "/ResourceTypes?filter=x", nil)
	h.refused(404, "", "GET", "/Schemas/urn:x", nil)
	h.refused(404, "", "GET", "/ResourceTypes/Me", nil)
}
