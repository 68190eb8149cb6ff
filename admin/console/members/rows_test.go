package members_test

import (
	"encoding/json"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/gatehouse-id/gatehouse/admin/console/members"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/internal/web"
)

// sent returns what a browser sends of fields that are as the page has shown them.
func sent(fields []web.Field) url.Values {
	in := url.Values{}
	for _, f := range fields {
		switch f.Type {
		case "rows":
			in.Set(f.Name, "rows")
			for _, row := range f.Rows {
				in.Set(row.Name, row.Origin)
				for name, values := range sent(row.Fields) {
					in[name] = values
				}
			}
		case "checkbox":
			if f.Checked {
				in.Set(f.Name, "yes")
			}
		case "checks":
			for _, o := range f.Options {
				if o.Checked {
					in.Set(f.Name+"."+o.Value, "yes")
				}
			}
		default:
			in.Set(f.Name, strings.ReplaceAll(strings.ReplaceAll(f.Value, "\r", ""), "\n", "\r\n"))
		}
	}
	return in
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// method is a login method with mappings, of which forms leave the ids out.
func method() *settings.LoginMethod {
	return &settings.LoginMethod{
		ID: "corp", Type: settings.TypeSAML,
		AttributeMappings: []settings.AttributeMapping{
			{ID: "1", MapFrom: " mail", MapTo: "email", Editable: true}, {ID: "2", MapFrom: "sn", MapTo: "family_name"},
		},
		CustomAttributeMappings: []settings.CustomAttributesMapping{}, CustomAttributeFields: []settings.CustomAttributeField{},
		ExcludedUnmappedAttributes: []string{"groups", "photo"},
		SAML:                       &settings.SAMLAttributes{AuthenticationLevelMappings: []settings.AuthenticationLevelMapping{}},
	}
}

// organisation is an entry with lists of its own, and names that come from people.
func organisation() *settings.Organisation {
	told := map[string]settings.IdentityAttribute{
		"urn:oid:{1}.2": {
			ID: "x", AttributeName: "email", Required: true, SAMLAttributeNames: map[string]string{"uri": "urn:a=b", "basic": "mail"},
		},
		"phone": {SAMLAttributeNames: map[string]string{}},
	}
	return &settings.Organisation{
		ID: "acme", Name: "Acme", LogoSquareBase64: "aGk=",
		ServiceProviders: map[string]settings.ServiceProvider{
			"wiki": {ID: "wiki", Type: "oidc", UseTrustedDevice: "TRUE", IdentityAttributes: told},
		},
		UserProfileAttributes: settings.UserProfileAttributes{IdentityAttributes: told},
	}
}

// TestUnchanged: a form that is sent as its page shows it changes nothing, whatever it leaves out.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		path string
		of   func() any
	}{
		"method":        {"login_methods.login_methods[]", func() any { return method() }},
		"organisation":  {"organisations[]", func() any { return organisation() }},
		"organisations": {"organisations", func() any { return &[]settings.Organisation{*organisation()} }},
		"service provider": {"organisations[].service_providers{}", func() any {
			sp := organisation().ServiceProviders["wiki"]
			return &sp
		}},
		"rules": {"profile", func() any {
			return &settings.Profile{Rules: []settings.AttributeRule{{AnyOf: []string{"PHONE", "EMAIL"}}, {AnyOf: []string{}}}}
		}},
		"addresses": {"redirects", func() any {
			return &settings.Redirects{URLWhitelist: []settings.WhitelistedURL{{ID: "1", URL: "https://a.example"}}}
		}},
	} {
		of := c.of()
		v := reflect.ValueOf(of).Elem()
		fields := (&members.Form{Path: c.path, Name: "n"}).Fields(v)
		f := &members.Form{Path: c.path, Name: "n", In: sent(fields)}
		if wrong := f.Read(v); wrong != nil || asJSON(t, of) != asJSON(t, c.of()) {
			t.Errorf("%s: %v, and it is\n%s, want\n%s", name, wrong, asJSON(t, of), asJSON(t, c.of()))
		}
		again := (&members.Form{Path: c.path, Name: "n", In: f.In}).Fields(v)
		if !reflect.DeepEqual(sent(again), f.In) {
			t.Errorf("%s: shown again, the form sends\n%v, want\n%v", name, sent(again), f.In)
		}
	}
}

