package scim

import (
	"encoding/json"
	"testing"
)

// FuzzFilter reads filters and holds what it could read against a user: it ends, and does not panic.
func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		`userName eq "bjensen"`, `name.familyName co "O'Malley"`, `urn:ietf:params:scim:schemas:core:2.0:User:userName sw "J"`,
		`title pr and userType eq "Employee"`,
		`emails[type eq "work" and value co "@example.com"] or ims[type eq "xmpp" and value co "@foo.com"]`,
		`not (meta.lastModified ge "2011-05-13T04:42:34Z")`,
		`userType ne "Employee" and not (emails co "example.com" or emails.value co "example.org")`,
		`urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value eq "1"`,
		`active eq true`, `title eq null`, `((((title pr))))`, `a`, `"`, `emails[`, `userName eq "\ud800"`,
		`urn:gatehouse:params:scim:schemas:extension:2.0:User:customAttributes[name eq "x"]`,
	} {
		f.Add(s)
	}
	user := object{
		"userName": "bjensen", "active": true, "name": object{"familyName": "Jensen"},
		"emails": []any{object{"value": "b@example.com", "type": "work", "primary": true}},
		"meta":   object{"created": "2011-05-13T04:42:34Z"}, enterprise: object{"manager": object{"value": "1"}},
		ourUser: object{"customAttributes": []any{object{"name": "x"}}},
	}
	f.Fuzz(func(t *testing.T, s string) {
		for _, rt := range resourceTypes {
			got, err := parseFilter(rt, s)
			if err != nil {
				if e := asError(err); e.Status != 400 || e.Type != invalidFilter {
					t.Errorf("parseFilter(%q) = %v, want 400 invalidFilter", s, err)
				}
				continue
			}
			got.match(user)
			got.match(object{})
			equals(got, "userName", "")
			looksAt(got, "members")
		}
	})
}

// FuzzPatch applies whatever can be read to a user: what comes of it has the types of the schema.
func FuzzPatch(f *testing.F) {
	for _, s := range []string{
		`[{"op":"add","path":"title","value":"x"}]`, `[{"op":"replace","path":"emails[type eq \"work\"].value","value":"x"}]`,
		`[{"op":"remove","path":"emails"}]`,
		`[{"op":"add","value":{"name":{"givenName":"x"},"emails":[{"value":"a"}]}}]`,
		`[{"op":"remove","path":"emails","value":[{"value":"b@example.com"}]}]`,
		`[{"op":"add","path":"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User:manager.value","value":"x"}]`,
		`[{"op":"add","path":"emails.type","value":null}]`,
		`[{"op":"remove","path":"urn:gatehouse:params:scim:schemas:extension:2.0:User:customAttributes","value":["x"]}]`,
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := parse([]byte(`{"schemas":["` + patchMessage + `"],"Operations":` + s + `}`))
		if err != nil {
			return
		}
		ops, err := new(reader).parsePatch(userType, v)
		if err != nil {
			return
		}
		o := object{
			"schemas": []any{coreUser}, "userName": "x", "emails": []any{object{"value": "b@example.com", "type": "work", "primary": true}},
			"name":  object{"familyName": "y"},
			ourUser: object{"customAttributes": []any{object{"name": "x", "value": "y"}}},
		}
		if err := userType.apply(o, ops); err != nil {
			return
		}
		raw, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parse(raw)
		if err != nil {
			t.Fatalf("patched user %s: %v", raw, err)
		}
		if _, err := new(reader).resource(userType, again); err != nil {
			t.Errorf("patched user %s does not conform: %v", raw, err)
		}
	})
}

// FuzzBody reads whatever is sent as a user.
func FuzzBody(f *testing.F) {
	for _, s := range []string{
		`{"schemas":["` + coreUser + `"],"userName":"x"}`, `{"emails":{"value":1}}`, `[[[[]]]]`, `{"a":1,"A":2}`,
		`{"active":"TRUE"}`, "\xff", `{"name":null}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		v, err := parse(raw)
		if err != nil {
			if e := asError(err); e.Status != 400 {
				t.Errorf("parse(%q) = %v, want 400", raw, err)
			}
			return
		}
		for _, rt := range resourceTypes {
			if _, err := new(reader).resource(rt, v); err != nil && asError(err).Status != 400 {
				t.Errorf("conform(%q) = %v, want 400", raw, err)
			}
		}
	})
}
