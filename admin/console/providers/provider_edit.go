package providers

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/members"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// methodPath is the path of a login method in the settings.
const methodPath = "login_methods.login_methods[]"

var (
	// fixedMembers are those that no form changes: other pages switch a method on, and its type is what it is.
	fixedMembers = []string{"id", "type", "enabled", "removable"}
	// ownMembers are those that mean something where people sign in with a password that is kept here.
	ownMembers = []string{"name", "auto_activation_enabled", "custom_attribute_fields"}
	// parts are the parts of the form. How to reach a provider stands before what happens to people who come from it.
	parts = []members.Group{
		{Fields: []string{"name", "saml_attributes."}},
		{},
		{Fields: []string{
			"administrators_enabled", "auto_", "synchronise_attributes", "migration_", "force_", "authentication_level",
			"identity_assurance_level",
		}},
		{Name: "details", Fields: []string{"attribute_mappings", "custom_attribute_", "excluded_unmapped_attributes"}},
	}
)

// editable reports whether a method is one of the settings, Gatehouse's own among them.
func editable(v *layout.Visit) bool { return !isDeclared(&providerOf(v).LoginMethod) }

func mayEditProvider(v *layout.Visit) error {
	if !editable(v) {
		return layout.Denied("the provider is not one of the settings")
	}
	return nil
}

// formOf is the form of a method: its members, and those of the attribute object of its type, that do something.
func formOf(m *settings.LoginMethod, in url.Values) *members.Form {
	return &members.Form{Path: methodPath, In: in, Skip: func(path string) bool {
		path = strings.TrimPrefix(path, methodPath+".")
		first, _, _ := strings.Cut(path, "[")
		return slices.Contains(fixedMembers, path) || m.ID == settings.OwnMethod && !slices.Contains(ownMembers, first)
	}}
}

// markOf tells states of a login method apart, whatever its secrets are.
func markOf(m *settings.LoginMethod) (string, error) {
	raw, err := json.Marshal(m)
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8]), err
}

// askEditProvider asks for the members of a login method. A form that was opened before a change by someone else shows
// both values.
func askEditProvider(v *layout.Visit) (layout.Question, error) {
	m := &providerOf(v).LoginMethod
	mark, err := markOf(m)
	if err != nil {
		return layout.Question{}, err
	}
	q := layout.Question{Submit: "console.save", Hidden: []web.Hidden{{Name: "seen", Value: mark}}}
	var in url.Values
	if v.Method == http.MethodPost {
		in = v.PostForm
	}
	sent := in.Get("seen")
	q.Fields, q.Parts = formOf(m, in).Again(reflect.ValueOf(m.WithAttributes()).Elem(), sent != "" && sent != mark)
	members.Grouped(parts, q.Fields)
	return q, nil
}

// editProvider saves the members that differ from what the form has shown. An empty secret stays as it is stored.
func (s *setup) editProvider(v *layout.Visit, in url.Values) (layout.Result, error) {
	if mark, err := markOf(&providerOf(v).LoginMethod); err == nil && mark == in.Get("seen") && members.Pressed(in) {
		q, err := askEditProvider(v)
		return layout.Result{Ask: &q}, err
	}
	next := providerOf(v).WithAttributes()
	form := formOf(next, in)
	_, err := s.Config.Edit(write(v), v.Actor(), func(u *settings.Units) error {
		list := u.LoginMethods.LoginMethods
		at := slices.IndexFunc(list, func(m settings.LoginMethod) bool { return m.ID == providerOf(v).ID && !isDeclared(&m) })
		if at < 0 {
			return &layout.Problem{Key: "console.problem.gone"}
		}
		if mark, err := markOf(&list[at]); err != nil || mark != in.Get("seen") {
			return errors.Join(err, &layout.Problem{Key: "console.settings.moved"})
		}
		next = list[at].WithAttributes()
		if wrong := form.Read(reflect.ValueOf(next).Elem()); wrong != nil { // it empties the secrets that were not typed
			return wrong
		}
		before := reflect.ValueOf(list[at].WithAttributes()).Elem()
		if form.Secret || members.Changed(before, reflect.ValueOf(next).Elem()) != nil {
			list[at] = *next
		}
		return nil
	})
	return layout.Result{}, form.Refused(reflect.ValueOf(next).Elem(), err)
}