// TestRows: the buttons of rows add, remove and move what was typed, and saving takes the rows as they are then.
func TestRows(t *testing.T) {
	t.Parallel()
	const list, kept = "n.attribute_mappings", " mail=email sn=family_name"
	const add = "add " + list
	for name, c := range map[string]struct {
		press []string
		typed map[string]string
		want  string // what is mapped, or the field with a problem
	}{
		"nothing":       {want: kept},
		"removed":       {press: []string{"remove " + list + "[0]"}, want: "sn=family_name"},
		"all removed":   {press: []string{"remove " + list + "[0]", "remove " + list + "[0]"}, want: ""},
		"down":          {press: []string{"down " + list + "[0]"}, want: "sn=family_name  mail=email"},
		"up":            {press: []string{"up " + list + "[1]"}, want: "sn=family_name  mail=email"},
		"up at the top": {press: []string{"up " + list + "[0]"}, want: kept},
		"of no list": {
			press: []string{"remove", "up [", "down n[x]", "add", "remove " + list + "[9]", "fly " + list + "[0]"}, want: kept,
		},
		"added and empty": {press: []string{add}, want: kept},
		"added": {
			press: []string{add}, typed: map[string]string{"[2].map_from": "tel", "[2].map_to": "phone_number"},
			want: kept + " tel=phone_number",
		},
		"added before": {
			press: []string{add, "up " + list + "[2]"}, typed: map[string]string{"[1].map_from": "tel"},
			want: " mail=email tel= sn=family_name",
		},
		"changed": {typed: map[string]string{"[1].map_from": "surname"}, want: " mail=email surname=family_name"},
		"twice": {
			press: []string{add}, typed: map[string]string{"[2].map_from": "sn", "[2].map_to": "family_name"}, want: list + "[2].map_from",
		},
		"the same, but for a box": {
			typed: map[string]string{"[0].map_from": "sn", "[0].map_to": "family_name"}, want: "sn=family_name sn=family_name",
		},
	} {
		m := method()
		v := reflect.ValueOf(m).Elem()
		f := &members.Form{Path: "login_methods.login_methods[]", Name: "n"}
		f.In = sent(f.Fields(v))
		for _, press := range c.press {
			if f.In.Set("row", press); strings.Contains(press, " ") != members.Pressed(f.In) {
				t.Errorf("%s: %q is no button", name, press)
			}
		}
		for field, value := range c.typed {
			f.In.Set(list+field, value)
		}
		wrong, got := f.Read(v), ""
		for i, one := range m.AttributeMappings {
			got += map[bool]string{true: " "}[i > 0] + one.MapFrom + "=" + one.MapTo
		}
		if wrong != nil {
			got = wrong.Field
		}
		if got != c.want {
			t.Errorf("%s: the mappings are %q, want %q", name, got, c.want)
		}
		for _, one := range m.AttributeMappings {
			if one.MapFrom == " mail" && (one.ID != "1" || !one.Editable) {
				t.Errorf("%s: a row that stays has lost what no field shows: %+v", name, one)
			}
		}
	}
}

// TestNamedRows: entries with names of their own are renamed with their rest, and two of one name are refused.
func TestNamedRows(t *testing.T) {
	t.Parallel()
	const list = "n.service_providers"
	for name, c := range map[string]struct {
		typed map[string]string
		want  string // the names and ids, or the field with a problem
	}{
		"renamed":      {map[string]string{"[0].key": "docs"}, "docs/docs/oidc"},
		"added":        {map[string]string{"[1]": "", "[1].key": "docs"}, "docs/docs/ wiki/wiki/oidc"},
		"twice":        {map[string]string{"[1]": "", "[1].key": "wiki"}, list + "[1].key"},
		"without name": {map[string]string{"[0].key": ""}, list + "[0].key"},
		"unknown":      {map[string]string{"[1]": ":root", "[1].key": "docs"}, "docs/docs/ wiki/wiki/oidc"},
	} {
		o := organisation()
		v := reflect.ValueOf(o).Elem()
		f := &members.Form{Path: "organisations[]", Name: "n"}
		f.In = sent(f.Fields(v))
		for field, value := range c.typed {
			f.In.Set(list+field, value)
		}
		var got []string
		wrong := f.Read(v)
		for _, key := range []string{"docs", "root", "wiki"} {
			if sp, ok := o.ServiceProviders[key]; ok {
				got = append(got, key+"/"+sp.ID+"/"+sp.Type)
			}
		}
		if wrong != nil {
			got = []string{wrong.Field}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", name, got, c.want)
		}
	}
}

// TestEntry: the place of an entry leads to it, and what is changed there is changed in the whole.
func TestEntry(t *testing.T) {
	t.Parallel()
	list := []settings.Organisation{*organisation()}
	for place, want := range map[string]string{
		"": "organisations", "[0]": "organisations[]", "[0].service_providers{wiki}": "organisations[].service_providers{}",
		"[0].user_profile_attributes.identity_attributes{urn%3Aoid%3A%7B1%7D.2}": "organisations[].user_profile_attributes.identity_attributes{}",
		"[1]": "", "[-1]": "", "[x]": "", "x": "", "[0].nothing": "", "[0].service_providers{none}": "",
		"[0].service_providers{%}": "", "{": "", "[": "",
	} {
		got := ""
		ok := members.Entry(reflect.ValueOf(&list).Elem(), place, "organisations", "", func(v reflect.Value, path, _ string) {
			if got = path; path == "organisations[].service_providers{}" {
				v.FieldByName("Name").SetString("The wiki")
			}
		})
		if got != want || ok != (want != "") {
			t.Errorf("Entry(%q) = %q, %t, want %q", place, got, ok, want)
		}
	}
	if name := list[0].ServiceProviders["wiki"].Name; name != "The wiki" {
		t.Errorf("the changed entry is called %q", name)
	}
}
