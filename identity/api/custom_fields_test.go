package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/gatehouse-id/gatehouse/identity/person"
	"github.com/gatehouse-id/gatehouse/identity/scim"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/audit"
)

// TestCustomFieldsComeOut: what a person has typed into the custom fields at sign-up is in the
// profile that the credentials API gives, and in SCIM.
func TestCustomFieldsComeOut(t *testing.T) {
	t.Parallel()
	h := newPeople(t)
	h.set(func(u *settings.Units) {
		u.Features.SignUpEnabled = true
		u.LoginMethods.LoginMethods = []settings.LoginMethod{{
			ID: settings.OwnMethod, Type: settings.TypePassword, Enabled: true,
			CustomAttributeFields: []settings.CustomAttributeField{
				{ID: "team", Name: "Team", Type: settings.FieldText},
				{ID: "shoe_size", Name: "Shoe size", Type: settings.FieldNumber},
				{ID: "news", Name: "Newsletter", Type: settings.FieldCheckbox},
			},
		}}
	})
	h.signUp("new@example.com", "an orderly sort of pass 9", "custom.team", `Reds "&" <b>`, "custom.shoe_size", "43,5", "custom.news", "true")
	want := []person.CustomAttribute{{Name: "team", Value: `Reds "&" <b>`}, {Name: "shoe_size", Value: "43.5"}, {Name: "news", Value: "true"}}

	var profile person.Profile
	a := h.validate("new@example.com", "an orderly sort of pass 9")
	if err := json.Unmarshal(a.Body.Bytes(), &profile); err != nil || a.status() != http.StatusOK ||
		!slices.Equal(profile.CustomAttributes, want) {
		t.Errorf("validate = %d %s, %v", a.status(), a.Body, err)
	}

	server, err := scim.New(scim.Deps{
		Identity: h.persons, Issuer: issuer, Log: zap.NewNop(),
		Authorize: func(*http.Request) (scim.Caller, error) { return scim.Caller{Actor: audit.Actor{ID: "hr"}}, nil },
		Enabled:   func(context.Context) (bool, error) { return true, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	server.ServeHTTP(w, httptest.NewRequest(http.MethodGet, issuer+"/scim/v2/Users/"+h.person("new@example.com"), nil))
	var user struct {
		Ours struct {
			Custom []person.CustomAttribute `json:"customAttributes"`
		} `json:"urn:gatehouse:params:scim:schemas:extension:2.0:User"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &user); err != nil || w.Code != http.StatusOK || !slices.Equal(user.Ours.Custom, want) {
		t.Errorf("SCIM = %d %s, %v", w.Code, w.Body, err)
	}
}

// signUp sends the form of the sign-up page.
func (h *people) signUp(email, password string, fields ...string) {
	h.Helper()
	cookies := map[string]string{}
	send := func(method, target string, form url.Values) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, issuer+target, strings.NewReader(form.Encode()))
		if method == http.MethodPost {
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		for name, value := range cookies {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		w := httptest.NewRecorder()
		h.persons.ServeHTTP(w, r)
		for _, c := range w.Result().Cookies() {
			cookies[c.Name] = c.Value
		}
		return w
	}
	page := send(http.MethodGet, "/sign-up", nil).Body.String()
	found := regexp.MustCompile(`(?s)<form method="post" action="([^"]*)".*name="csrf" value="([^"]*)"`).FindStringSubmatch(page)
	if found == nil {
		h.Fatalf("no form:\n%s", page)
	}
	form := url.Values{"csrf": {found[2]}, "email": {email}, "password": {password}}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	if w := send(http.MethodPost, strings.ReplaceAll(found[1], "&amp;", "&"), form); w.Code != http.StatusSeeOther {
		h.Fatalf("the form = %d\n%s", w.Code, w.Body)
	}
}
