package scim_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/identity/invitation"
	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/authn"
	"github.com/gatehouse-id/gatehouse/storage"
)

// fullUser is the person of RFC 7643 8.3.
const fullUser = `{
	"schemas": ["urn:ietf:params:scim:schemas:core:2.0:User", "urn:ietf:params:scim:schemas:extension:enterprise:2.0:User"],
	"externalId": "701984", "userName": "bjensen@example.com", "password": "correct horse 1",
	"name": {"formatted": "Ms. Barbara J Jensen, III", "familyName": "Jensen", "givenName": "Barbara", "middleName": "Jane", "honorificPrefix": "Ms.", "honorificSuffix": "III"},
	"displayName": "Babs Jensen", "nickName": "Babs", "profileUrl": "https://login.example.com/bjensen",
	"emails": [{"value": "bjensen@example.com", "type": "work", "primary": true}, {"value": "babs@jensen.org", "type": "home"}],
	"addresses": [{"type": "work", "streetAddress": "100 Universal City Plaza", "locality": "Hollywood", "region": "CA", "postalCode": "91608", "country": "US", "primary": true}],
	"phoneNumbers": [{"value": "555-555-5555", "type": "work"}, {"value": "tel:+1-201-555-0123", "type": "mobile", "primary": true}],
	"ims": [{"value": "someaimhandle", "type": "aim"}],
	"photos": [{"value": "https://photos.example.com/profilephoto/72930000000Ccne/F", "type": "photo"}],
	"userType": "Employee", "title": "Tour Guide", "preferredLanguage": "en-US", "locale": "en-US", "timezone": "America/Los_Angeles", "active": true,
	"roles": [{"value": "guide"}], "entitlements": [{"value": "parking"}], "x509Certificates": [{"value": "MIIDQzCCAqyg"}],
	"urn:ietf:params:scim:schemas:extension:enterprise:2.0:User": {"employeeNumber": "701984", "costCenter": "4130", "organization": "Universal Studios",
		"division": "Theme Park", "department": "Tour Operations", "manager": {"value": "26118915-6090-4610-87e4-49d8ca9f808d"}},
	"urn:gatehouse:params:scim:schemas:extension:2.0:User": {"initials": "BJ", "gender": "F", "dateOfBirth": "1980-02-29", "referenceId": "r-1",
		"customAttributes": [{"name": "shoe_size", "value": "38"}]}
}`

func TestUserIsGivenBack(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	made := h.want(http.StatusCreated, "POST", "/Users", fullUser)
	id := made.at("id")
	if made.header.Get("Location") != issuer+"/scim/v2/Users/"+id || made.at("meta", "location") != made.header.Get("Location") ||
		made.header.Get("ETag") != made.at("meta", "version") {
		t.Errorf("POST: Location %q, ETag %q, meta %s", made.header.Get("Location"), made.header.Get("ETag"), made.at("meta"))
	}
	got := h.want(http.StatusOK, "GET", "/Users/"+id, nil)
	for want, path := range map[string][]any{
		"701984":                               {"externalId"},
		"bjensen@example.com":                  {"emails", 0, "value"},
		"home":                                 {"emails", 1, "type"},
		"Jensen":                               {"name", "familyName"},
		"Ms. Barbara J Jensen, III":            {"name", "formatted"},
		"Babs Jensen":                          {"displayName"},
		"100 Universal City Plaza":             {"addresses", 0, "streetAddress"},
		"US":                                   {"addresses", 0, "country"},
		"tel:+1-201-555-0123":                  {"phoneNumbers", 1, "value"},
		"someaimhandle":                        {"ims", 0, "value"},
		"America/Los_Angeles":                  {"timezone"},
		"true":                                 {"active"},
		"guide":                                {"roles", 0, "value"},
		"parking":                              {"entitlements", 0, "value"},
		"MIIDQzCCAqyg":                         {"x509Certificates", 0, "value"},
		"Tour Operations":                      {enterprise, "department"},
		"26118915-6090-4610-87e4-49d8ca9f808d": {enterprise, "manager", "value"},
		"1980-02-29":                           {ours, "dateOfBirth"},
		"38":                                   {ours, "customAttributes", 0, "value"},
		"ACTIVE":                               {ours, "state"},
		"User":                                 {"meta", "resourceType"},
		"":                                     {"password"},
	} {
		if v := got.at(path...); v != want {
			t.Errorf("GET: %v is %q, want %q", path, v, want)
		}
	}
	if strings.Contains(got.raw, "password") {
		t.Error("GET tells of the password")
	}
	again := h.want(http.StatusOK, "PUT", "/Users/"+id, got.raw)
	if again.raw != got.raw {
		t.Errorf("PUT of what GET answered changes it:\n%s\n%s", got.raw, again.raw)
	}
	if _, err := h.identity.CheckPassword(t.Context(), "c", "bjensen@example.com", password, audit.Origin{}); err != nil {
		t.Errorf("CheckPassword after POST and PUT without a password: %v, want nil", err)
	}
	h.checkLogs()
}

