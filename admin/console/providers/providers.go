package providers

import (
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gatehouse-id/gatehouse/admin/console/layout"
	"github.com/gatehouse-id/gatehouse/identity/personindex"
	"github.com/gatehouse-id/gatehouse/identity/settings"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/audit"
	"github.com/gatehouse-id/gatehouse/internal/jsonapi"
	"github.com/gatehouse-id/gatehouse/internal/logo"
	"github.com/gatehouse-id/gatehouse/internal/stats"
	"github.com/gatehouse-id/gatehouse/internal/web"
	"github.com/gatehouse-id/gatehouse/storage"
)

const (
	providersPath = "/providers"
	maxLinked     = 1000                // identities that are counted
	unnamed       = "gatehouse-unnamed" // id of a provider that is not added yet
	discoveryPath = "/.well-known/openid-configuration"
)

// kinds are the types of login methods as people know them. Others are shown as they are.
var kinds = map[string]string{
	settings.TypeSAML: "SAML 2.0", settings.TypeOIDC: "OpenID Connect", settings.TypeLDAP: "LDAP", settings.TypeAzureADB2C: "Azure AD B2C",
	settings.TypeApple:    "Apple",
	settings.TypeFacebook: "Facebook", settings.TypeGoogle: "Google", settings.TypeLinkedIn: "LinkedIn", settings.TypeTwitter: "X",
	settings.TypeMicrosoft: "Microsoft", settings.TypeItsme: "itsme", settings.TypeGitHub: "GitHub", settings.TypeDiscord: "Discord",
	settings.TypeKerberos: "Kerberos",
	settings.TypeDigiD:    "DigiD", settings.TypeEIDAS: "eIDAS",
}

func kindCell(m *settings.LoginMethod) web.Cell {
	switch m.Type {
	case settings.TypePassword:
		return web.Cell{Text: web.Say("console.provider.own")}
	case settings.TypeHeader:
		return web.Cell{Text: web.Say("console.provider.header")}
	}
	if name := kinds[m.Type]; name != "" {
		return web.Cell{Name: name}
	}
	return web.Cell{Name: m.Type}
}

// isDeclared reports whether a method stands in the Caddyfile.
func isDeclared(m *settings.LoginMethod) bool { return !m.Removable && m.ID != settings.OwnMethod }

func originCell(m *settings.LoginMethod) web.Cell {
	key := "console.origin.settings"
	switch {
	case m.ID == settings.OwnMethod:
		key = "console.origin.builtin"
	case isDeclared(m):
		key = "console.origin.configuration"
	}
	return web.Cell{Text: web.Say(key), Kind: "plain"}
}

func enabledCell(on bool) web.Cell {
	if on {
		return web.Cell{Text: web.Say("console.client.enabled"), Kind: "good"}
	}
	return web.Cell{Text: web.Say("console.client.disabled"), Kind: "bad"}
}

// health is the time of the last sign-in, and of the last failure, of a provider.
type health struct {
	worked, failed stats.Last
	linked         int
}

// failing reports whether the last thing that happened was a failure.
func (h *health) failing() bool { return h.failed.At.After(h.worked.At) }

func healthOf(tx storage.Tx, id string) (h health, err error) {
	if h.worked, _, err = stats.LastOf(tx, audit.CountSignIn, stats.Provider, id); err == nil {
		h.failed, _, err = stats.LastOf(tx, audit.CountFailed, stats.Provider, id)
	}
	return h, err
}

// providersScreen is the list of the ways to sign in.
func (s *setup) providersScreen() *layout.Screen {
	return &layout.Screen{
		Name: "providers", Path: providersPath, Icon: "enter", Role: layout.Viewer, Show: s.showProviders,
		Acts: []*layout.Act{{Name: "add-provider", Role: layout.Owner, Ask: s.askProvider, Do: s.addProvider}},
	}
}

