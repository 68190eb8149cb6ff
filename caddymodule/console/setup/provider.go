package setup

import (
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-id/gatehouse/caddymodule/console/frame"
	"github.com/gatehouse-id/gatehouse/identity/config"
	"github.com/gatehouse-id/gatehouse/identity/front"
	"github.com/gatehouse-id/gatehouse/idp"
	"github.com/gatehouse-id/gatehouse/internal/page"
	"github.com/gatehouse-id/gatehouse/storage"
)

// shownProvider is what the screen of a provider is about.
type shownProvider struct {
	config.LoginMethod
	health
}

func providerOf(v *frame.Visit) *shownProvider { return v.About.(*shownProvider) }

// providerScreen is one way to sign in. Those of the Caddyfile are shown and not changed.
func (s *setup) providerScreen() *frame.Screen {
	stored := func(v *frame.Visit) bool { return providerOf(v).Removable }
	return &frame.Screen{
		Name: "provider", Path: providersPath + "/{id}", Role: frame.Viewer, Find: s.findProvider, Show: s.showProvider,
		Acts: []*frame.Act{
			{Name: "test-provider", Role: frame.Operator, When: func(v *frame.Visit) bool {
				return providerOf(v).ID != config.OwnMethod && (stored(v) || providerOf(v).Enabled)
			}, Do: s.testProvider},
			{Name: "edit-provider", Role: frame.Owner, When: editable, May: mayEditProvider, Ask: askEditProvider, Do: s.editProvider},
			{Name: "enable-provider", Role: frame.Owner, When: func(v *frame.Visit) bool { return stored(v) && !providerOf(v).Enabled }, May: mayChangeProvider, Do: s.switchProvider(true)},
			{Name: "disable-provider", Role: frame.Owner, Danger: true, When: func(v *frame.Visit) bool { return stored(v) && providerOf(v).Enabled }, May: mayChangeProvider, Ask: askLinked, Do: s.switchProvider(false)},
			{Name: "remove-provider", Role: frame.Owner, Danger: true, When: stored, May: mayChangeProvider, Ask: askLinked, Do: s.removeProvider},
		},
	}
}

// mayChangeProvider refuses what stands in the Caddyfile, and Gatehouse's own method.
func mayChangeProvider(v *frame.Visit) error {
	if !providerOf(v).Removable {
		return frame.Denied("the provider is not one of the settings")
	}
	return nil
}