func TestProfileOfUser(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.want(http.StatusCreated, "POST", "/Users", fullUser).at("id")
	var sub authn.Subject
	var p person.Profile
	err := h.store.View(t.Context(), func(tx storage.Tx) (err error) {
		if sub, err = h.identity.Person.Get(tx, id); err == nil {
			p, err = h.identity.Person.Profile(tx, id)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for claim, want := range map[string]string{
		"name": "Babs Jensen", "given_name": "Barbara", "family_name": "Jensen", "middle_name": "Jane", "nickname": "Babs",
		"email":          "bjensen@example.com",
		"email_verified": "true", "phone_number": "+1-201-555-0123", "phone_number_verified": "false",
		"birthdate": "1980-02-29", "gender": "female",
		"address": "100 Universal City Plaza\n91608 Hollywood\nCA\nUS", "zoneinfo": "America/Los_Angeles", "locale": "en-US",
		"picture": "https://photos.example.com/profilephoto/72930000000Ccne/F", "profile": "https://login.example.com/bjensen",
	} {
		if sub.Profile[claim] != want {
			t.Errorf("claim %s = %q, want %q", claim, sub.Profile[claim], want)
		}
	}
	if p.Name.Initials != "BJ" || p.ReferenceID != "r-1" || len(p.EmailAddresses) != 2 || p.EmailAddresses[1].Verified ||
		p.CustomAttributes[0].Name != "shoe_size" {
		t.Errorf("Profile = %+v", p)
	}
}

func TestUserErrors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("taken", nil)
	h.refused(409, "uniqueness", "POST", "/Users", `{"schemas":["`+coreUser+`"],"userName":"TAKEN"}`)
	h.refused(404, "", "GET", "/Users/2819c223-7f76-453a-919d-413861904646", nil)
	h.refused(404, "", "GET", "/Users/taken", nil)
	h.refused(404, "", "DELETE", "/Users/%00", nil)
	h.refused(404, "", "GET", "/Nothing", nil)
	h.refused(405, "", "PATCH", "/Users", nil)
	h.refused(405, "", "POST", "/Users/"+id, `{}`)
	for body, scimType := range map[string]string{
		`{`: "invalidSyntax", `[]`: "invalidSyntax", `"x"`: "invalidSyntax", ``: "invalidSyntax", `{} {}`: "invalidSyntax",
		`{"userName":"x"}`: "invalidSyntax", `{"schemas":["urn:x"],"userName":"x"}`: "invalidSyntax",
		`{"schemas":["` + coreUser + `","` + coreGroup + `"],"userName":"x"}`: "invalidValue",
		`{"schemas":["` + coreUser + `"]}`:                                    "invalidValue",
		user(`"userName":""`):                                                 "invalidValue",
		user(`"userName":"with space"`):                                       "invalidValue",
		user(`"userName":["a"]`):                                              "invalidValue",
		user(`"userName":7`):                                                  "invalidValue",
		user(`"userName":"x","active":"perhaps"`):                             "invalidValue",
		user(`"userName":"x","emails":[{"value":"nobody"}]`):                  "invalidValue",
		user(`"userName":"x","password":"short"`):                             "invalidValue",
	} {
		h.refused(400, scimType, "POST", "/Users", body)
	}
	if n := h.want(200, "GET", "/Users", nil).at("totalResults"); n != "1" {
		t.Errorf("after refused requests there are %s users, want 1", n)
	}
}

// user is a resource of these members.
func user(members string) string { return `{"schemas":["` + coreUser + `"],` + members + `}` }

func TestUserChanges(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("anna", map[string]any{"password": password, "name": map[string]any{"givenName": "Anna", "familyName": "Berg"}})
	other := h.add("other", nil)
	at := "/Users/" + id
	if got := h.want(200, "GET", at, nil).at("displayName"); got != "Anna Berg" {
		t.Errorf("displayName = %q, want it made of the names", got)
	}
	if got := h.want(200, "PATCH", at, patch("replace", "name.familyName", "Tal")).at("displayName"); got != "Anna Tal" {
		t.Errorf("displayName after a change of the name = %q, want Anna Tal", got)
	}
	h.refused(409, "uniqueness", "PATCH", at, patch("replace", "userName", "OTHER"))
	if got := h.want(200, "PATCH", at, patch("replace", "userName", "anni")).at("userName"); got != "anni" {
		t.Errorf("userName = %q, want anni", got)
	}
	h.want(201, "POST", "/Users", user(`"userName":"anna"`)) // the old name is free
	h.want(200, "PATCH", at, patch("replace", "userName", "ANNI"))
	if got := h.want(200, "GET", `/Users?filter=userName+eq+"anni"`, nil).names(); got != "ANNI" {
		t.Errorf("found %q, want ANNI", got)
	}
	h.want(200, "PUT", "/Users/"+other, user(`"userName":"other","password":"another horse 2"`))
	if _, err := h.identity.CheckPassword(t.Context(), "c", "other", "another horse 2", audit.Origin{}); err != nil {
		t.Errorf("CheckPassword after PUT: %v, want nil", err)
	}
	h.want(200, "PATCH", "/Users/"+other, patch("replace", "", map[string]any{"password": "a third horse 3", "title": "Boss"}))
	if _, err := h.identity.CheckPassword(t.Context(), "c", "other", "another horse 2", audit.Origin{}); !errors.Is(err,
		authn.ErrBadCredentials) {
		t.Errorf("CheckPassword with the old password: %v, want %v", err, authn.ErrBadCredentials)
	}
	h.checkLogs("another horse 2", "a third horse 3")
}

func TestActive(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("anna", map[string]any{"password": password})
	check := func(want error) {
		t.Helper()
		if _, err := h.identity.CheckPassword(t.Context(), "c", "anna", password, audit.Origin{ClientIP: "203.0.113.7"}); !errors.Is(err, want) {
			t.Errorf("CheckPassword: %v, want %v", err, want)
		}
	}
	epoch := func() (n int64, active bool) {
		err := h.store.View(t.Context(), func(tx storage.Tx) error {
			sub, err := h.identity.Person.Get(tx, id)
			n, active = sub.Epoch, sub.Active
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n, active
	}
	check(nil)
	before, _ := epoch()
	a := h.want(200, "PATCH", "/Users/"+id, patch("Replace", "active", "False"))
	if a.at("active") != "false" || a.at(ours, "state") != "BLOCKED" {
		t.Errorf("after active false: %s", a.raw)
	}
	if after, active := epoch(); active || after == before {
		t.Errorf("epoch %d after %d, active %t: want a new epoch and inactive", after, before, active)
	}
	check(authn.ErrBadCredentials)
	h.want(200, "PUT", "/Users/"+id, user(`"userName":"anna","active":true`))
	check(nil)
	born := h.want(201, "POST", "/Users", user(`"userName":"later","active":false,"password":"`+password+`"`))
	if born.at("active") != "false" || born.at(ours, "state") != "INACTIVE" {
		t.Errorf("born inactive: %s", born.raw)
	}
}

func TestETags(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	id := h.add("anna", nil)
	group := h.addGroup("staff", id)
	for _, at := range []string{"/Users/" + id, "/Groups/" + group} {
		tag := h.want(200, "GET", at, nil).header.Get("ETag")
		h.header.Set("If-None-Match", tag)
		if a := h.want(304, "GET", at, nil); a.raw != "" || a.header.Get("ETag") != tag {
			t.Errorf("GET %s with If-None-Match: body %q, ETag %q", at, a.raw, a.header.Get("ETag"))
		}
		h.header.Del("If-None-Match")
		h.header.Set("If-Match", tag)
		h.want(200, "PATCH", at+"?attributes=externalId", patch("add", "externalId", "e-"+at))
		h.refused(412, "", "PATCH", at, patch("add", "externalId", "lost"))
		h.refused(412, "", "DELETE", at, nil)
		h.header.Set("If-Match", `W/"other", *`)
		if got := h.want(200, "PATCH", at+"?attributes=externalId", patch("replace", "externalId", "kept")).at("externalId"); got != "kept" {
			t.Errorf("externalId = %q, want kept", got)
		}
		h.header.Del("If-Match")
		h.header.Set("If-None-Match", "*")
		h.refused(412, "", "DELETE", at, nil)
		h.header.Del("If-None-Match")
	}
	before := h.want(200, "GET", "/Groups/"+group, nil).header.Get("ETag")
	h.want(204, "PATCH", "/Groups/"+group, patch("remove", `members[value eq "`+id+`"]`, nil))
	if after := h.want(200, "GET", "/Groups/"+group, nil).header.Get("ETag"); after == before {
		t.Error("the group's version is the same after a member left")
	}
}

func TestDeletedUser(t *testing.T) {
	t.Parallel()
	t.Run("attack 269: a person of the same name gets nothing of the one before", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		id := h.add("anna@example.com", map[string]any{"password": password, "externalId": "e1"})
		group := h.addGroup("staff", id)
		h.want(204, "DELETE", "/Users/"+id, nil)
		h.refused(404, "", "GET", "/Users/"+id, nil)
		h.refused(404, "", "DELETE", "/Users/"+id, nil)
		h.refused(404, "", "PATCH", "/Users/"+id, patch("replace", "active", true))
		fresh := h.add("anna@example.com", nil)
		if fresh == id {
			t.Error("the new person has the old id")
		}
		got := h.want(200, "GET", "/Users/"+fresh, nil)
		if got.at("groups") != "" || got.at("externalId") != "" {
			t.Errorf("the new person has %s", got.raw)
		}
		if n := h.want(200, "GET", "/Groups/"+group, nil).at("members"); n != "" {
			t.Errorf("members = %s, want none", n)
		}
		if _, err := h.identity.CheckPassword(t.Context(), "c", "anna@example.com", password, audit.Origin{}); !errors.Is(err,
			authn.ErrBadCredentials) {
			t.Errorf("CheckPassword with the old person's password: %v, want %v", err, authn.ErrBadCredentials)
		}
		if err := h.identity.Person.SetState(t.Context(), id, person.Active, audit.Actor{}); !errors.Is(err, person.ErrNoPerson) {
			t.Errorf("SetState of the removed person: %v, want %v", err, person.ErrNoPerson)
		}
		for _, filter := range []string{`externalId+eq+"e1"`, `id+eq+"` + id + `"`} {
			if n := h.want(200, "GET", "/Users?filter="+filter, nil).at("totalResults"); n != "0" {
				t.Errorf("filter %s finds %s, want 0", filter, n)
			}
		}
	})
}

// TestPreferredLanguage: pages speak the language of a person whose directory knows no locale.
func TestPreferredLanguage(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for sent, want := range map[string]string{
		`"preferredLanguage":"nl-NL"`:                  "nl-NL",
		`"preferredLanguage":"nl-NL","locale":"de-DE"`: "de-DE",
		`"preferredLanguage":"nl-NL,en;q=0.5"`:         "",
	} {
		a := h.want(201, "POST", "/Users", user(`"userName":"p`+want+`",`+sent))
		var p person.Profile
		err := h.store.View(t.Context(), func(tx storage.Tx) (err error) {
			p, err = h.identity.Person.Profile(tx, a.at("id"))
			return err
		})
		if err != nil || p.PreferredLocale != want || a.at("preferredLanguage") == "" {
			t.Errorf("%s: preferred_locale %q, %v, want %q: %s", sent, p.PreferredLocale, err, want, a.raw)
		}
	}
}

// TestInvitedPerson: only the person accepts an invitation. A directory that lists them as active changes the rest.
func TestInvitedPerson(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.units.Features.AcceptingInvitationEnabled = true
	made, err := h.identity.Invitation.Invite(t.Context(), invitation.NewInvitation{Email: "bob@example.com"}, audit.Actor{ID: "ops"})
	if err != nil {
		t.Fatal(err)
	}
	at := "/Users/" + made.PersonID
	put := h.want(200, "PUT", at, user(`"userName":"bob@example.com","active":true,"title":"Clerk","emails":[{"value":"bob@example.com"}]`))
	for _, a := range []answer{put, h.want(200, "PATCH", at, patch("replace", "active", true))} {
		if a.at(ours, "state") != "INVITED" || a.at("active") != "false" || a.at("title") != "Clerk" {
			t.Errorf("someone invited, active by the directory: %s", a.raw)
		}
	}
	h.want(200, "PATCH", at, patch("replace", "active", false))
	if a := h.want(200, "GET", at, nil); a.at(ours, "state") != "INVITED" {
		t.Errorf("someone invited, not active by the directory: %s", a.raw)
	}
}