func (s *setup) showProviders(v *layout.Visit) (*web.Console, error) {
	var list []settings.LoginMethod
	var states []health
	var icons map[string]*web.Logo
	err := s.Store.View(v.Context(), func(tx storage.Tx) error {
		u, err := s.Config.Units(tx)
		if err != nil {
			return err
		}
		if icons, err = logo.All(tx, web.ProviderLogo); err != nil {
			return err
		}
		list, states = u.LoginMethods.LoginMethods, nil
		for i := range list {
			h, err := healthOf(tx, list[i].ID)
			if err != nil {
				return err
			}
			states = append(states, h)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	t := &web.Table{
		Label: web.Say("console.providers.title"),
		Columns: []string{
			"console.column.provider", "console.field.kind", "console.column.state", "console.field.origin",
			"console.column.worked", "console.column.failed",
		},
	}
	for i := range list {
		m, failed := &list[i], when(states[i].failed.At)
		if states[i].failing() {
			failed.Kind = "warn"
		}
		t.Rows = append(t.Rows, web.TableRow{URL: pathOf(providersPath, m.ID), Cells: []web.Cell{
			{Name: nameOf(m), Note: m.ID, Logo: s.iconOf(m, icons[m.ID])},
			kindCell(m), enabledCell(m.Enabled), originCell(m), when(states[i].worked.At), failed,
		}})
	}
	return &web.Console{
		Title: web.Say("console.providers.title"), Lead: web.Say("console.providers.text"), Actions: v.Buttons(),
		Parts: []web.ConsolePart{{Table: t}},
	}, nil
}

func nameOf(m *settings.LoginMethod) string {
	if m.Name == "" {
		return m.ID
	}
	return m.Name
}

// askProvider asks for the kind and, for SAML and OpenID Connect, where the metadata are. What they say is shown before
// anything is saved.
func (s *setup) askProvider(v *layout.Visit) (layout.Question, error) {
	if v.PostForm.Get("found") != "" {
		if p := presetOf(v.PostForm.Get("kind")); p != nil {
			return s.askPreset(p), nil
		}
		return askFound(v.PostForm, nil), nil
	}
	kinds := []web.Option{{Value: "oidc", Label: "console.provider.oidc"}, {Value: "saml", Label: "console.provider.saml"}}
	for i := range presets {
		kinds = append(kinds, web.Option{Value: presets[i].kind, Label: presets[i].name()})
	}
	return layout.Question{Submit: "console.provider.look", Fields: []web.Field{
		{Name: "kind", Type: "select", Options: kinds},
		{Name: "metadata_url", Hint: "console.field.metadata_url.hint", MaxLength: 2048, InputMode: "url"},
	}}, nil
}

// askFound shows what the metadata say, and asks for the rest.
func askFound(in url.Values, steps idp.Steps) layout.Question {
	q := layout.Question{
		Hidden: []web.Hidden{{Name: "found", Value: "yes"}, {Name: "kind", Value: in.Get("kind")}},
		Fields: []web.Field{
			{Name: "metadata_url", ReadOnly: true, Value: in.Get("metadata_url")},
			{Name: "provider_name", Required: true, MaxLength: 128},
			{Name: "provider_id", Required: true, MaxLength: 64, Hint: "console.field.provider_id.hint", Value: suggested(in.Get("metadata_url"))},
		},
	}
	if in.Get("kind") == "oidc" {
		q.Fields = append(q.Fields, web.Field{Name: "client_id", Label: "console.field.provider_client", Required: true, MaxLength: 256},
			web.Field{Name: "client_secret", Type: "password", Hint: "console.field.client_secret.hint"})
	}
	q.Fields = append(q.Fields, web.Field{
		Name: "enabled", Type: "checkbox", Label: "console.field.provider_on",
		Hint: "console.field.provider_on.hint",
	})
	if len(steps) > 0 {
		q.Parts = []web.ConsolePart{stepsPart(steps)}
	}
	return q
}

// notID matches the characters that an id of a provider does not have.
var notID = regexp.MustCompile(`[^a-z0-9]+`)

// suggested is an id for the provider at an address: the part of its host that names it.
func suggested(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	labels := strings.Split(u.Hostname(), ".")
	if n := len(labels); n > 2 {
		return strings.Trim(notID.ReplaceAllString(labels[n-2], "-"), "-")
	}
	return strings.Trim(notID.ReplaceAllString(labels[0], "-"), "-")
}

// methodOf is the login method of a form.
func methodOf(in url.Values) settings.LoginMethod {
	at := strings.TrimSpace(in.Get("metadata_url"))
	m := settings.LoginMethod{
		ID: strings.TrimSpace(in.Get("provider_id")), Name: strings.TrimSpace(in.Get("provider_name")),
		Enabled: in.Has("enabled"), Removable: true,
		Type: settings.TypeSAML, SAML: &settings.SAMLAttributes{IDPMetadata: at},
	}
	if in.Get("kind") == "oidc" {
		m.Type, m.SAML = settings.TypeOIDC, nil
		m.OIDC = &settings.OIDCAttributes{
			ClientID: strings.TrimSpace(in.Get("client_id")), ClientSecret: jsonapi.Secret(in.Get("client_secret")),
			ClientAuthenticationMethod: "CLIENT_SECRET_BASIC",
		}
		if m.OIDC.ClientSecret == "" {
			m.OIDC.ClientAuthenticationMethod = "PRIVATE_KEY_JWT"
		}
		if strings.HasSuffix(at, discoveryPath) {
			m.OIDC.DiscoveryURL = at
		} else {
			m.OIDC.Issuer = at
		}
	}
	return m
}

// addProvider shows what the metadata say, and at the second time adds the provider.
func (s *setup) addProvider(v *layout.Visit, in url.Values) (layout.Result, error) {
	if p := presetOf(in.Get("kind")); p != nil {
		if in.Get("found") == "" {
			ask := s.askPreset(p)
			return layout.Result{Ask: &ask}, nil
		}
		return s.addPreset(v, p, in)
	}
	m := methodOf(in)
	if !strings.HasPrefix(in.Get("metadata_url"), "https://") {
		return layout.Result{}, &layout.Problem{Field: "metadata_url", Key: "console.problem.https"}
	}
	if in.Get("found") == "" {
		m.ID = unnamed
		steps, err := s.Providers.Try(v.Context(), m)
		if err == nil {
			err = steps.Err()
		}
		steps = slices.DeleteFunc(steps, func(s idp.Step) bool { return strings.Contains(s.What, "/"+unnamed) })
		if err != nil {
			return layout.Result{}, &layout.Problem{
				Field: "metadata_url", Key: "console.problem.metadata", Fill: []any{"reason", web.Foreign(err.Error())},
			}
		}
		ask := askFound(in, steps)
		return layout.Result{Ask: &ask}, nil
	}
	return layout.Result{To: pathOf(providersPath, m.ID)}, refused("", s.addMethod(v, m))
}

// addMethod stores a login method whose id is new.
func (s *setup) addMethod(v *layout.Visit, m settings.LoginMethod) error {
	if m.ID == "" {
		return &layout.Problem{Field: "provider_id", Key: "console.problem.value"}
	}
	_, err := s.Config.Edit(write(v), v.Actor(), func(u *settings.Units) error {
		if slices.ContainsFunc(u.LoginMethods.LoginMethods, func(o settings.LoginMethod) bool { return o.ID == m.ID }) {
			return &layout.Problem{Field: "provider_id", Key: "console.problem.provider_taken"}
		}
		u.LoginMethods.LoginMethods = append(u.LoginMethods.LoginMethods, m)
		return nil
	})
	return err
}

// stepsPart lists what a test has tried. Steps are English: they name options.
func stepsPart(steps idp.Steps) web.ConsolePart {
	t := &web.Table{
		Label:   web.Say("console.steps.title"),
		Columns: []string{"console.column.step", "console.column.outcome", "console.column.found", "console.column.fix"},
	}
	for _, one := range steps {
		kind := map[string]string{idp.StepOK: "good", idp.StepWarning: "warn", idp.StepFailed: "bad"}[one.Result]
		t.Rows = append(t.Rows, web.TableRow{Cells: []web.Cell{
			{Name: one.Name},
			{Text: web.Say("console.step." + one.Result), Kind: kind},
			{Name: one.What},
			{Name: one.Fix, Quoted: true},
		}})
	}
	return web.ConsolePart{ID: "steps", Title: web.Say("console.steps.title"), Table: t}
}

// linkedCell shows the number of identities that sign people in by a provider.
func linkedCell(n int) web.Cell {
	text := strconv.Itoa(n)
	if n == maxLinked {
		text += "+"
	}
	return web.Cell{Name: text}
}

func linked(tx storage.Tx, id string) (int, error) { return personindex.Linked(tx, id, maxLinked) }