func (s *setup) findProvider(v *frame.Visit) error {
	return s.Store.View(v.Context(), func(tx storage.Tx) error {
		u, err := s.Config.Units(tx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(u.LoginMethods.LoginMethods, func(m config.LoginMethod) bool { return m.ID == v.PathValue("id") })
		if i < 0 {
			return front.NotFound()
		}
		p := &shownProvider{LoginMethod: u.LoginMethods.LoginMethods[i]}
		if p.health, err = healthOf(tx, p.ID); err != nil {
			return err
		}
		p.linked, err = linked(tx, p.ID)
		v.About, v.Called = p, nameOf(&p.LoginMethod)
		return err
	})
}

func (s *setup) showProvider(v *frame.Visit) (*page.Console, error) {
	p := providerOf(v)
	m := &p.LoginMethod
	out := &page.Console{Name: v.Called, Up: &page.Up{Label: page.Say("console.providers.title"), URL: frame.Root + providersPath}, Tags: []page.Cell{enabledCell(m.Enabled), originCell(m)}}
	facts := []page.ConsoleFact{
		{Label: "console.field.id", Cells: []page.Cell{{Name: m.ID, Code: true}}},
		{Label: "console.field.kind", Cells: []page.Cell{kindCell(m)}},
	}
	if isDeclared(m) {
		out.Lead = page.Say("console.provider.declared")
		if place := s.PlaceOf("idp " + m.ID); place != "" {
			facts = append(facts, page.ConsoleFact{Label: "console.field.origin", Cells: []page.Cell{{Name: place, Code: true}}})
		}
	}
	facts = append(facts, factsOf(m)...)
	facts = append(facts, s.addresses(m)...)
	if m.ID != config.OwnMethod {
		facts = append(facts, page.ConsoleFact{Label: "console.field.linked", Cells: []page.Cell{linkedCell(p.linked)}})
	}
	seen := []page.ConsoleFact{{Label: "console.column.worked", Cells: []page.Cell{when(p.worked.At)}}}
	failed := page.ConsoleFact{Label: "console.column.failed", Cells: []page.Cell{when(p.failed.At)}}
	if p.failed.Reason != "" {
		failed.Cells[0].Note = p.failed.Reason
	}
	if p.failing() {
		failed.Cells = append(failed.Cells, page.Cell{Text: page.Say("console.provider.failing"), Kind: "warn"})
	}
	out.Parts = []page.ConsolePart{
		{Facts: facts, Actions: v.Buttons()},
		{ID: "health", Title: page.Say("console.provider.health"), Facts: append(seen, failed)},
	}
	keys, ok, err := s.keysPart(v, p)
	if ok {
		out.Parts = append(out.Parts, keys)
	}
	return out, err
}

// factsOf is what a login method says of the provider. Secrets are not among it.
func factsOf(m *config.LoginMethod) (out []page.ConsoleFact) {
	add := func(label, value string) {
		if value != "" {
			out = append(out, page.ConsoleFact{Label: label, Cells: []page.Cell{{Name: value, Code: true}}})
		}
	}
	metadata := func(at string) {
		if strings.HasPrefix(at, "http") {
			add("console.field.metadata_url", at)
		} else if at != "" {
			out = append(out, page.ConsoleFact{Label: "console.field.metadata_url", Cells: []page.Cell{{Text: page.Say("console.provider.inline")}}})
		}
	}
	switch {
	case m.SAML != nil:
		metadata(m.SAML.IDPMetadata)
	case m.DigiD != nil:
		metadata(m.DigiD.IDPMetadata)
	case m.EIDAS != nil:
		metadata(m.EIDAS.IDPMetadata)
	case m.OIDC != nil:
		add("console.field.issuer", m.OIDC.Issuer)
		add("console.field.metadata_url", m.OIDC.DiscoveryURL)
		add("console.field.provider_client", m.OIDC.ClientID)
		add("console.field.key_pair", m.OIDC.SigningKeyID)
	case m.LDAP != nil:
		add("console.field.servers", m.LDAP.ServerURLs)
		add("console.field.base", m.LDAP.BaseSuffix)
	}
	return out
}

// addresses are what the provider has to know of us.
func (s *setup) addresses(m *config.LoginMethod) []page.ConsoleFact {
	fact := func(label, path string) page.ConsoleFact {
		return page.ConsoleFact{Label: label, Cells: []page.Cell{{Name: s.Issuer + path, Code: true}}}
	}
	id := url.PathEscape(m.ID)
	switch m.Type {
	case config.TypeSAML, config.TypeDigiD, config.TypeEIDAS:
		return []page.ConsoleFact{fact("console.field.our_metadata", "/saml/"+id+"/metadata"), fact("console.field.our_acs", "/saml/"+id+"/acs")}
	case config.TypePassword, config.TypeHeader, config.TypeLDAP, config.TypeKerberos, config.TypeQRCode:
		return nil
	}
	return []page.ConsoleFact{fact("console.field.our_redirect", "/oidc/"+id+"/callback")}
}

// testProvider tries what a sign-in needs, and shows each step.
func (s *setup) testProvider(v *frame.Visit, _ url.Values) (frame.Result, error) {
	p := providerOf(v)
	steps, err := idp.Steps(nil), error(nil)
	if p.Removable {
		steps, err = s.Providers.Try(v.Context(), p.LoginMethod)
	} else {
		steps = s.Providers.Test(v.Context(), p.ID)
	}
	if err != nil {
		steps.Fail("configuration", err, "")
	}
	out := &page.Console{Title: page.Say("console.steps.title"), Up: v.Up()}
	switch {
	case len(steps) == 0:
		out.Lead = page.Say("console.steps.nothing", "name", v.Called)
	case steps.Err() != nil:
		out.Problem = page.Say("console.steps.bad", "name", v.Called)
	default:
		out.Done = page.Say("console.steps.good", "name", v.Called)
	}
	if len(steps) > 0 {
		part := stepsPart(steps)
		part.ID, part.Title = "", page.Text{}
		out.Parts = []page.ConsolePart{part}
	}
	out.Actions = []page.Action{{Label: "console.steps.again", URL: v.Path() + "/test-provider"}}
	return frame.Result{Page: out}, nil
}

// askLinked says how many people cannot sign in by the provider any more.
func askLinked(v *frame.Visit) (frame.Question, error) {
	return frame.Question{Fill: []any{"n", linkedCell(providerOf(v).linked).Name}}, nil
}

// edit changes the login method that the screen is about, if it is still there.
func (s *setup) edit(v *frame.Visit, fn func(list []config.LoginMethod, at int) []config.LoginMethod) error {
	_, err := s.Config.Edit(write(v), v.Actor(), func(u *config.Units) error {
		list := u.LoginMethods.LoginMethods
		at := slices.IndexFunc(list, func(m config.LoginMethod) bool { return m.ID == providerOf(v).ID && m.Removable })
		if at < 0 {
			return &frame.Problem{Key: "console.problem.gone"}
		}
		u.LoginMethods.LoginMethods = fn(list, at)
		return nil
	})
	return refused("", err)
}

func (s *setup) switchProvider(on bool) func(*frame.Visit, url.Values) (frame.Result, error) {
	return func(v *frame.Visit, _ url.Values) (frame.Result, error) {
		return frame.Result{}, s.edit(v, func(list []config.LoginMethod, at int) []config.LoginMethod {
			list[at].Enabled = on
			return list
		})
	}
}

func (s *setup) removeProvider(v *frame.Visit, _ url.Values) (frame.Result, error) {
	return frame.Result{To: frame.Root + providersPath}, s.edit(v, func(list []config.LoginMethod, at int) []config.LoginMethod { return slices.Delete(list, at, at+1) })
}
