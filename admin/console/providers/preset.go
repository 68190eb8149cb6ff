package providers

import (
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/admin/console/members"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// preset is a kind of provider that is known, so no metadata are asked for.
type preset struct {
	kind     string // in the Caddyfile
	method   string // type of the login method
	mappings [][2]string
}

// claims of an OpenID provider that become details of a person.
var claims = [][2]string{{"email", "email"}, {"given_name", "given_name"}, {"family_name", "family_name"}}

var presets = []preset{
	{"apple", settings.TypeApple, [][2]string{{"email", "email"}}},
	{"azure_ad_b2c", settings.TypeAzureADB2C, claims},
	{"discord", settings.TypeDiscord, [][2]string{{"email", "email"}, {"global_name", "name"}}},
	{"facebook", settings.TypeFacebook, [][2]string{{"email", "email"}, {"first_name", "given_name"}, {"last_name", "family_name"}}},
	{"github", settings.TypeGitHub, [][2]string{{"email", "email"}, {"name", "name"}}},
	{"google", settings.TypeGoogle, claims},
	{"itsme", settings.TypeItsme, claims},
	{"kerberos", settings.TypeKerberos, nil},
	{"ldap", settings.TypeLDAP, [][2]string{{"mail", "email"}, {"givenName", "given_name"}, {"sn", "family_name"}}},
	{"linkedin", settings.TypeLinkedIn, claims},
	{"microsoft", settings.TypeMicrosoft, [][2]string{{"email", "email"}, {"name", "name"}}},
	{"twitter", settings.TypeTwitter, [][2]string{{"data.confirmed_email", "email"}, {"data.name", "name"}}},
}

func (p *preset) name() string { return kinds[p.method] }

// presetOf returns the preset of a kind, or nil.
func presetOf(kind string) *preset {
	i := slices.IndexFunc(presets, func(p preset) bool { return p.kind == kind })
	if i < 0 {
		return nil
	}
	return &presets[i]
}

// made returns a login method of the preset, with the details that it usually maps.
func (p *preset) made() *settings.LoginMethod {
	m := settings.LoginMethod{Type: p.method, Removable: true}
	for _, one := range p.mappings {
		m.AttributeMappings = append(m.AttributeMappings, settings.AttributeMapping{MapFrom: one[0], MapTo: one[1]})
	}
	return m.WithAttributes()
}

// own is the form of the attribute object of a method: what is asked for a new one.
func own(m *settings.LoginMethod, in url.Values) *members.Form {
	form := formOf(m, in)
	skip := form.Skip
	form.Skip = func(path string) bool {
		return skip(path) || !strings.Contains(path, "_attributes.") || strings.HasSuffix(path, "_mappings") ||
			strings.HasPrefix(path, methodPath+".saml_mutual_ssl_tls_attributes.")
	}
	return form
}

// askPreset asks for what a kind of provider needs.
func (s *setup) askPreset(p *preset) layout.Question {
	q := layout.Question{
		Hidden: []web.Hidden{{Name: "found", Value: "yes"}, {Name: "kind", Value: p.kind}},
		Fields: []web.Field{
			{Name: "provider_name", Required: true, MaxLength: 128, Value: p.name()},
			{Name: "provider_id", Required: true, MaxLength: 64, Hint: "console.field.provider_id.hint", Value: notID.ReplaceAllString(p.kind, "-")},
		},
	}
	if q.Facts = s.addresses(&settings.LoginMethod{ID: q.Fields[1].Value, Type: p.method}); len(q.Facts) > 0 {
		q.Facts[0].Cells[0].Hint = web.Say("console.provider.callback")
	}
	m := p.made()
	for _, f := range own(m, nil).Fields(reflect.ValueOf(m).Elem()) {
		if f.Type == "password" {
			f.Hint = ""
		}
		q.Fields = append(q.Fields, f)
	}
	q.Fields = append(q.Fields, web.Field{
		Name: "enabled", Type: "checkbox", Label: "console.field.provider_on", Hint: "console.field.provider_on.hint",
	})
	return q
}

// addPreset adds a provider of a known kind.
func (s *setup) addPreset(v *layout.Visit, p *preset, in url.Values) (layout.Result, error) {
	m := p.made()
	m.ID, m.Name, m.Enabled = strings.TrimSpace(in.Get("provider_id")), strings.TrimSpace(in.Get("provider_name")), in.Has("enabled")
	form, of := own(m, in), reflect.ValueOf(m).Elem()
	if wrong := form.Read(of); wrong != nil {
		return layout.Result{}, wrong
	}
	return layout.Result{To: pathOf(providersPath, m.ID)}, form.Refused(of, s.addMethod(v, *m))
}
